"""Coverage-guided fuzzing of every parser with atheris, one process per parser.

``python -m campaign.fuzz NAME SECONDS`` fuzzes one parser in this process.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Modules that read untrusted bytes; without the kernels, because Numba can't compile the
# instrumentation of atheris.
INSTRUMENTED = (
    "gsat.core.parsing", "gsat.core.settings", "gsat.core.files",
    "gsat.core.limits", "gsat.core.tensors",
    "gsat.graphs.array_table", "gsat.graphs.build", "gsat.graphs.storage", "gsat.graphs.texts",
    "gsat.graphs.scan", "gsat.datasets.fetch.archive",
    "gsat.datasets.fetch.unpickle", "gsat.datasets.formats.jsonl",
    "gsat.datasets.formats.json_values", "gsat.datasets.formats.tu", "gsat.molecules.columns",
    "gsat.molecules.featuriser", "gsat.molecules.label_values", "gsat.molecules.reader",
    "gsat.molecules.table", "gsat.models.saved",
    "gsat.models.weights", "gsat.training.checkpoint", "gsat.training.recipe",
    "gsat.training.results", "gsat.training.run_directory", "gsat.training.list_runs",
    "json.decoder", "tomllib._parser", "zipfile", "pickle",
)  # fmt: skip
HERE = Path(__file__).resolve().parent.parent


def fuzz_all(seconds: float, names: list[str], jobs: int = 2) -> list[dict[str, Any]]:
    """Fuzz parsers for some CPU seconds each, in separate processes; return their records."""
    waiting, running, records = list(names), [], []
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            command = [sys.executable, "-m", "campaign.fuzz", name, str(seconds)]
            process = subprocess.Popen(
                command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            running.append((name, process))
        for pair in list(running):
            name, process = pair
            if process.poll() is not None:
                running.remove(pair)
                out, err = process.communicate()
                records.append(_record(name, process.returncode, out, err))
        time.sleep(0.5)
    return sorted(records, key=lambda record: names.index(record["parser"]))


def _record(name: str, code: int, out: str, err: str) -> dict[str, Any]:
    for line in reversed(out.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return {"parser": name, "findings": [f"the process died: {code}: {err[-400:]}"], "inputs": 0,
            "cpu_seconds": 0}  # fmt: skip


def _cpu_seconds() -> float:
    """CPU time of this process and its finished children, which read some files."""
    return sum(os.times()[:4])


def _instrument(module: Any) -> None:
    """Instrument the functions of a module."""
    import atheris

    for value in list(vars(module).values()):
        parts = vars(value).values() if inspect.isclass(value) else [value]
        for part in parts:
            if inspect.isfunction(part) and part.__module__ == module.__name__:
                with contextlib.suppress(Exception):  # atheris does not support this code
                    atheris.instrument_func(part)


def main(name: str, seconds: float) -> None:
    """Fuzz one parser and print its record."""
    import random

    import atheris

    from campaign import parsers

    for module in INSTRUMENTED:
        _instrument(importlib.import_module(module))
    folder = parsers.in_memory()
    parser = next(p for p in parsers.make_parsers(folder) if p.name == name)
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, example in enumerate(parser.examples):
        (corpus / str(number)).write_bytes(example)
        assert parsers.problem(parser, example) == "", "an example is refused"
    findings: dict[str, str] = {}
    started, count = _cpu_seconds(), 0
    slowest = 0.0

    def finish() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        spent = round(_cpu_seconds() - started, 1)
        record = {
            "parser": name,
            "cpu_seconds": spent,
            "inputs": count,
            "slowest_seconds": round(slowest, 2),
            "findings": list(findings.values())[:20],  # a pipe holds 64 KiB
        }
        sys.stdout.write(f"\n{json.dumps(record)}\n")
        sys.stdout.flush()
        os._exit(0)

    def attempt(content: bytes) -> None:
        nonlocal count, slowest
        count += 1
        began = _cpu_seconds()
        problem = parsers.problem(parser, content)
        took = _cpu_seconds() - began
        slowest = max(slowest, took)
        if took > 10:
            problem = problem or f"took {took:.0f} s"
        if problem:
            kind = problem.split(":")[0] + str(len(findings) if len(findings) < 5 else "")
            findings.setdefault(problem[:40], f"{problem[:300]} from {content[:200]!r} ({kind})")
        if _cpu_seconds() - started > seconds:
            finish()

    random.seed(0)
    atheris.Setup(
        [sys.argv[0], str(corpus), "-max_len=20000", "-rss_limit_mb=8000", "-timeout=60",
         "-verbosity=0", "-seed=1", "-detect_leaks=0"],
        attempt,
    )  # fmt: skip
    atheris.Fuzz()
    finish()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
