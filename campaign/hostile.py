"""Hostile files, made by rule, given to the command line.

Every case is a folder of its own with a file that somebody else could have sent, and a command.
The command must end with exit code 2 and one line, or succeed if the change does no harm; in ten
seconds of CPU time, with at most a gigabyte more than it has at rest, and without touching a file
outside the run. Commands run in forked children of one process, which has imported everything.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gsat
from campaign.parsers import _with_check, _with_state_check
from gsat.core.tensors import write_tensors
from gsat.graphs.array_table import RULES

SECONDS, GIGABYTE, CHARACTERS = 10.0, 1 << 30, 300
RUN_FILES = (
    "recipe.toml", "environment.json", "timing.json", "metrics.jsonl", "ckpt/LAST",
    "ckpt/epoch-2/state.json", "best/model.json",
)  # fmt: skip
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**9,
    10**30,
    1e300,
    "x",
    "\x1b[2J",
    [],
    [[]],
    {},
    {"a": 1},
)
COUNTS: tuple[Any, ...] = (-1, 1, 2**28, 2**31, 2**63, 10**300, 1.5, "2", None, [2])
BYTES = {
    "empty": b"", "zeros": b"\0" * 1000, "latin": b"\xff\xfe{}", "deep": b"[" * 100_000,
    "deep-objects": b'{"a":' * 50_000, "deep-toml": b"a = " + b"[" * 100_000,
    "long-key": b"a." * 300_000 + b"a = 1", "large": b" " * (17 << 20), "number": b"1" * 5000,
    "text": b'"' + b"x" * 1_000_000 + b'"', "lists": b"[" + b"[]," * 3_000_000 + b"[]]",
    "nan": b"NaN", "twice": b'{"a": 1, "a": 2}', "half": b'{"epo', "escape": b'{"\\u001b[31m": 1}',
    "surrogate": b'"\\ud800"',
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A hostile file and the command that meets it.

    Attributes:
        name: Unique.
        make: Makes the files in a new folder and returns the arguments of the command.
        must_fail: Whether success would be wrong.
    """

    name: str
    make: Callable[[Path], list[str]]
    must_fail: bool = True


@dataclass
class Outcome:
    """What came of a case."""

    code: int
    err: str
    seconds: float
    memory: int
    touched: bool

    def problem(self, case: Case) -> str:
        """What is wrong with it, in words; empty if nothing is."""
        lines = self.err.splitlines()
        if self.touched:
            return "a file outside was touched"
        if self.seconds > SECONDS:
            return f"{self.seconds:.0f} s of CPU time"
        if self.memory > GIGABYTE:
            return f"{self.memory >> 20} MiB"
        if self.code == 0:
            return "it succeeded" if case.must_fail else ""
        if self.code != 2:
            return f"exit code {self.code}: {self.err[-300:]}"
        if len(lines) != 1 or len(lines[0]) > CHARACTERS or not lines[0].isprintable():
            return f"{len(lines)} lines: {self.err[:400]!r}"
        return "an error of its own: " + lines[0] if "an error in gsat itself" in lines[0] else ""


class Base:
    """What cases start from: a finished run, one that can be resumed, graphs, a store.

    Args:
        folder: Where to make them.
    """

    def __init__(self, folder: Path) -> None:
        settings = {"graphs": 20, "epochs": 2, "batch_size": 16, "hidden": 4, "layers": 1}
        recipe = gsat.make_recipe("ba2motifs", settings=settings)
        self.finished, self.stopped = folder / "finished", folder / "stopped"
        gsat.train(recipe, self.finished, checkpoint_seconds=0)
        shutil.copytree(self.finished, self.stopped)
        (self.stopped / "result.json").unlink()
        shutil.rmtree(self.stopped / "ckpt" / "epoch-1")
        self.store = gsat.load_dataset("ba2motifs", graphs=20).store
        self.sentinel = folder / "outside"
        self.sentinel.mkdir()
        (self.sentinel / "precious.txt").write_text("mine")
        (self.sentinel / "model-old.safetensors").write_text("mine")
        (self.sentinel / "epoch-9").mkdir()
        (self.sentinel / "epoch-9" / "x.partial").write_text("mine")

    def outside(self) -> str:
        """A digest of everything outside that must stay as it is."""
        digest = hashlib.sha256()
        for file in sorted(self.sentinel.rglob("*")):
            digest.update(f"{file} {file.lstat().st_mode} {file.lstat().st_mtime_ns}".encode())
            digest.update(file.read_bytes() if file.is_file() else b"")
        return digest.hexdigest()


