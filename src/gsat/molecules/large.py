"""Large molecules: each is read in a process with limits, since RDKit may run long or crash."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final, Self

from gsat.launch.jobs import Job
from gsat.launch.limited import LimitedWorker
from gsat.molecules.featuriser import Molecules, read_all
from gsat.molecules.sizes import oversized_block, oversized_smiles

_SMILES: Final = 1000  # characters; RDKit reads shorter ones in milliseconds
_BLOCK: Final = 30_000
_PATIENCE: Final = 2  # times the CPU seconds of a molecule that may be lost on one file


class LargeMolecules:
    """Reads molecules that are large, or every one that it is given, in a process of its own."""

    def __init__(self, options: dict[str, Any], *, every: bool = False) -> None:
        self.options, self.every = options, every
        self._worker = LimitedWorker.for_files()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._worker.__exit__(*error)

    def take(self, text: str) -> bool:
        """Whether a text is to be read here; one beyond the limits is refused without a process."""
        if self.options.get("kind") == "mol":
            large = len(text) > _BLOCK or "V3000" in text
            return (large or self.every) and not oversized_block(text)
        return (len(text) > _SMILES or self.every) and not oversized_smiles(text)

    def read(self, text: str) -> Molecules:
        """Read a molecule; if its process dies, it is listed with the reason."""
        if self._worker.lost > _PATIENCE * self._worker.seconds:
            reason = "large molecules before it in the file took too long or crashed"
            return Molecules(problems=[(0, reason)])
        name = f"{__name__}.{read_one.__name__}"
        outcome = self._worker.run(Job(name, {"text": text, "options": self.options}))
        if outcome.status != "done":
            return Molecules(problems=[(0, str(outcome.value))])
        molecules = Molecules(**outcome.value)
        molecules.problems = [(row, reason) for row, reason in molecules.problems]
        return molecules


def read_one(job: dict[str, Any]) -> dict[str, Any]:
    """Read a molecule in the worker."""
    return asdict(read_all([job["text"]], **job["options"]))
