"""The parameters of an audit: each is printed with the measures it belongs to."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from gsat.core.settings import Settings


class AuditSettings(Settings):
    """Parameters of an audit."""

    graphs: PositiveInt = Field(
        1000, le=1_000_000, description="Maximum number of graphs; larger splits are sampled."
    )
    shares: tuple[float, ...] = Field(
        (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9),
        strict=False,  # lists, as JSON has them, are accepted
        description="Shares of the units (edges or nodes) kept, and removed, in the curves; none "
        "to skip the curves.",
    )
    orders: PositiveInt = Field(
        1, le=1000, description="Random orders that the curves are compared with."
    )
    draws: PositiveInt = Field(
        5,
        le=1000,
        description="Draws of RFid, of random attention and of edges, that are averaged.",
    )
    rfid_remove: float = Field(
        0.1,
        gt=0,
        le=1,
        description="RFid+: an explanation's edge is removed with this probability.",
    )
    rfid_keep: float = Field(
        0.9, ge=0, lt=1, description="RFid-: any other edge is kept with this probability."
    )
    est_budget: PositiveInt = Field(50, le=10_000, description="EST: draws for each graph.")
    est_keep: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="EST: a node, or an edge, outside of the explanation is kept with this "
        "probability.",
    )
    seed: int = Field(0, ge=0, description="Decides every draw, and which graphs are audited.")

    @classmethod
    def quick(cls) -> AuditSettings:
        """Settings of a short audit, at the cost of about ten evaluations of 200 graphs.

        All measures of the verdict are there, with more noise: fewer draws, and no curves.
        """
        values = {"graphs": 200, "shares": (), "draws": 2, "est_budget": 2}
        return cls.model_validate(values)


DEFAULTS = AuditSettings.model_validate({})
