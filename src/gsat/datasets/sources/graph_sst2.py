"""Graph-SST2: sentences of film reviews as dependency trees; is the judgement good or bad?

A node is a word with its vector, an edge joins a word and its head. Training sentences have many
edges per word, test sentences few: for trees, nine words and more against three or four.

``source="trees"`` (the default) takes parses from a table and word vectors from a model of
`transformers`; ``source="published"`` reads the files of DIG, those of the paper.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsat.datasets.registry import GRAPH_SST2
from gsat.datasets.sources.word_vectors import WordVectors, digest, is_bert_base
from gsat.errors import DataError
from gsat.graphs import GraphStore
from gsat.graphs.texts import WORDS, encode_words
from gsat.tasks import Task

VERSION: Final = 1
TASK: Final = Task("binary")
SPLIT_OPTIONS: Final[frozenset[str]] = frozenset()

# Stored (directed) edges per node: the thresholds of DIR, which the paper took over.
TRAIN_DEGREE: Final = 1.76785714
TEST_DEGREE: Final = 1.57142857
FEWEST_EDGES: Final = 3
HEADER: Final = ("split", "index", "label", "tokens", "heads")
PARSES: Final = "spaCy 2.3.9 with en_core_web_sm 2.2.5, each text one tree"


class Sentences(NamedTuple):
    """Parsed sentences: ``words`` of each, ``node_ptr`` and ``edge_ptr`` [G + 1], ``edge_index``
    [2, E] with numbers within each sentence, ``label`` [G]."""

    words: list[list[str]]
    node_ptr: NDArray[np.int64]
    edge_ptr: NDArray[np.int64]
    edge_index: NDArray[np.int64]
    label: NDArray[np.int64]


def build(name: str, options: Mapping[str, Any]) -> GraphStore:
    """The sentences: reversed edges, then the edges; a constant edge feature; words kept."""
    if options["sentences"] < 0:
        raise DataError(f"data option 'sentences' is 0 (all) or more, not {options['sentences']}")
    files = [file.require() for file in GRAPH_SST2.raw_files(options)]
    if options["source"] == "published":
        return read_published(files[0].parent, options["sentences"])
    return from_trees(files[0], options["vectors"], options["sentences"], parses=PARSES)


def identity(options: Mapping[str, Any]) -> str:
    """What decides the graphs beside options and raw files: the files of a model in a folder."""
    folder = Path(options["vectors"])
    return digest(folder) if options["source"] == "trees" and folder.is_dir() else ""


def split(store: GraphStore, seed: int, options: Mapping[str, Any]) -> dict[str, NDArray[np.int64]]:
    """By degree, the same for every seed."""
    parts = by_degree(store.node_counts, store.edge_counts)
    for part, positions in parts.items():
        if not len(positions):
            raise DataError(
                f"{len(store)} sentences leave none for '{part}': raise the data option 'sentences'"
            )
    return parts


def matches_paper(name: str, options: Mapping[str, Any]) -> str:
    """``yes`` for the published files; other parses with vectors of BERT are ``rebuilt``."""
    if options["sentences"]:
        return "different"
    if options["source"] == "published":
        return "yes"
    return "rebuilt" if is_bert_base(options["vectors"]) else "different"


def by_degree(nodes: NDArray[np.int64], edges: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Positions of training, validation and test sentences.

    Args:
        nodes: [G], words of each sentence. edges: [G], its directed edges.
    """
    degree = edges / np.maximum(nodes, 1)
    some = edges >= FEWEST_EDGES
    pool = np.flatnonzero(some & (degree >= TRAIN_DEGREE))
    valid = int(0.1 * len(pool))
    test = np.flatnonzero(some & (degree <= TEST_DEGREE))
    return {"train": pool[valid:], "valid": pool[:valid], "test": test}


def from_trees(
    path: str | Path, vectors: str, sentences: int = 0, *, parses: str = ""
) -> GraphStore:
    """Parsed sentences of a table with the vectors of a model.

    Args:
        path: see :func:`read_trees`. vectors: see :class:`WordVectors`.
        sentences: take the first so many; 0 for all. parses: what made the parses, if known.
    """
    read = read_trees(Path(path), sentences)
    model = WordVectors(vectors)
    meta = {"parses": parses or Path(path).name, "vectors": str(model)}
    return _store(read, model.encode_all(read.words), meta)


def read_trees(path: Path, sentences: int = 0) -> Sentences:
    """A table of parsed sentences, tab-separated, packed by gzip or not.

    Columns: part, number, label (0 or 1), words, the position of each word's head, from 0; words
    and heads are separated by spaces, and the root is its own head. Further columns are not read.
    """
    label: list[int] = []
    words: list[list[str]] = []
    heads: list[list[int]] = []
    try:
        packed = path.read_bytes()
        text = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode()
        lines = text.removesuffix("\n").split("\n")
        _check_header(path, lines[0])
        for number, line in enumerate(lines[1:], start=2):
            cells = line.split("\t")
            if len(cells) < len(HEADER):
                raise DataError(f"{path}, line {number}: {len(cells)} columns, not 5 or more")
            label.append(int(cells[2]))
            words.append(cells[3].split(" "))
            heads.append([int(head) for head in cells[4].split(" ")])
            _check_sentence(path, number, label[-1], words[-1], heads[-1])
            if len(label) == sentences:
                break
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"{path} can't be read after {len(label)} sentences: {error}") from error
    count = np.array([len(w) for w in words], dtype=np.int64)
    node_ptr = _offsets(count)
    flat = np.array([head for row in heads for head in row], dtype=np.int64)
    graph = np.repeat(np.arange(len(count)), count)
    child = np.arange(len(flat)) - node_ptr[graph]
    inner = flat != child
    edges = np.stack([flat[inner], child[inner]])
    edge_ptr, edge_index = both_directions(edges, graph[inner], len(count))
    return Sentences(words, node_ptr, edge_ptr, edge_index, np.array(label, dtype=np.int64))


