"""RDKit in processes that can be killed: reading of molecules, search for substructures.

The functions that take a payload run in the worker, which does not import torch.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gsat.core.errors import GSATError, shown
from gsat.launch.jobs import Job
from gsat.launch.limited import LimitedWorker
from gsat.molecules import featuriser
from gsat.molecules.smiles import import_rdkit
from gsat.web.requests import BadInputError, RequestError

MOST_LIBRARIES: Final = 4  # of molecules to search, in the memory of the worker
CHUNK: Final = 500  # molecules added to a library at a time
CHUNK_SECONDS: Final = 20.0
CPU_SECONDS: Final = 60  # of one call whose parent has ended and can't kill it
MEMORY: Final = 1 << 30
START_SECONDS: Final = 60.0


class WorkerBusyError(GSATError):
    """The process computes something else, and did not become free in time."""


class TimeLimitError(GSATError):
    """The call was stopped: it took too long, or too much memory."""


class KillableProcess:
    """A process that makes one call at a time; it is killed when a call takes too long."""

    def __init__(self) -> None:
        self._worker, self._lock = LimitedWorker(MEMORY, CPU_SECONDS), threading.Lock()

    def call(self, function: str, payload: Any, *, seconds: float, wait: float = -1) -> Any:
        """Make a call within a number of seconds, after waiting for earlier calls."""
        if not self._lock.acquire(timeout=wait):
            raise WorkerBusyError("other molecules are being read; try again in a moment")
        try:
            if not self._worker.is_running:
                self._answer(f"{__name__}.start", None, START_SECONDS)
            return self._answer(function, payload, seconds)
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the process if it is idle; else it ends with this one."""
        if self._lock.acquire(blocking=False):
            self._worker.__exit__()
            self._lock.release()

    def _answer(self, function: str, payload: Any, seconds: float) -> Any:
        outcome = self._worker.run(Job(function, payload), seconds)
        if outcome.status == "died":
            raise TimeLimitError(f"it takes more than {seconds:g} seconds, or too much memory")
        if outcome.status != "done":
            raise GSATError(outcome.value)
        return outcome.value


def start(_: Any) -> None:
    """Import RDKit in the worker."""
    import_rdkit("reading molecules")


READER, SEARCHER = KillableProcess(), KillableProcess()
atexit.register(READER.close)
atexit.register(SEARCHER.close)


@dataclass(frozen=True)
class ReadMolecules:
    """Molecules that were read: their arrays, and reasons why others can't be used."""

    arrays: featuriser.Arrays
    smiles: list[str]
    rows: list[int]  # of each molecule, among the texts
    problems: dict[int, str]  # by row


def read_molecules(
    texts: Sequence[str], *, largest_fragment: bool, seconds: float, wait: float
) -> ReadMolecules:
    """Read SMILES; raise a :class:`RequestError` if that takes too long."""
    payload = {"texts": list(texts), "largest_fragment": largest_fragment}
    try:
        read = READER.call(f"{__name__}.read", payload, seconds=seconds, wait=wait)
    except WorkerBusyError as error:
        raise RequestError(503, str(error)) from None
    except TimeLimitError as error:
        raise BadInputError(f"the molecules can't be read: {error}") from None
    arrays = {name: _decoded(*array) for name, array in read["arrays"].items()}
    problems = {int(row): reason for row, reason in read["problems"]}
    return ReadMolecules(arrays, read["smiles"], read["rows"], problems)


def read(payload: dict[str, Any]) -> dict[str, Any]:
    """Read SMILES in the worker."""
    molecules = featuriser.read_all(payload["texts"], largest_fragment=payload["largest_fragment"])
    arrays = {name: _encoded(array) for name, array in featuriser.to_arrays(molecules).items()}
    return {
        "arrays": arrays,
        "smiles": molecules.smiles,
        "rows": molecules.rows,
        "problems": molecules.problems,
    }


def _encoded(array: Any) -> list[Any]:
    return [array.dtype.str, array.shape, base64.b64encode(array.tobytes()).decode()]


