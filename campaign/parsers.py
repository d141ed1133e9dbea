"""Every parser of the package as a function of bytes, with examples of valid input.

A parser may return or raise a :class:`gsat.GSATError` of one line; anything else is a finding.
"""

from __future__ import annotations

import io
import json
import pickle
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gsat
from gsat.core.errors import GSATError
from gsat.core.files import checksum, sha256
from gsat.graphs import GraphStore
from gsat.graphs.validation import validate_graphs

SMALL = {"graphs": 20, "epochs": 2, "batch_size": 16, "hidden": 4, "layers": 1}
SEPARATOR = b"\x00--\x00"  # between the files of an example with several


@dataclass(frozen=True)
class Parser:
    """A parser as a function of bytes."""

    name: str
    read: Callable[[bytes], object]
    examples: tuple[bytes, ...]  # valid inputs, from which a fuzzer starts


def problem(parser: Parser, content: bytes) -> str:
    """Parse bytes; return what went wrong, empty if the parser accepts or refuses them."""
    try:
        parser.read(content)
    except GSATError as error:
        text = str(error)
        return "" if text.isprintable() and 0 < len(text) <= 1000 else f"message {text[:200]!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def make_parsers(folder: Path) -> list[Parser]:
    """Make all parsers; they read files in the folder, best on a RAM disk."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = gsat.make_recipe("ba2motifs", settings=SMALL)
    run = folder / "run"
    gsat.train(recipe, run, checkpoint_seconds=0)
    return [
        *_data_parsers(folder),
        *_molecule_parsers(folder),
        *_run_parsers(folder, run),
        *_settings_parsers(folder, recipe),
    ]


# -- data -------------------------------------------------------------------------------------


def _data_parsers(folder: Path) -> list[Parser]:
    from gsat.datasets.fetch.unpickle import load_pickle
    from gsat.datasets.formats import jsonl, tu

    def lines(content: bytes) -> object:
        return _checked(jsonl.read(_file(folder / "graphs.jsonl", content)))

    def packed(content: bytes) -> object:
        return _checked(jsonl.read(_file(folder / "graphs.jsonl.gz", content)))

    def tables(content: bytes) -> object:
        place = folder / "tu"
        place.mkdir(exist_ok=True)
        for name, part in zip(tu.TABLES, content.split(SEPARATOR), strict=False):
            _file(place / f"T_{name}.txt", part)
        return _checked(tu.read(place))

    def zipped(content: bytes) -> object:
        return _checked(tu.read(_file(folder / "graphs.zip", content)))

    def pickled(content: bytes) -> object:
        return load_pickle(_file(folder / "data.pkl", content))

    def stored(content: bytes) -> object:
        place = folder / "store"
        place.mkdir(exist_ok=True)
        _file(place / "graphs.safetensors", content)
        return _checked(GraphStore.load(place))

    def indexed(content: bytes) -> object:
        _file(shards / "index.json", content)
        return _checked(GraphStore.load(shards))

    graph = {"edges": [[0, 1], [1, 0]], "x": [[1.0], [2]], "y": 1, "split": "train", "id": "a"}
    text = "\n".join(json.dumps({**graph, "y": label}) for label in (0, 1)).encode()
    nodes = json.dumps({"edge_index": [[0], [1]], "node_y": ["a", "b"], "edge_attr": [[1]]})
    table = [b"1, 2\n2, 1\n3, 4\n", b"1\n1\n2\n2\n", b"1\n-1\n", b"0.5\n1.5\n", b"3\n4\n5\n3\n",
             b"1.0,2\n1,2\n1,2\n0,0\n", b"0\n1\n1\n", b"1\n2\n3\n", b"1\n0\n0\n"]  # fmt: skip
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as held:
        for name, part in zip(tu.TABLES, table, strict=False):
            held.writestr(f"T/T_{name}.txt", part)
    values: list[Any] = [
        (np.arange(6.0).reshape(2, 3), {"a": [1, 2.5, None], (1, "b"): {1, 2}}, "text", b"bytes"),
        [np.array(["a", None], dtype=object), np.float32(1.5), frozenset({1}), True, 2**70],
    ]
    import gzip

    store = gsat.load_dataset("ba2motifs", graphs=20).store
    store.save(folder / "saved")
    shards = folder / "shards"
    from gsat.graphs import storage

    storage.save(store, shards, 2000)
    return [
        Parser("JSON lines", lines, (text, nodes.encode())),
        Parser("JSON lines, gzipped", packed, (gzip.compress(text),)),
        Parser("TU tables", tables, (SEPARATOR.join(table), SEPARATOR.join(table[:3]))),
        Parser("TU zip", zipped, (archive.getvalue(),)),
        Parser(
            "pickle",
            pickled,
            tuple(pickle.dumps(value, protocol) for value in values for protocol in (0, 2, 4)),
        ),
        Parser("graph store", stored, ((folder / "saved" / "graphs.safetensors").read_bytes(),)),
        Parser("index of shards", indexed, ((shards / "index.json").read_bytes(),)),
    ]


def _molecule_parsers(folder: Path) -> list[Parser]:
    import gzip

    import polars
    from rdkit import Chem

    from gsat.molecules.options import TableSettings
    from gsat.molecules.reader import read_table

    def reader(name: str) -> Callable[[bytes], object]:
        def read(content: bytes) -> object:
            store = read_table(_file(folder / name, content), TableSettings(), quiet=True)
            assert all(text.isprintable() for text in store.meta["notes"]), store.meta["notes"]
            return _checked(store)

        return read

    rows = [("CCO", "a", "1.5"), ("c1ccccc1O", "=b", "-2,0"), ("[Na+].[Cl-]", "", "NA")]
    comma = "smiles,id,logS (mol/L)\r\n" + "".join(f'{s},{n},"{y}"\r\n' for s, n, y in rows)
    words = "mol;active;split\nCC;yes;train\nCO;no;test\nC(;no;\n"
    sdf = ""
    for smiles, name, value in rows:
        molecule = Chem.MolFromSmiles(smiles)
        sdf += f"{name}\n{Chem.MolToMolBlock(molecule).partition(chr(10))[2]}"
        sdf += f"> <activity>\n{value}\n\n$$$$\n"
    parquet = io.BytesIO()
    polars.DataFrame({"smiles": ["CC", "CO"], "y": [0.5, None]}).write_parquet(parquet)
    both = (comma.encode(), words.encode(), words.encode("utf-16"), comma.encode("cp1252"))
    return [
        Parser("molecules, CSV", reader("table.csv"), both),
        Parser("molecules, CSV gzipped", reader("table.csv.gz"), (gzip.compress(both[0]),)),
        Parser("molecules, SMILES file", reader("table.smi"), (b"smiles y\nCC 1\nCO 2\nN\n",)),
        Parser("molecules, SDF", reader("table.sdf"), (sdf.encode(),)),
        Parser("molecules, Parquet", reader("table.parquet"), (parquet.getvalue(),)),
    ]


def _checked(store: GraphStore) -> object:
    """Pool a batch of the graphs: kernels index by values of the batch."""
    validate_graphs(store, name="graphs")
    store.texts("id") if store.has("id") else None
    batch = store.batch(np.arange(min(3, len(store))))
    from gsat.ops import pool

    return pool(batch.x.float(), batch.node_ptr)


# -- runs ---------------------------------------------------------------------------------------


def _run_parsers(folder: Path, run: Path) -> list[Parser]:
    from gsat.training import checkpoint
    from gsat.training.results import read_runs
    from gsat.training.run_directory import RunDirectory

    last = run / "ckpt" / "epoch-2"

    def described(content: bytes) -> object:
        place = _copy(run / "best", folder / "model")
        _file(place / "model.json", _with_check(content, "check"))
        return gsat.load(place)

    def weights(content: bytes) -> object:
        place = _copy(run / "best", folder / "weights")
        values = json.loads((run / "best" / "model.json").read_bytes())
        _file(place / values["file"], content)
        values = {**values, "sha256": sha256(content)}
        _file(place / "model.json", _with_check(json.dumps(values).encode(), "check"))
        return gsat.load(place)

    def state(content: bytes) -> object:
        place = _copy(run, folder / "resumed")
        (place / "result.json").unlink(missing_ok=True)
        shutil.rmtree(place / "ckpt" / "epoch-1", ignore_errors=True)
        _file(place / "ckpt" / "epoch-2" / "state.json", _with_state_check(content))
        return gsat.resume(place)

    def small_files(content: bytes) -> object:
        place = _copy(run, folder / "files")
        names = ("environment.json", "timing.json", "result.json", "metrics.jsonl", "ckpt/LAST")
        for name, part in zip(names, content.split(SEPARATOR), strict=False):
            _file(place / name, part)
        opened = RunDirectory.open(place)
        attempts = (
            lambda: opened.environment,
            lambda: opened.result,
            opened.read_spent,
            opened.read_log,
            lambda: opened.cut_log(2),
            opened.check_recipe,
            lambda: checkpoint.read(opened.checkpoints),
            lambda: gsat.list_runs(place),
        )
        for attempt in attempts:  # all of them, even if one fails
            try:
                attempt()
            except GSATError as error:
                _ = str(error)
        return None

    def records(content: bytes) -> object:
        return read_runs(_file(folder / "runs.jsonl", content))

    parts = ("environment.json", "timing.json", "result.json", "metrics.jsonl", "ckpt/LAST")
    result = json.loads((run / "result.json").read_bytes())
    line = {**result, "recipe": RunDirectory(run).recipe.tables()}
    return [
        Parser("model.json", described, ((run / "best" / "model.json").read_bytes(),)),
        Parser("weights", weights, (next((run / "best").glob("*.safetensors")).read_bytes(),)),
        Parser("state.json", state, ((last / "state.json").read_bytes(),)),
        Parser("files of a run", small_files, (SEPARATOR.join(map(_bytes(run), parts)),)),
        Parser("recorded runs", records, (json.dumps(line).encode(),)),
    ]


def _settings_parsers(folder: Path, recipe: Any) -> list[Parser]:
    from gsat.training.recipe import read_recipe

    def toml(content: bytes) -> object:
        return read_recipe(_file(folder / "recipe.toml", content))

    def setting(content: bytes) -> object:
        text = content.decode("utf-8", "surrogateescape")
        return gsat.make_recipe("ba2motifs", settings=[text])

    texts = (b"lr=1e-3", b"method.gsat.attention=node", b"epochs=[1, {a = 2}]", b"graphs=30")
    return [
        Parser("recipe", toml, (recipe.toml().encode(),)),
        Parser("--set", setting, texts),
    ]


# -- help -----------------------------------------------------------------------------------------


def _file(path: Path, content: bytes) -> Path:
    path.unlink(missing_ok=True)  # a new inode each time: some readers cache file versions
    path.write_bytes(content)
    return path


def _bytes(folder: Path) -> Callable[[str], bytes]:
    return lambda name: (folder / name).read_bytes()


def _copy(source: Path, target: Path) -> Path:
    if not target.exists():
        shutil.copytree(source, target)
    else:
        shutil.copytree(source, target, dirs_exist_ok=True)
    return target


def _with_check(content: bytes, key: str) -> bytes:
    """Correct the checksum of a JSON table, so that its values are read."""
    try:
        values = json.loads(content)
        values.pop(key, None)
        return json.dumps({**values, key: checksum(values)}).encode()
    except (ValueError, AttributeError, TypeError, RecursionError):
        return content


def _with_state_check(content: bytes) -> bytes:
    try:
        values = json.loads(content)
        checks = values.pop("sha256")
        return json.dumps({**values, "sha256": {**checks, "values": checksum(values)}}).encode()
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        return content


def in_memory() -> Path:
    """Make a folder, on a RAM disk if there is one."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="gsat-campaign-", dir=shared if shared.is_dir() else None))