def all_cases(base: Base) -> Iterator[Case]:
    """All cases, in a fixed order."""
    yield from _contents_of_run_files(base)
    yield from _fields_of_run_files(base)
    yield from _special_files(base)
    yield from _stores(base)
    yield from _json_lines(base)
    yield from _tables(base)
    yield from _words(base)


# -- runs -----------------------------------------------------------------------------------------


def _resume(base: Base, folder: Path) -> tuple[Path, list[str]]:
    shutil.copytree(base.stopped, folder / "run")
    return folder / "run", ["resume", str(folder / "run"), "--quiet"]


def _use(base: Base, folder: Path, number: int = 0) -> tuple[Path, list[str]]:
    shutil.copytree(base.finished, folder / "run")
    run = str(folder / "run")
    commands = (
        ["evaluate", run],
        ["predict", run, "--out", str(folder / "p.csv")],
        ["explain", run, "--graph", "0"],
        ["audit", run],
    )
    return folder / "run", commands[number % 4]


def _contents_of_run_files(base: Base) -> Iterator[Case]:
    for name in RUN_FILES:
        for kind, content in BYTES.items():

            def make(folder: Path, name: str = name, content: bytes = content) -> list[str]:
                used = name == "best/model.json"
                run, command = (_use if used else _resume)(base, folder)
                (run / name).write_bytes(content)
                return command

            # A cut-off LAST or an empty recipe are not always fatal: an older checkpoint is taken.
            yield Case(f"{name} is {kind}", make, must_fail=name not in ("ckpt/LAST",))


def _fields_of_run_files(base: Base) -> Iterator[Case]:
    """Every value in every JSON file of a run replaced by every wrong one, checksums corrected."""
    for name in ("environment.json", "timing.json", "ckpt/epoch-2/state.json", "best/model.json"):
        values = json.loads((base.stopped / name).read_bytes())
        for path in _paths(values):
            if path[0] in ("check", "sha256"):
                continue
            for number, wrong in enumerate(WRONG):

                def make(
                    folder: Path,
                    name: str = name,
                    path: Any = path,
                    wrong: Any = wrong,
                    n: int = number,
                ) -> list[str]:
                    changed = _replaced(json.loads((base.stopped / name).read_bytes()), path, wrong)
                    content = json.dumps(changed).encode()
                    used = name == "best/model.json"
                    run, command = _use(base, folder, n) if used else _resume(base, folder)
                    if used:
                        content = _with_check(content, "check")
                    elif name.endswith("state.json"):
                        content = _with_state_check(content)
                    (run / name).write_bytes(content)
                    return command

                yield Case(f"{name}: {path} is {str(wrong)[:12]!r}", make, must_fail=False)


