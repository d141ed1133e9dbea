"""The user's own graphs, in memory or at a path: read, with an inferred task, and split.

A path is a TU folder or a zip of one, a folder written by ``GraphStore.save``, or a JSON-lines
file. Graphs read from text are cached under a hash of the files.
"""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from gsat.core.errors import DataError, DataNotFoundError, shown
from gsat.core.files import exists, open_file
from gsat.core.folders import cache_folder
from gsat.core.limits import check_size
from gsat.datasets import molecule_tables, splits
from gsat.datasets.cache import cached, content_hash
from gsat.datasets.dataset import Dataset
from gsat.datasets.formats import jsonl, tu
from gsat.datasets.labels import (
    find_level,
    infer_kind,
    known_rows,
    read_labels,
    standardised,
    with_task,
)
from gsat.datasets.own_options import MoleculeOptions, OwnDataOptions
from gsat.datasets.own_splits import has_classes, split
from gsat.graphs import GraphStore, from_pyg
from gsat.graphs.conversions import to_data_list
from gsat.graphs.validation import validate_dataset
from gsat.tasks import Kind, Task

VERSION: Final = 1  # raised when what is read from a file changes
_COLUMN_BYTES: Final = 4096  # about the memory of a column: weights, gradients, the optimiser's
KINDS: Final = (
    "a table of molecules (.csv, .tsv, .smi, .sdf, .parquet), a TU folder (NAME_A.txt, …) or a zip "
    "of one, a folder of saved graphs, .jsonl or .jsonl.gz"
)


def load_own_data(source: Any, name: str, seed: int, options: OwnDataOptions) -> Dataset:
    """Load the user's own graphs, infer the missing parts of their task, and split them."""
    if isinstance(options, MoleculeOptions):
        store = molecule_tables.read(source, options.table_settings())
    else:
        store = read(source) if isinstance(source, Path) else from_graphs(source, options.level)
    if not len(store):
        raise DataError("there are no graphs in the data: give at least one in each split")
    for columns, of in ((store.num_features, "node"), (store.num_edge_features, "edge")):
        check_size(_COLUMN_BYTES * columns, f"a network for {columns} {of} features", DataError)
    found = store.meta.get("content") or content_hash(store)
    if options.content not in ("", found):
        raise DataError(
            f"the data has changed since the training: the graphs of {name} now have the hash "
            f"{found}, not {options.content}; restore the old ones, or train again"
        )
    level = find_level(store, options.level)
    classes = [str(name) for name in options.classes]
    if len(set(classes)) < len(classes):
        raise DataError(f"the classes {', '.join(classes)} are not all different; name each once")
    values = read_labels(store, level)
    if options.task != "auto":
        kind: Kind = options.task
    elif "table" in store.meta:
        kind = store.meta["table"]["kind"]
    else:
        kind = infer_kind(values, classes or store.meta.get("classes") or ())
    metric = options.metric
    if isinstance(options, MoleculeOptions) and kind == "binary" and metric == "auto":
        metric = "roc_auc"  # active molecules are rare: a model that finds none is accurate
    store, task = with_task(store, level, kind, metric, classes)
    how, parts = split(store, task, known_rows(values), seed, options)
    validate_dataset(store, task, parts, name=name)
    if kind == "regression":
        task = standardised(task, values[parts["train"]])
    elif isinstance(options, MoleculeOptions) and options.balance:
        task = _balanced(task, store.labels(level)[parts["train"]])
    return Dataset(
        name=name,
        store=store,
        task=task,
        splits=parts,
        hash=found,
        options={
            **options.model_dump(),
            "task": kind,
            "level": level,
            "metric": task.metric,
            "split": options.split if options.split.startswith("column:") else how,
            "classes": list(store.meta.get("classes") or []) if has_classes(task) else [],
            "content": found,
            **(molecule_tables.columns(store) if "table" in store.meta else {}),
        },
        seed=seed,
    )


# -- reading --------------------------------------------------------------------------------------


def read(path: Path) -> GraphStore:
    """Read the graphs at a path."""
    if not exists(path):
        raise DataNotFoundError(
            f"there is no file or folder {shown(str(path))}; data at a path is {KINDS}"
        )
    if path.is_dir() and not tu.is_tu(path):
        try:
            store = GraphStore.load(path)
        except DataError as error:
            raise DataError(f"{error}; data at a path is {KINDS}") from None
        saved = from_graphs(store)
        saved.meta["content"] = content_hash(saved)
        return saved
    if path.is_dir() or path.suffix == ".zip":
        reader, files = tu.read, tu.files(path)
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        reader, files = jsonl.read, [path]
    else:
        raise DataError(f"{path} can't be read as graphs: data at a path is {KINDS}")
    folder = cache_folder() / "datasets" / f"own-{_key(files, reader.__module__)}"
    return cached(folder, lambda: reader(path))


