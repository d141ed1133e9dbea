"""What data sets there are. Imports nothing heavy: `gsat datasets` answers at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gsat.datasets.raw import RawFile
from gsat.errors import DataError


@dataclass(frozen=True)
class Option:
    """A choice a data set offers, with its default; no ``choices`` means any value of its type."""

    default: Any
    help: str
    choices: tuple[Any, ...] = ()

    def check(self, name: str, value: Any) -> Any:
        """The value in the default's type, or an error."""
        wanted = type(self.default)
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not wanted:
            raise DataError(f"data option '{name}' takes {wanted.__name__}, not {value!r}")
        if self.choices and value not in self.choices:
            allowed = ", ".join(map(str, self.choices))
            raise DataError(f"data option '{name}' is one of {allowed}, not {value!r}")
        return value


@dataclass(frozen=True)
class Entry:
    """A data set: its name (or a pattern of names), its module and what it needs.

    The module offers ``build(name, options) -> GraphStore``, ``split(store, seed, options) ->
    dict of positions``, ``TASK`` (or ``TASK(options)``), ``matches_paper(name, options)``,
    ``SPLIT_OPTIONS`` (options that do not touch the graphs) and a ``VERSION`` that is raised when
    what it builds changes; where files named by an option decide the graphs, also
    ``identity(options)``, a text that changes with them.
    """

    name: str
    summary: str
    module: str
    pattern: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)
    # Raw files by option value: () means none are needed.
    files: Mapping[str, tuple[RawFile, ...]] = field(default_factory=dict)

    def matches(self, name: str) -> bool:
        """Whether this entry answers to ``name``."""
        return name == self.name or bool(self.pattern and re.fullmatch(self.pattern, name))

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options with their values; unknown ones are an error."""
        for name in given:
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise DataError(f"{self.name} has no option '{name}'; its options: {known}")
        return {n: o.check(n, given.get(n, o.default)) for n, o in self.options.items()}

    def raw_files(self, options: Mapping[str, Any]) -> tuple[RawFile, ...]:
        """The raw files these options need."""
        return self.files.get(str(options.get("source", "")), ())


BA2MOTIFS = Entry(
    "ba2motifs",
    "1000 graphs, a house or a five-cycle on a Barabási–Albert tree",
    "gsat.datasets.ba2motifs",
    options={
        "source": Option(
            "generated",
            "'generated' needs no file; 'published' is the set of the paper",
            ("generated", "published"),
        ),
        "graphs": Option(1000, "how many graphs to generate"),
    },
    files={
        "published": (
            RawFile(
                "ba_2motifs/BA_2Motifs_dense.npz",
                "c63e61177137eb0828b5fd8f085dcb17abdda394c441a0fa9699ed28055c1767",
                "the PGExplainer project (BA-2motif.pkl, as plain arrays: docs/data.md)",
            ),
        )
    },
)
HOUSES = Entry(
    "houses",
    "1000 graphs, two or three houses on a Barabási–Albert tree: disconnected explanations",
    "gsat.datasets.houses",
    options={"graphs": Option(1000, "how many graphs to generate")},
)
SPMOTIF = Entry(
    "spmotif-0.5",
    "Spurious-Motif with any bias: spmotif-0.5, spmotif-0.7, spmotif-0.9, …",
    "gsat.datasets.spmotif",
    pattern=r"spmotif-(0(\.\d+)?|1(\.0+)?|\.\d+)",
    options={
        "undirected": Option(False, "store both directions (the published set has one)"),
        "tree_heights": Option(
            "class",
            "'class': heights depend on the class in train, as published",
            ("class", "same"),
        ),
        "train_per_class": Option(3000, "training graphs per class; 1/3 for valid, 2/3 for test"),
    },
)
MUTAG = Entry(
    "mutag",
    "2951 molecules, mutagenic or not; the NO2 and NH2 groups are the truth",
    "gsat.datasets.mutag",
    options={
        "source": Option("published", "the TU files with edge_gt", ("published",)),
        "test": Option(
            "paper",
            "'paper': all annotated mutagens, which overlap train; 'held-out': 80/10/10",
            ("paper", "held-out"),
        ),
        "drop_unannotated": Option(True, "leave out mutagens without an annotated group"),
    },
    files={
        "published": (
            RawFile(
                "mutagenicity/Mutagenicity.zip",
                "20c0134bad28fa23a1dd928c6cf5afa6b6f1db10758d8622cfac7245207a95ca",
                "the PGExplainer project (dataset/Mutagenicity.zip)",
            ),
        )
    },
)
BA_SHAPES = Entry(
    "ba-shapes",
    "one graph, 80 houses on a Barabási–Albert graph: which place in a house has a node?",
    "gsat.datasets.ba_shapes",
    options={"motifs": Option(80, "how many houses")},
)
TREE_CYCLES = Entry(
    "tree-cycles",
    "one graph, 80 six-cycles on a binary tree: is a node in a cycle?",
    "gsat.datasets.tree_cycles",
    options={"motifs": Option(80, "how many cycles")},
)
MOTIF_COUNT = Entry(
    "motif-count",
    "1000 trees with houses and five-cycles: how many houses? (regression)",
    "gsat.datasets.motif_count",
    options={
        "graphs": Option(1000, "how many graphs to generate"),
        "level": Option(
            "graph",
            "'graph': houses of a graph; 'node': houses a node is part of or joined to",
            ("graph", "node"),
        ),
    },
)
GRAPH_SST2 = Entry(
    "graph-sst2",
    "70042 sentences of film reviews as dependency trees, good or bad; tested on short ones",
    "gsat.datasets.graph_sst2",
    options={
        "source": Option(
            "trees",
            "'trees': parses made again, with word vectors of a model; 'published': DIG's files",
            ("trees", "published"),
        ),
        "vectors": Option(
            "minilm",
            "for 'trees': minilm, a folder with a transformers model, or a name on the hub",
        ),
        "sentences": Option(0, "only the first so many sentences; 0 for all"),
    },
    files={
        "trees": (
            RawFile(
                "sst2/graph_sst2_rebuilt_spacy_trees.tsv.gz",
                "8206a4d1f25e1dcf2b8f700fecd45c19c0a690c5645190e940e7392982933d14",
                "the makers of this package (SST-2 parsed by spaCy; your own: docs/data.md)",
            ),
        ),
        # DIG publishes no checksums; the reader checks that the files fit together.
        "published": tuple(
            RawFile(f"sst2/Graph-SST2/raw/Graph-SST2_{part}", "", "the DIG project (Graph-SST2)")
            for part in (
                "edge_index.txt",
                "node_indicator.txt",
                "graph_labels.txt",
                "node_features.pkl",
                "sentence_tokens.json",
            )
        ),
    },
)

ENTRIES: tuple[Entry, ...] = (
    BA2MOTIFS, HOUSES, MUTAG, SPMOTIF, BA_SHAPES, TREE_CYCLES, MOTIF_COUNT, GRAPH_SST2
)  # fmt: skip


def find_entry(name: str) -> Entry:
    """The entry that answers to ``name``, or an error with the closest names."""
    for entry in ENTRIES:
        if entry.matches(name):
            return entry
    names = [entry.name for entry in ENTRIES]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    raise DataError(f"there is no data set '{name}': {hint}there are {', '.join(names)}")
