"""What an address asks for: filters, order and page of a gallery."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Depends, Query

from gsat.web.scored import LONGEST_SEARCH, Filter, Sort

PAGE: Final = 24  # graphs of a page
Share = Annotated[float, Query(ge=0, le=1)]
Class = Annotated[str, Query(max_length=9, pattern=r"^\d*$", description="The number of a class.")]


def rows(
    predicted: Class = "",
    true: Class = "",
    right: Annotated[Literal["", "yes", "no"], Query(description="Is the prediction right?")] = "",
    min_confidence: Share = 0.0,
    max_confidence: Share = 1.0,
    min_auc: Share = 0.0,
    max_auc: Share = 1.0,
    search: Annotated[
        str, Query(max_length=LONGEST_SEARCH, description="A number, identifier or SMILES.")
    ] = "",
    sort: Annotated[Sort, Query(description="What to sort by.")] = "number",
    descending: Annotated[bool, Query(description="The highest first.")] = False,
) -> Filter:
    """Read which rows are wanted from an address.

    Args:
        predicted: The number of the predicted class. (default: all)
        true: The number of the true class. (default: all)
        right: ``"yes"``, ``"no"`` or all. (default: all)
        min_confidence: The lowest confidence. (default: ``0.0``)
        max_confidence: The highest confidence. (default: ``1.0``)
        min_auc: The lowest explanation AUC. (default: ``0.0``)
        max_auc: The highest explanation AUC. (default: ``1.0``)
        search: A number, a part of an identifier, or a SMILES. (default: all)
        sort: What to sort by. (default: ``"number"``)
        descending: Whether the highest come first. (default: ``False``)
    """
    return Filter(
        predicted=int(predicted) if predicted else None,
        true=int(true) if true else None,
        right={"yes": True, "no": False}.get(right),
        confidence=(min_confidence, max_confidence),
        auc=(min_auc, max_auc),
        search=search,
        sort=sort,
        descending=descending,
    )


Rows = Annotated[Filter, Depends(rows)]