def _decoded(kind: str, shape: Sequence[int], text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype=kind).reshape(shape)


# -- search ---------------------------------------------------------------------------------------


def library_key(smiles: Sequence[str]) -> str:
    """Name a library of molecules by its content."""
    return hashlib.sha256("\n".join(smiles).encode()).hexdigest()


def find_substructures(
    key: str,
    smiles: Sequence[str],
    text: str,
    *,
    seconds: float,
    wait: float,
    check: Callable[[], None],
) -> list[int]:
    """Find the molecules that contain a SMILES or SMARTS; ``check`` is called between chunks."""
    try:
        ready = _search("has_library", {"key": key}, 10, wait)
        for first in range(ready, len(smiles), CHUNK):
            check()
            chunk = list(smiles[first : first + CHUNK])
            payload = {"key": key, "first": first, "smiles": chunk}
            _search("add_to_library", payload, CHUNK_SECONDS, wait)
        payload = {"key": key, "text": text}
        matches = _search("search_library", payload, seconds, wait)
    except WorkerBusyError:
        raise RequestError(503, "another search is computed; try again in a moment") from None
    except TimeLimitError as error:
        raise BadInputError(
            f"the search for '{shown(text, 60)}' was stopped, as {error}; use a simpler pattern"
        ) from None
    if matches is None:
        raise BadInputError(
            f"'{shown(text, 60)}' is neither a number, a part of an identifier nor a SMILES"
        )
    return list(matches)


def _search(function: str, payload: dict[str, Any], seconds: float, wait: float) -> Any:
    return SEARCHER.call(f"{__name__}.{function}", payload, seconds=seconds, wait=wait)


class _Library:
    """Molecules to search, in the worker."""

    def __init__(self) -> None:
        from rdkit.Chem import rdSubstructLibrary as substructures

        self.matcher = substructures.SubstructLibrary(
            substructures.CachedTrustedSmilesMolHolder(), substructures.PatternHolder()
        )
        self.graphs: list[int] = []
        self.read = 0


_LIBRARIES: Final[OrderedDict[str, _Library]] = OrderedDict()


def has_library(payload: dict[str, Any]) -> int:
    """How many molecules of a library the worker has."""
    library = _LIBRARIES.get(payload["key"])
    return 0 if library is None else library.read


def add_to_library(payload: dict[str, Any]) -> None:
    """Add molecules to a library in the worker."""
    chem = import_rdkit("a search for substructures")
    from rdkit import rdBase

    library = _LIBRARIES.setdefault(payload["key"], _Library())
    if library.read != payload["first"]:  # another request has added them
        return
    with rdBase.BlockLogs():
        for graph, text in enumerate(payload["smiles"], start=payload["first"]):
            molecule = chem.MolFromSmiles(text) if text else None
            if molecule is not None:
                library.matcher.AddMol(molecule)
                library.graphs.append(graph)
    library.read += len(payload["smiles"])
    while len(_LIBRARIES) > MOST_LIBRARIES:
        _LIBRARIES.popitem(last=False)


def search_library(payload: dict[str, Any]) -> list[int] | None:
    """Search a library in the worker; None if the text is not a pattern."""
    chem = import_rdkit("a search for substructures")
    from rdkit import rdBase

    text, pattern = payload["text"], None
    if not any(character.isspace() for character in text):
        with rdBase.BlockLogs():
            pattern = chem.MolFromSmiles(text)
            # Part of a molecule, such as [N+](=O)[O-], lacks bonds: read it as SMARTS.
            if pattern is None or any(a.GetNumRadicalElectrons() for a in pattern.GetAtoms()):
                pattern = chem.MolFromSmarts(text)
    if pattern is None or not pattern.GetNumAtoms():
        return None
    library = _LIBRARIES.get(payload["key"])
    if library is None:
        raise GSATError("the molecules to search were evicted; search again")
    _LIBRARIES.move_to_end(payload["key"])
    count = len(library.graphs) or 1
    hits = library.matcher.GetMatches(pattern, maxResults=count, numThreads=1)
    return sorted(library.graphs[hit] for hit in hits)
