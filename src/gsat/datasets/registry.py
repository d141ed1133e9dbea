"""What data sets there are. Imports nothing heavy: `gsat datasets` answers at once."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from gsat.datasets.entry import Entry, Option
from gsat.datasets.fetch.raw_files import RawFile
from gsat.datasets.sources import ogb_files
from gsat.errors import DataError

PGEXPLAINER = "https://github.com/flyingdoog/PGExplainer/raw/master/dataset"

BA2MOTIFS = Entry(
    "ba2motifs",
    "1000 graphs, a house or a five-cycle on a Barabási–Albert tree",
    "gsat.datasets.sources.ba2motifs",
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
                "the PGExplainer project (BA-2motif.pkl as plain arrays)",
                instead=RawFile(
                    "ba_2motifs/BA-2motif.pkl",
                    "",  # its graphs are checked instead
                    "the PGExplainer project",
                    url=f"{PGEXPLAINER}/BA-2motif.pkl",
                ),
            ),
        )
    },
)
HOUSES = Entry(
    "houses",
    "1000 graphs, two or three houses on a Barabási–Albert tree: disconnected explanations",
    "gsat.datasets.sources.houses",
    options={"graphs": Option(1000, "how many graphs to generate")},
)
SPMOTIF = Entry(
    "spmotif-0.5",
    "Spurious-Motif with any bias: spmotif-0.5, spmotif-0.7, spmotif-0.9, …",
    "gsat.datasets.sources.spmotif",
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
    "gsat.datasets.sources.mutag",
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
                "the PGExplainer project",
                url=f"{PGEXPLAINER}/Mutagenicity.zip",
                size=927_181,
            ),
        )
    },
)
# By file: its size, the SHA-256 of the published bytes, and of the same content packed again.
_MNIST = {
    "train-images-idx3-ubyte.gz": (
        9_912_422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971",
    ),
    "train-labels-idx1-ubyte.gz": (
        28_881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203",
    ),
    "t10k-images-idx3-ubyte.gz": (
        1_648_877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be",
    ),
    "t10k-labels-idx1-ubyte.gz": (
        4_542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b",
    ),
}
MNIST75SP = Entry(
    "mnist75sp",
    "70000 handwritten digits as graphs of up to 75 superpixels; bright ones are the truth",
    "gsat.datasets.sources.mnist75sp",
    options={
        "source": Option(
            "images",
            "'images': superpixels computed from MNIST; 'published': those of Knyazev et al.",
            ("images", "published"),
        ),
        "images": Option(0, "only the first training images, and a sixth as many for test; 0: all"),
    },
    files={
        "images": tuple(
            RawFile(
                f"mnist/{name}",
                (published, packed_again),
                "LeCun, Cortes and Burges, by PyTorch's mirror",
                url=f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}",
                size=size,
            )
            for name, (size, published, packed_again) in _MNIST.items()
        ),
        "published": tuple(
            RawFile(
                f"mnist/mnist_75sp_{part}.pkl",
                "",
                "drive.google.com/drive/folders/1Prc-n9Nr8-5z-xphdRScftKKIxU4Olzh",
            )
            for part in ("train", "test")
        ),
    },
)
BA_SHAPES = Entry(
    "ba-shapes",
    "one graph, 80 houses on a Barabási–Albert graph: which place in a house has a node?",
    "gsat.datasets.sources.ba_shapes",
    options={"motifs": Option(80, "how many houses")},
)
TREE_CYCLES = Entry(
    "tree-cycles",
    "one graph, 80 six-cycles on a binary tree: is a node in a cycle?",
    "gsat.datasets.sources.tree_cycles",
    options={"motifs": Option(80, "how many cycles")},
)
MOTIF_COUNT = Entry(
    "motif-count",
    "1000 trees with houses and five-cycles: how many houses? (regression)",
    "gsat.datasets.sources.motif_count",
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
    "gsat.datasets.sources.graph_sst2",
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


def _ogbg(name: str, summary: str) -> Entry:
    return Entry(
        f"ogbg-{name}",
        summary,
        "gsat.datasets.sources.ogbg_mol",
        files={"": ogb_files.raw_files(name)},
    )


OGBG_MOL = (
    _ogbg("molhiv", "41127 molecules: does it inhibit HIV?"),
    _ogbg("molbace", "1513 molecules: does it inhibit the enzyme BACE-1?"),
    _ogbg("molbbbp", "2039 molecules: does it pass from blood to brain?"),
    _ogbg("molclintox", "1477 drugs: approved? failed for toxicity? (2 labels)"),
    _ogbg("moltox21", "7831 molecules, 12 tests of toxicity, some labels missing"),
    _ogbg("molsider", "1427 drugs, 27 kinds of side effects"),
)

ENTRIES: tuple[Entry, ...] = (
    BA2MOTIFS, HOUSES, MUTAG, SPMOTIF, MNIST75SP, GRAPH_SST2, *OGBG_MOL, BA_SHAPES, TREE_CYCLES,
    MOTIF_COUNT
)  # fmt: skip

# Graphs of the user's own: at a path, which is then the name, or in memory under this name.
IN_MEMORY = "custom"
OWN_DATA = Entry(
    IN_MEMORY,
    "graphs of your own: a path, or graphs in Python",
    "gsat.datasets.own_data",
    options={
        "task": Option(
            "auto",
            "what is predicted; 'auto' tells it from the labels",
            ("auto", "binary", "multiclass", "multilabel", "regression"),
        ),
        "level": Option("auto", "what has a label", ("auto", "graph", "node")),
        "metric": Option(
            "auto", "what selects the best epoch", ("auto", "accuracy", "roc_auc", "r2", "mae")
        ),
        "classes": Option([], "names of the classes, in the order of the outputs"),
        "split": Option(
            "auto",
            "'auto': as given, else stratified where there are classes, else random",
            ("auto", "given", "random", "stratified", "scaffold", "kfold"),
        ),
        "train": Option(0.8, "share of the training set"),
        "valid": Option(0.1, "share of the validation set"),
        "test": Option(0.1, "share of the test set"),
        "folds": Option(10, "with split=kfold: how many folds"),
        "fold": Option(0, "with split=kfold: the fold to test on; the next one validates"),
        "content": Option("", "the hash the graphs must have; a run fills it in"),
    },
)


def find_entry(name: str) -> Entry:
    """The entry that answers to ``name``, or an error with the closest names."""
    for entry in ENTRIES:
        if entry.matches(name):
            return entry
    if name == IN_MEMORY or is_path(name):
        return OWN_DATA
    names = [entry.name for entry in ENTRIES]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    raise DataError(f"there is no data set '{name}': {hint}there are {', '.join(names)}")


def is_path(name: str) -> bool:
    """Whether ``name`` is a place for data rather than the name of a data set."""
    if any(entry.matches(name) for entry in ENTRIES) or name == IN_MEMORY:
        return False
    named_so = "/" in name or os.sep in name or name.endswith((".jsonl", ".jsonl.gz", ".zip"))
    return named_so or (bool(name) and Path(name).exists())


def full_name(name: str) -> str:
    """The name by which data is found from any folder: a path is made absolute."""
    return str(Path(name).expanduser().absolute()) if is_path(name) else name
