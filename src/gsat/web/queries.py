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
    """Read which rows are wanted from an address."""
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
