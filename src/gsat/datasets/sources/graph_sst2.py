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
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gsat.core.errors import DataError
from gsat.core.registry import register_dataset
from gsat.datasets.fetch.raw_files import RawFile
from gsat.datasets.source import DatasetOptions, DatasetSource, Match

if TYPE_CHECKING:
    from gsat.graphs import GraphStore

# Stored (directed) edges per node: the thresholds of DIR, which the paper took over.
TRAIN_DEGREE: Final = 1.76785714
TEST_DEGREE: Final = 1.57142857
FEWEST_EDGES: Final = 3
HEADER: Final = ("split", "index", "label", "tokens", "heads")
PARSES: Final = "spaCy 2.3.9 with en_core_web_sm 2.2.5, each text one tree"
DIG: Final = "the DIG project (Graph-SST2)"


@register_dataset("graph-sst2")
class GraphSST2(DatasetSource):
    """70042 sentences of film reviews as dependency trees, good or bad; tested on short ones."""

    class Options(DatasetOptions):
        source: Literal["trees", "published"] = Field(
            "trees",
            description="'trees': parses made again, with word vectors of a model; "
            "'published': DIG's files",
        )
        vectors: str = Field(
            "minilm",
            description="for 'trees': minilm, a folder with a transformers model, or a name on "
            "the hub",
        )
        sentences: int = Field(0, ge=0, description="maximum number of sentences; 0: all")

    files: ClassVar = {
        "trees": (
            RawFile(
                "sst2/graph_sst2_rebuilt_spacy_trees.tsv.gz",
                "8206a4d1f25e1dcf2b8f700fecd45c19c0a690c5645190e940e7392982933d14",
                "the makers of this package (SST-2 parsed by spaCy; your own: docs/data.md)",
            ),
        ),
        # DIG publishes no checksums; the reader checks that the files fit together.
        "published": tuple(
            RawFile(f"sst2/Graph-SST2/raw/Graph-SST2_{part}", "", DIG)
            for part in (
                "edge_index.txt",
                "node_indicator.txt",
                "graph_labels.txt",
                "node_features.pkl",
                "sentence_tokens.json",
            )
        ),
    }
    in_paper = True
    task_settings: ClassVar = {"kind": "binary"}

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Read the sentences: reversed edges, then the edges; a constant edge feature; words."""
        files = [file.require() for file in self.raw_files(name, options)]
        if options.source == "published":
            return read_published(files[0].parent, options.sentences)
        return from_trees(files[0], options.vectors, options.sentences, parses=PARSES)

    def identity(self, options: Options) -> str:
        """Return a hash of the files of a model in a folder, which decide the vectors."""
        from gsat.datasets.sources.word_vectors import digest

        folder = Path(options.vectors)
        return digest(folder) if options.source == "trees" and folder.is_dir() else ""

    def split(self, store: GraphStore, seed: int, options: Options) -> dict[str, NDArray[np.int64]]:
        """Split by degree, the same for every seed."""
        parts = by_degree(store.node_counts, store.edge_counts)
        for part, positions in parts.items():
            if not len(positions):
                raise DataError(
                    f"{len(store)} sentences leave none for '{part}': raise the data option "
                    "'sentences'"
                )
        return parts

    def matches_paper(self, name: str, options: Options) -> Match:
        """``yes`` for the published files; other parses with vectors of BERT are ``rebuilt``."""
        from gsat.datasets.sources.word_vectors import is_bert_base

        if options.sentences:
            return "different"
        if options.source == "published":
            return "yes"
        return "rebuilt" if is_bert_base(options.vectors) else "different"


class Sentences(NamedTuple):
    """Parsed sentences."""

    words: list[list[str]]
    node_ptr: NDArray[np.int64]  # first word of each sentence, [G + 1]
    edge_ptr: NDArray[np.int64]  # first edge of each sentence, [G + 1]
    edge_index: NDArray[np.int64]  # edges, with words numbered within each sentence, [2, E]
    label: NDArray[np.int64]  # class of each sentence, [G]


def by_degree(nodes: NDArray[np.int64], edges: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Split sentences by their number of edges per word."""
    degree = edges / np.maximum(nodes, 1)
    some = edges >= FEWEST_EDGES
    pool = np.flatnonzero(some & (degree >= TRAIN_DEGREE))
    valid = int(0.1 * len(pool))
    test = np.flatnonzero(some & (degree <= TEST_DEGREE))
    return {"train": pool[valid:], "valid": pool[:valid], "test": test}