def from_graphs(graphs: Any, level: str = "auto") -> GraphStore:
    """Make a store of graphs in memory.

    Beside what :func:`gsat.graphs.from_pyg` takes, a ``Data`` may have ``split`` (train, valid or
    test), ``smiles``, ``annotated`` (False: its truth does not count), and at node level
    ``train_mask``, ``val_mask`` and ``test_mask``, ``[N]``.
    """
    from torch_geometric.data import Batch, Data

    if isinstance(graphs, GraphStore):
        # The hash in its meta may be that of a larger set, of which this is a part.
        meta = {key: value for key, value in graphs.meta.items() if key != "content"}
        return GraphStore(graphs.at_nodes(None).whole().arrays, meta)
    single = isinstance(graphs, Data) and not isinstance(graphs, Batch)
    several = hasattr(graphs, "__iter__") or hasattr(graphs, "__getitem__")
    if single or isinstance(graphs, Mapping) or not several:
        raise DataError(
            f"data must be a name, a path, a GraphStore or a list of PyG Data, "
            f"not a {type(graphs).__name__}"
        )
    listed = to_data_list(graphs)
    if level != "graph" and _are_node_labels(listed, level):
        listed = [_with_node_labels(graph) for graph in listed]
    store = from_pyg(listed)
    arrays: dict[str, NDArray[Any]] = {}

    def given(name: str) -> bool:
        return any(graph.get(name) is not None for graph in listed)

    if given("split"):
        marks = [_mark(graph.get("split"), number) for number, graph in enumerate(listed)]
        arrays["graph.split"] = np.array(marks, dtype=np.int64)
    if given("annotated"):
        known = [bool(graph.get("annotated", True)) for graph in listed]
        arrays["graph.annotated"] = np.array(known)
    if given("train_mask"):
        arrays["node_split"] = np.concatenate([_node_marks(g, n) for n, g in enumerate(listed)])
    if any(isinstance(graph.get("smiles"), str) for graph in listed):
        from gsat.graphs.texts import encode_texts

        arrays["graph.smiles"] = encode_texts([str(graph.get("smiles") or "") for graph in listed])
    return GraphStore({**store.arrays, **arrays}, store.meta)


def _are_node_labels(graphs: list[Any], level: str) -> bool:
    """Whether ``y`` of the graphs labels their nodes."""
    if any(g.get("y") is None or g.get("node_y") is not None for g in graphs):
        return False
    if level == "node":
        return True
    sizes = [(np.shape(g.y)[:1], g.num_nodes) for g in graphs]
    return any(n != 1 for _, n in sizes) and all(tuple(rows) == (n,) for rows, n in sizes)


def _with_node_labels(graph: Any) -> Any:
    """A copy of the graph with ``y`` as ``node_y``."""
    changed = copy.copy(graph)
    changed.node_y = changed.y
    del changed.y
    return changed


def _mark(value: Any, number: int) -> int:
    """The split of graph ``number`` as 0, 1, 2 or -1; see :func:`splits.given`."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    known = {**splits.MARKS, -1: -1, 0: 0, 1: 1, 2: 2}
    try:
        return known[value]
    except (KeyError, TypeError):
        shown = " ".join(repr(value).split())[:40]
        raise DataError(
            f"graph {number} has the split {shown}; it must be train, valid or test, for the graph "
            "as a whole (for nodes: train_mask, val_mask, test_mask)"
        ) from None


def _node_marks(graph: Any, number: int) -> NDArray[np.int64]:
    """The split of each node ``[N]``, from PyG's masks."""
    marks = np.full(int(graph.num_nodes), -1, dtype=np.int64)
    for at, name in enumerate(("train_mask", "val_mask", "test_mask")):
        mask = graph.get(name)
        if mask is None:
            continue
        mask = torch.as_tensor(mask).numpy(force=True)
        if mask.shape != marks.shape or mask.dtype != bool:
            raise DataError(
                f"graph {number}: {name} has the shape {list(mask.shape)} and the type "
                f"{mask.dtype}; it must hold one bool for each of {len(marks)} nodes"
            )
        if (twice := np.flatnonzero(mask & (marks >= 0))).size:
            raise DataError(f"graph {number}: node {twice[0]} is in {name} and in another mask")
        marks[mask] = at
    return marks


def _key(files: list[Path], reader: str) -> str:
    """Cache key of what a reader makes of these files."""
    digest = hashlib.sha256(f"{reader} {VERSION}".encode())
    for file in files:
        with open_file(file, error=DataError, links=True) as handle:
            check_size(os.fstat(handle.fileno()).st_size, f"all of {file}", DataError)
            content = hashlib.file_digest(handle, "sha256")  # type: ignore[arg-type]
        digest.update(f"{file.name} ".encode("utf-8", "surrogateescape") + content.digest())
    return digest.hexdigest()[:16]


def _balanced(task: Task, labels: NDArray[Any]) -> Task:
    """The task with weights that balance the classes of the training set."""
    if task.kind == "multilabel":
        positive = np.nansum(labels, axis=0)
        negative = (~np.isnan(labels)).sum(axis=0) - positive
        return replace(task, weights=tuple((negative.clip(1) / positive.clip(1)).tolist()))
    counts = np.bincount(labels.reshape(-1).astype(np.int64), minlength=task.classes).clip(1)
    return replace(task, weights=tuple((counts.sum() / (task.classes * counts)).tolist()))