def read_published(folder: Path, sentences: int = 0) -> GraphStore:
    """The files of DIG's Graph-SST2 in ``folder``; its own split is not used, as in the paper."""
    from gsat.datasets.fetch.unpickle import load_pickle

    edges, graph_of, label = (
        _table(folder, part, columns)
        for part, columns in (("edge_index", 2), ("node_indicator", 1), ("graph_labels", 1))
    )
    words = _published_words(folder)
    x = load_pickle(folder / "Graph-SST2_node_features.pkl")
    graphs, graph_of = len(label), graph_of - 1
    count = np.bincount(graph_of[graph_of >= 0], minlength=graphs)
    whole = (
        isinstance(x, np.ndarray)
        and x.ndim == 2
        and x.dtype.kind == "f"
        and len(x) == len(graph_of) > 0
        and bool((np.diff(graph_of) >= 0).all())
        and 0 <= graph_of[0] <= graph_of[-1] < graphs
        and [len(w) for w in words] == count.tolist()
        and bool(np.isin(label, (0, 1)).all())
        and 0 <= edges.min(initial=0) <= edges.max(initial=0) < len(graph_of)
        and bool((graph_of[edges[:, 0]] == graph_of[edges[:, 1]]).all())
    )
    if not whole:
        raise DataError(
            f"the files of Graph-SST2 in {folder} do not fit together: get them again from "
            f"{GRAPH_SST2.files['published'][0].source}"
        )
    taken = min(sentences or graphs, graphs)
    node_ptr = _offsets(count[:taken])
    edge_graph = graph_of[edges[:, 0]]
    rows = np.argsort(edge_graph, kind="stable")
    rows = rows[edge_graph[rows] < taken]
    edge_graph = edge_graph[rows]
    edge_ptr, edge_index = both_directions(edges[rows].T - node_ptr[edge_graph], edge_graph, taken)
    read = Sentences(words[:taken], node_ptr, edge_ptr, edge_index, label[:taken])
    meta = {"parses": "published by DIG", "vectors": f"published by DIG, {x.shape[1]} columns"}
    return _store(read, x[: node_ptr[-1]].astype(np.float16), meta)


def both_directions(
    edges: NDArray[np.int64], graph: NDArray[np.int64], graphs: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """In each graph the reversed edges, then the edges themselves: ``edge_ptr``, ``edge_index``.

    Args:
        edges: [2, E], by graph. graph: [E], which graph each belongs to, rising.
    """
    twice = np.concatenate([edges[::-1], edges], axis=1)
    # Stable: within a graph, what was listed first stays first.
    rows = np.argsort(np.concatenate([graph, graph]), kind="stable")
    return _offsets(2 * np.bincount(graph, minlength=graphs)), twice[:, rows]


def _store(read: Sentences, x: NDArray[np.float16], meta: Mapping[str, str]) -> GraphStore:
    store = GraphStore.from_arrays(
        node_ptr=read.node_ptr,
        edge_ptr=read.edge_ptr,
        edge_index=read.edge_index,
        x=x,
        edge_attr=np.ones((read.edge_index.shape[1], 1), dtype=np.float32),
        y=read.label.astype(np.float32)[:, None],
        meta={"classes": ["negative", "positive"], **meta},
    )
    # Bytes as they are: `graph_fields` would make eight of each.
    store.arrays[f"graph.{WORDS}"] = encode_words(read.words)
    return store


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)])


def _check_header(path: Path, line: str) -> None:
    # A remark may follow a column's name: "heads(0-based, root=self)".
    names = [cell.split("(")[0] for cell in line.split("\t")]
    if tuple(names[: len(HEADER)]) != HEADER:
        raise DataError(f"{path} must begin with the columns {', '.join(HEADER)}, not {names}")


def _check_sentence(
    path: Path, number: int, label: int, words: Sequence[str], heads: Sequence[int]
) -> None:
    if len(words) != len(heads):
        raise DataError(f"{path}, line {number}: {len(words)} words but {len(heads)} heads")
    if not all(0 <= head < len(words) for head in heads):
        raise DataError(f"{path}, line {number}: heads are 0 to {len(words) - 1}, not {heads}")
    if label not in (0, 1):
        raise DataError(f"{path}, line {number}: the label is 0 or 1, not {label}")


def _table(folder: Path, part: str, columns: int) -> NDArray[np.int64]:
    """A table of whole numbers: [rows, 2], or [rows] for one column."""
    path = folder / f"Graph-SST2_{part}.txt"
    try:
        table = np.loadtxt(path, dtype=np.int64, ndmin=2)
        if table.shape[1] != columns:
            raise ValueError(f"{table.shape[1]} columns, not {columns}")
    except (OSError, ValueError) as error:
        raise DataError(f"{path} can't be read: {' '.join(str(error).split())}") from error
    return table if columns > 1 else table[:, 0]


def _published_words(folder: Path) -> list[list[str]]:
    path = folder / "Graph-SST2_sentence_tokens.json"
    try:
        words = list(json.loads(path.read_text("utf-8")).values())
    except (OSError, ValueError, AttributeError) as error:
        raise DataError(f"{path} can't be read: {' '.join(str(error).split())}") from error
    if not all(isinstance(w, list) and all(isinstance(t, str) for t in w) for w in words):
        raise DataError(f"{path} must hold a list of words for each sentence")
    return words
