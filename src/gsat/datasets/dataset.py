"""A data set in memory: its graphs, its task and its splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.datasets.source import Match
from gsat.graphs import GraphStore
from gsat.molecules.rejected import RejectedRow, RejectedRows
from gsat.tasks import Task


@dataclass(frozen=True)
class Dataset:
    """A data set with its splits; :func:`gsat.load_dataset` makes one.

    Attributes:
        name: Data set name, or the path of the user's own graphs.
        store: All graphs.
        task: What is predicted.
        splits: Positions in ``store`` under ``train``, ``valid`` and ``test``: of graphs or, in a
            node-level task, of nodes.
        matches_paper: ``"yes"``, ``"rebuilt"`` (made again by the same rules) or ``"different"``.
        hash: First 16 hex digits of the SHA-256 of the graphs; the splits are not hashed.
        options: The options of the data set and ``data_seed``.
        seed: Seed of the split.
        overlap: Why splits share graphs on purpose; empty if they share none.
    """

    name: str
    store: GraphStore
    task: Task
    splits: Mapping[str, NDArray[np.int64]]
    matches_paper: Match = "different"
    hash: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    overlap: str = ""

    def split(self, name: str) -> GraphStore:
        """Return one split as a view on the store.

        Args:
            name: ``"train"``, ``"valid"``, ``"test"`` or ``"all"``.

        Returns:
            The graphs of the split; in a node-level task, graphs that know which of their nodes
            belong to it.

        Raises:
            DataError: If there is no such split.
        """
        if name == "all":
            return self.store
        if name not in self.splits:
            raise DataError(f"there is no split '{name}': there are {', '.join(self.splits)}, all")
        if self.task.level == "node":
            return self.store.at_nodes(self.splits[name])
        return self.store.select(self.splits[name])

    @property
    def rejected(self) -> RejectedRows:
        """The rows of a table of molecules that were not used, with line numbers and reasons."""
        return RejectedRows(RejectedRow(*row) for row in self.store.meta.get("rejected", ()))

    @property
    def notes(self) -> list[str]:
        """Remarks about a table of molecules, in words."""
        return list(self.store.meta.get("notes", ()))

    @property
    def train(self) -> GraphStore:
        """The training graphs."""
        return self.split("train")

    @property
    def valid(self) -> GraphStore:
        """The validation graphs."""
        return self.split("valid")

    @property
    def test(self) -> GraphStore:
        """The test graphs."""
        return self.split("test")

    def __repr__(self) -> str:
        sizes = "/".join(str(len(self.splits[s])) for s in ("train", "valid", "test"))
        what = f"{self.task.level}s, {self.task.kind}"
        return f"Dataset({self.name!r}, {sizes} {what}, hash {self.hash})"


def check_dataset(data: Any) -> None:
    """Raise a :class:`DataError` unless ``data`` is a :class:`Dataset`."""
    if not isinstance(data, Dataset):
        raise DataError(
            f"a Dataset was needed, not a {type(data).__name__}: gsat.load_dataset makes one of a "
            "name, a path or a list of graphs"
        )
