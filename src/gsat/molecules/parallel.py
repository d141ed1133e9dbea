"""Reading of many molecules in several processes, with a progress bar."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from gsat.core.errors import DataError
from gsat.launch.jobs import Job, Outcome
from gsat.launch.pool import WorkerPool, worker_count
from gsat.launch.progress import Progress
from gsat.molecules.featuriser import Arrays, Molecules, read_all, to_arrays
from gsat.molecules.large import LargeMolecules

CHUNK: Final = 1000  # molecules
_FEW: Final = 10_000  # for fewer molecules, starting workers takes longer than it saves
_TEXTS: Final = ("rows", "smiles", "canonical", "scaffold", "components", "problems")


def read_many(
    texts: Sequence[str], *, quiet: bool = False, **options: Any
) -> tuple[Molecules, list[Arrays]]:
    """Read molecules in ``GSAT_JOBS`` processes, by default one per core."""
    chunks = [texts[first : first + CHUNK] for first in range(0, len(texts), CHUNK)]
    workers = min(worker_count(), len(chunks)) if len(texts) > _FEW else 1
    bar = Progress("molecules", quiet, counted=True)
    bar.start(len(texts))
    try:
        if workers <= 1:
            parts = []
            with LargeMolecules(options) as large:
                for chunk in chunks:
                    parts.append(_read(list(chunk), large))
                    bar.advance(steps=len(chunk))
        else:
            parts = _in_workers(chunks, options, workers, bar)
    finally:
        bar.stop()
    out = Molecules()
    for number, (texts_of_chunk, _) in enumerate(parts):
        first = number * CHUNK
        out.rows += [first + row for row in texts_of_chunk["rows"]]
        out.problems += [(first + row, reason) for row, reason in texts_of_chunk["problems"]]
        for name in ("smiles", "canonical", "scaffold", "components"):
            getattr(out, name).extend(texts_of_chunk[name])
    return out, [arrays for _, arrays in parts] or [to_arrays(Molecules())]


def read_chunk(job: dict[str, Any]) -> dict[str, Any]:
    """Read a chunk in a worker, which returns texts and writes arrays to a file."""
    with LargeMolecules(job["options"]) as large:
        chunk, arrays = _read(job["texts"], large)
    with Path(job["out"]).open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    return chunk


def _read(texts: list[str], large: LargeMolecules) -> tuple[dict[str, Any], Arrays]:
    molecules = read_all(texts, large=large, **large.options)
    return {name: getattr(molecules, name) for name in _TEXTS}, to_arrays(molecules)


def _in_workers(
    chunks: Sequence[Sequence[str]], options: dict[str, Any], workers: int, bar: Progress
) -> list[tuple[dict[str, Any], Arrays]]:
    def on_done(name: str, outcome: Outcome) -> None:
        if outcome.status not in ("done", "died"):
            raise DataError(outcome.value)
        bar.advance(steps=len(chunks[int(name)]))

    with tempfile.TemporaryDirectory(prefix="gsat-") as folder, WorkerPool(workers) as pool:
        files = [str(Path(folder) / f"{number}.npz") for number in range(len(chunks))]
        function = f"{__name__}.{read_chunk.__name__}"
        work = {
            str(n): Job(function, {"texts": list(chunk), "options": options, "out": file})
            for n, (chunk, file) in enumerate(zip(chunks, files, strict=True))
        }
        done = pool.run(work, on_done=on_done).results
        parts = []
        for number, file in enumerate(files):
            if str(number) not in done:  # its worker died: find the molecule
                with LargeMolecules(options, every=True) as large:
                    parts.append(_read(list(chunks[number]), large))
                continue
            with np.load(file, allow_pickle=False) as arrays:
                parts.append((done[str(number)], dict(arrays)))
        return parts