def from_trees(
    path: str | Path, vectors: str, sentences: int = 0, *, parses: str = ""
) -> GraphStore:
    """Make graphs of parsed sentences with the word vectors of a model."""
    from gsat.datasets.sources.word_vectors import WordVectors

    read = read_trees(Path(path), sentences)
    model = WordVectors(vectors)
    meta = {"parses": parses or Path(path).name, "vectors": str(model)}
    return _store(read, model.encode_all(read.words), meta)


def read_trees(path: Path, sentences: int = 0) -> Sentences:
    """Read a table of parsed sentences, tab-separated, packed by gzip or not.

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
        # A remark may follow a column's name: "heads(0-based, root=self)".
        names = [cell.split("(")[0] for cell in lines[0].split("\t")]
        if tuple(names[: len(HEADER)]) != HEADER:
            raise DataError(f"{path} must begin with the columns {', '.join(HEADER)}, not {names}")
        for number, line in enumerate(lines[1:], start=2):
            cells = line.split("\t")
            if len(cells) < len(HEADER):
                raise DataError(f"{path}, line {number}: {len(cells)} columns, not 5 or more")
            label.append(int(cells[2]))
            words.append(cells[3].split(" "))
            heads.append([int(head) for head in cells[4].split(" ")])
            if why := _misfit(label[-1], words[-1], heads[-1]):
                raise DataError(f"{path}, line {number}: {why}")
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
    """Read the files of DIG's Graph-SST2; its own split is not used, as in the paper."""
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
            f"the files of Graph-SST2 in {folder} do not fit together: get them again from {DIG}"
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
    """Put the reversed edges of each graph before the edges themselves."""
    twice = np.concatenate([edges[::-1], edges], axis=1)
    # Stable: within a graph, what was listed first stays first.
    rows = np.argsort(np.concatenate([graph, graph]), kind="stable")
    return _offsets(2 * np.bincount(graph, minlength=graphs)), twice[:, rows]


def _store(read: Sentences, x: NDArray[np.float16], meta: Mapping[str, str]) -> GraphStore:
    """The graphs of sentences with word vectors ``[words, size]``."""
    from gsat.graphs import GraphStore
    from gsat.graphs.texts import WORDS, encode_words

    store = GraphStore.from_arrays(
        node_ptr=read.node_ptr,
        edge_ptr=read.edge_ptr,
        edge_index=read.edge_index,
        x=x,
        edge_attr=np.ones((read.edge_index.shape[1], 1), dtype=np.float32),
        y=read.label.astype(np.float32)[:, None],
        meta={"classes": ["negative", "positive"], **meta},
    )
    # Set directly: `graph_fields` would turn each byte into eight.
    store.arrays[f"graph.{WORDS}"] = encode_words(read.words)
    return store


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)])


def _misfit(label: int, words: Sequence[str], heads: Sequence[int]) -> str:
    """Why a line can't be a sentence; empty if it can."""
    if len(words) != len(heads):
        return f"{len(words)} words but {len(heads)} heads"
    if not all(0 <= head < len(words) for head in heads):
        return f"heads are 0 to {len(words) - 1}, not {heads}"
    return "" if label in (0, 1) else f"the label is 0 or 1, not {label}"


def _table(folder: Path, part: str, columns: int) -> NDArray[np.int64]:
    """A table of whole numbers: ``[rows, 2]``, or ``[rows]`` for one column."""
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