def _paths(values: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in items:
        if isinstance(key, int) and key > 1:
            return
        yield (*before, key)
        if isinstance(value, (dict, list)):
            yield from _paths(value, (*before, key))


def _replaced(values: Any, path: tuple[Any, ...], wrong: Any) -> Any:
    place = values
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = wrong
    return values


def _special_files(base: Base) -> Iterator[Case]:
    def put(path: Path, kind: str) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        match kind:
            case "link":
                path.symlink_to(base.sentinel / "precious.txt")
            case "folder-link":
                path.symlink_to(base.sentinel)
            case "device-link":
                path.symlink_to("/dev/zero")
            case "loop":
                path.symlink_to(path.name)
            case "fifo":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "sparse":
                with path.open("wb") as handle:
                    handle.truncate(20 << 30)

    weights = next((base.finished / "best").glob("*.safetensors")).name
    names = (*RUN_FILES, ".lock", "best", "ckpt", "ckpt/epoch-2", "ckpt/epoch-2/state.safetensors")
    for kind in ("link", "folder-link", "device-link", "loop", "fifo", "folder", "sparse"):
        for name in names:

            def make(folder: Path, name: str = name, kind: str = kind) -> list[str]:
                run, command = _resume(base, folder)
                put(run / name, kind)
                return command

            # An empty folder in place of ckpt or best is a run without them.
            harmless = kind == "folder" and name in ("best", "ckpt", ".lock", "ckpt/epoch-2")
            harmless |= name in (".lock", "ckpt/LAST", "best/model.json") and kind in (
                "folder",
                "sparse",
            )
            yield Case(f"{name} is a {kind}", make, must_fail=not harmless)
        for name in (f"best/{weights}", "best/model.json"):

            def make_used(folder: Path, name: str = name, kind: str = kind) -> list[str]:
                run, command = _use(base, folder)
                put(run / name, kind)
                return command

            yield Case(f"predicting: {name[:10]} is a {kind}", make_used)
        for suffix in ("graphs.jsonl", "graphs.jsonl.gz", "graphs.zip", "store", "recipe.toml"):

            def make_data(folder: Path, suffix: str = suffix, kind: str = kind) -> list[str]:
                put(folder / suffix, kind)
                if suffix == "recipe.toml":
                    return [
                        "train",
                        "ba2motifs",
                        "--recipe",
                        str(folder / suffix),
                        "--out",
                        str(folder / "o"),
                    ]
                return ["train", str(folder / suffix), "--out", str(folder / "o")]

            yield Case(f"data: {suffix} is a {kind}", make_data)


# -- data -----------------------------------------------------------------------------------------


def _stores(base: Base) -> Iterator[Case]:
    """Every array of a store with every other type and rank, and indices that lead out of it."""
    arrays = {name: np.asarray(values) for name, values in base.store.arrays.items()}
    kinds = ("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool")

    def case(name: str, changed: dict[str, Any], meta: Any = None, must_fail: bool = True) -> Case:
        def make(folder: Path) -> list[str]:
            (folder / "store").mkdir()
            text = json.dumps(base.store.meta if meta is None else meta)
            header = {"format": "gsat-graphs-1", "meta": text}
            write_tensors(folder / "store" / "graphs.safetensors", {**arrays, **changed}, header)
            return [
                "train",
                str(folder / "store"),
                "--out",
                str(folder / "o"),
                "--epochs",
                "1",
                "--quiet",
            ]

        return Case(name, make, must_fail)

    for name, values in arrays.items():
        rule = RULES[name]
        for kind in kinds:
            if kind not in rule.types:
                yield case(f"store: {name} is of {kind}", {name: values.astype(kind)})
        for what, shaped in {
            "a row short": values[:-1], "empty": values[:0], "a cube": values[..., None, None],
            "one number": values.reshape(-1)[0].reshape(()),
        }.items():  # fmt: skip
            yield case(f"store: {name} is {what}", {name: shaped})
    for name in ("src", "dst", "by_src", "order", "node_ptr", "edge_ptr"):
        for wrong in (-1, 2**31 - 1, -(2**31), 1000):
            for place in (0, -1):
                changed = arrays[name].copy()
                changed[place] = wrong
                yield case(f"store: {name}[{place}] is {wrong}", {name: changed})
    for wrong in (np.nan, np.inf, -np.inf):
        changed = arrays["x"].astype(np.float32)
        changed[0, 0] = wrong
        yield case(f"store: a feature is {wrong}", {"x": changed})
    for key in ("classes", "categories", "content", "made_by", "node_types"):
        for wrong in (3, "x", [{}], {"a": 1}, [None], [10**9]):
            yield case(f"store: meta {key} is {wrong}", {}, {key: wrong}, must_fail=False)


def _json_lines(base: Base) -> Iterator[Case]:
    good = {"edges": [[0, 1], [1, 0]], "x": [[1.0], [2.0]], "y": 1}
    bad: dict[str, Any] = {
        **{f"num_nodes {n}": {**good, "num_nodes": n} for n in COUNTS},
        **{f"x {i}": {**good, "x": w} for i, w in enumerate(WRONG)},
        **{f"edges {i}": {**good, "edges": w} for i, w in enumerate(WRONG)},
        **{f"y {i}": {**good, "y": w} for i, w in enumerate(WRONG)},
        **{f"split {i}": {**good, "split": w} for i, w in enumerate(WRONG)},
        **{f"id {i}": {**good, "id": w} for i, w in enumerate(WRONG)},
        **{f"edge_attr {i}": {**good, "edge_attr": w} for i, w in enumerate(WRONG)},
        **{f"node_y {i}": {**good, "node_y": w} for i, w in enumerate(WRONG)},
        "a long text among numbers": {**good, "x": [["a" * 1_000_000], *[["b"]] * 2000]},
        "a long name": {**good, "y": "a" * 1_000_000},
        "a surrogate": {**good, "y": "\ud800"},
        "an escape": {**good, "y": "\x1b]0;title\x07"},
        "a long key": {**good, "k" * 100_000: 1},
        "many features": {**good, "x": [[0.0] * 300_000] * 2},
        "a text of a megabyte": {**good, "id": "a" * (1 << 20)},
    }  # fmt: skip
    commands = ("train", "predict", "evaluate", "explain", "audit")
    for number, (name, line) in enumerate(bad.items()):
        command = commands[number % 5] if not name.startswith("y") else "train"

        def make(folder: Path, line: Any = line, command: str = command) -> list[str]:
            path = folder / "graphs.jsonl"
            many = 1000 if "id" in line and len(str(line["id"])) > 1000 else 3
            path.write_text("\n".join([json.dumps(good), *[json.dumps(line)] * many]))
            return _with_data(base, folder, command, path)

        yield Case(f"jsonl: {name} ({command})", make, must_fail=False)

        def asked(folder: Path, line: Any = line) -> list[str]:
            # What a question may hold, with as many features as the model takes.
            graph = {key: line[key] for key in line if key not in ("y", "node_y", "split")}
            graph["x"] = [[1.0] * 10] * 2 if graph.get("x") == good["x"] else graph["x"]
            (folder / "body.json").write_text(json.dumps({"graph": graph}))
            return ["API", str(base.finished), str(folder / "body.json")]

        yield Case(f"the API is sent: {name}", asked, must_fail=False)
    for kind, content in BYTES.items():
        for command in ("train", "predict"):

            def raw(folder: Path, content: bytes = content, command: str = command) -> list[str]:
                (folder / "graphs.jsonl").write_bytes(content)
                return _with_data(base, folder, command, folder / "graphs.jsonl")

            yield Case(f"jsonl is {kind} ({command})", raw)

        def sent(folder: Path, content: bytes = content) -> list[str]:
            (folder / "body.json").write_bytes(content)
            return ["API", str(base.finished), str(folder / "body.json")]

        yield Case(f"the API is sent {kind}", sent)
    bombs = {
        "zeros": b"\0", "lines": b"\n", "blanks": b" ", "graphs": json.dumps(good).encode() + b"\n",
        "lists": b"[],",
    }  # fmt: skip
    for name, unit in bombs.items():

        def bomb(folder: Path, unit: bytes = unit) -> list[str]:
            block = unit * ((1 << 22) // len(unit))
            with gzip.open(folder / "graphs.jsonl.gz", "wb", 1) as handle:
                for _ in range(512):
                    handle.write(block)
            return _with_data(base, folder, "train", folder / "graphs.jsonl.gz")

        yield Case(f"a gzip bomb of {name}", bomb)


def _with_data(base: Base, folder: Path, command: str, data: Path) -> list[str]:
    run = str(base.finished)
    match command:
        case "train":
            return ["train", str(data), "--out", str(folder / "o"), "--epochs", "1", "--quiet"]
        case "explain":
            return ["explain", run, str(data), "--graph", "0"]
        case _:
            return [command, run, str(data)]


def _tables(base: Base) -> Iterator[Case]:
    good = {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n", "graph_indicator": "1\n1\n2\n2\n",
        "graph_labels": "0\n1\n", "node_labels": "0\n1\n1\n0\n",
        "edge_labels": "0\n0\n1\n1\n", "node_attributes": "1\n2\n3\n4\n",
    }  # fmt: skip
    numbers = (
        "4000000000", "-1", "0", "1e300", "-9223372036854775808", "9223372036854775807",
        "99999999999999999999", "nan", "inf", "0.5", "x", "", "1,2,3", "\x1b[2J", "1" * 5000,
    )  # fmt: skip

    def write(folder: Path, tables: dict[str, str], zipped: bool) -> Path:
        if zipped:
            with zipfile.ZipFile(folder / "t.zip", "w", zipfile.ZIP_DEFLATED) as held:
                for name, text in tables.items():
                    held.writestr(f"t/T_{name}.txt", text)
            return folder / "t.zip"
        (folder / "t").mkdir()
        for name, text in tables.items():
            (folder / "t" / f"T_{name}.txt").write_bytes(text.encode("utf-8", "surrogateescape"))
        return folder / "t"

    for name, text in good.items():
        for number, wrong in enumerate(numbers):

            def make(
                folder: Path, name: str = name, text: str = text, n: int = number
            ) -> list[str]:
                lines = text.splitlines()
                lines[-1] = numbers[n]
                tables = {**good, name: "\n".join(lines) + "\n"}
                if n == 0:
                    del tables["graph_labels"]
                return _with_data(base, folder, "train", write(folder, tables, n % 2 == 0))

            yield Case(f"TU: {name} ends with {wrong[:22]!r}", make, must_fail=False)

    def names(folder: Path, name: str) -> list[str]:
        with zipfile.ZipFile(folder / "t.zip", "w") as held:
            for table, text in good.items():
                held.writestr(f"t/T_{table}.txt", text)
            held.writestr(name, "x")
        return _with_data(base, folder, "train", folder / "t.zip")

    for name in ("../evil.txt", "/etc/evil", "a/../../evil", "..\\evil", "C:\\evil"):
        yield Case(f"TU: a zip with {name}", lambda folder, name=name: names(folder, name))

    def changed(folder: Path, place: int, value: int) -> list[str]:
        path = write(folder, good, True)
        content = bytearray(path.read_bytes())
        at = content.rfind(b"PK\1\2") + place
        content[at] = value
        path.write_bytes(content)
        return _with_data(base, folder, "train", path)

    for place in range(4, 46, 2):  # every field of an entry of its list
        yield Case(
            f"TU: byte {place} of a zip's list",
            lambda folder, place=place: changed(folder, place, 255),
            must_fail=False,
        )

    def bomb(folder: Path) -> list[str]:
        with zipfile.ZipFile(folder / "t.zip", "w", zipfile.ZIP_DEFLATED) as held:
            for table, text in good.items():
                with held.open(f"t/T_{table}.txt", "w", force_zip64=True) as handle:
                    handle.write(text.encode())
                    for _ in range(768 if table == "A" else 0):
                        handle.write(b"1, 2\n" * 200_000)
        return _with_data(base, folder, "train", folder / "t.zip")

    yield Case("TU: a zip bomb", bomb)


def _words(base: Base) -> Iterator[Case]:
    """What is written on the command line itself."""
    deep = "lr=" + "[" * 20_000
    for name, words in {
        "a deep --set": ["train", "ba2motifs", "--set", deep],
        "a long --set": ["train", "ba2motifs", "--set", "lr=" + "x" * 100_000],
        "a dotted --set": ["train", "ba2motifs", "--set", "lr={" + "a." * 40_000 + "a=1}"],
        "an escape in --set": ["train", "ba2motifs", "--set", "\x1b[2J=1"],
        "a wide network": ["train", "ba2motifs", "--set", "hidden=1000000000"],
        "a deep network": ["train", "ba2motifs", "--set", "layers=1000000000"],
        "a long name": ["train", "x" * 100_000],
        "a long path": ["train", "./" + "x" * 100_000],
        "bytes that are no text": ["train", "ba2\udcff"],
    }.items():

        def make(folder: Path, words: list[str] = words) -> list[str]:
            return [*words, "--out", str(folder / "o"), "--quiet"]

        yield Case(f"words: {name}", make)


# -- running them ---------------------------------------------------------------------------------


def run_case(case: Case, base: Base, folder: Path) -> Outcome:
    """Run a case in a forked child."""
    from gsat.cli.app import run

    folder.mkdir(parents=True)
    words, before = case.make(folder), base.outside()
    err = folder / "stderr"
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            # Whoever has replaced these, a test say, would get what belongs in the files.
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            os.environ["GSAT_CACHE"] = str(folder / "cache")
            resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
            try:
                code = ask_api(*words[1:]) if words[0] == "API" else run(words)
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else 1 if left.code else 0
            except BaseException as error:
                os.write(2, f"Traceback: {type(error).__name__}: {error}\n".encode()[:1000])
        finally:
            sys.stderr.flush()
            os._exit(code)
    resting = _resident(os.getpid())
    deadline = time.monotonic() + 120
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    text = err.read_text("utf-8", "replace") if err.exists() else ""
    memory = max(0, used.ru_maxrss * 1024 - resting)
    seconds = used.ru_utime + used.ru_stime
    shutil.rmtree(folder, ignore_errors=True)
    return Outcome(code, text, seconds, memory, base.outside() != before)


def ask_api(run: str, body: str) -> int:
    """Send a file to the API of a run, and translate its answer.

    Args:
        run: The run directory.
        body: The file.

    Returns:
        0 for an answer, 2 for a refusal whose message goes to standard error, 70 for anything else.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client, about a newer one
        from fastapi.testclient import TestClient

    from gsat.web.app import make_app
    from gsat.web.library import RunLibrary

    app = make_app(RunLibrary([run]), pages=False)
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        to = f"/api/runs/{Path(run).name}/explanations"
        answer = client.post(to, content=Path(body).read_bytes())
    if answer.status_code == 200:
        return 0
    if not 400 <= answer.status_code < 500:
        return 70
    sys.stderr.write(f"{answer.json()['error']}\n")
    return 2


def _resident(process: int) -> int:
    text = Path(f"/proc/{process}/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGESIZE")


def run_cases(folder: Path, every: int = 1) -> dict[str, Any]:
    """Run all cases, or every n-th.

    Args:
        folder: For their files.
        every: Which share of them. (default: 1, all)

    Returns:
        What was run, what came of it, and what went wrong.
    """
    base = Base(folder)
    counts = {"refused": 0, "harmless": 0}
    findings: list[str] = []
    slowest, largest, number = 0.0, 0, 0
    for number, case in enumerate(list(all_cases(base))[::every], start=1):
        came = run_case(case, base, folder / f"case-{number}")
        slowest, largest = max(slowest, came.seconds), max(largest, came.memory)
        if wrong := came.problem(case):
            findings.append(f"{case.name}: {wrong}"[:500])
        else:
            counts["harmless" if came.code == 0 else "refused"] += 1
    return {
        "files": number,
        **counts,
        "slowest_cpu_seconds": round(slowest, 1),
        "most_memory_mib": largest >> 20,
        "findings": findings,
    }
