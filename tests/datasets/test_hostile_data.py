"""Data files that ask for too much, or lie, are refused before anything is allocated."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pickle
import re
import resource
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gsat.core.errors import DataError, GSATError
from gsat.datasets.fetch.archive import open_zip
from gsat.datasets.fetch.transfer import _SafeRedirects
from gsat.datasets.fetch.unpickle import load_pickle
from gsat.datasets.formats import jsonl, tu
from gsat.datasets.load import load_dataset

GOOD: dict[str, Any] = {"edges": [[0, 1], [1, 0]], "x": [[1.0], [2.0]], "y": 1}


def refused(read: Any, path: Path) -> str:
    """The line with which a file is refused, quickly and in little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError) as caught:
            read(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 900 << 10, "kilobytes"
    assert str(caught.value).isprintable()
    return str(caught.value)


def lines(folder: Path, *graphs: Any) -> Path:
    path = folder / "graphs.jsonl"
    path.write_text("\n".join(json.dumps(graph) for graph in graphs))
    return path


# -- JSON lines -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"num_nodes": 2**28}, "needs 10 GiB of memory; 512 MiB are allowed"),
        ({"x": [["a" * 10**6], *[["b"]] * 5000]}, "'x' must contain numbers only"),
        (
            {"x": [[1.5], [10**400]]},
            "'x' (contains a number that is too large|must contain numbers)",
        ),
        ({"x": [[1e300], [1]]}, "'x' contains a number that is too large: 1e.300"),
        ({"y": "\ud800"}, "can't be the name of a class"),
        ({"y": "\x1b[2J"}, r"can't be the name of a class: \\x1b"),
        ({"y": "a" * 10_000}, "can't be the name of a class: a{40}…"),
        ({"id": {"a": 1}}, "'id' must be a text"),
        ({"k" * 10_000: 1}, "'k{40}…' is not a key"),
        ({"split": "x" * 10_000}, "null, not x{60}…"),
    ],
)
def test_lines_that_ask_for_too_much(change: dict[str, Any], why: str, tmp_path: Path) -> None:
    said = refused(jsonl.read, lines(tmp_path, {**GOOD, **change}))
    assert re.search(why, said), said
    assert len(said) < 500


def test_a_line_of_brackets_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "graphs.jsonl"
    path.write_bytes(b"[" + b"[]," * 8_000_000 + b"[]]")
    assert "of memory; 512 MiB are allowed" in refused(jsonl.read, path)
    path.write_bytes(b"[" * 100_000)
    assert "nested too deep" in refused(jsonl.read, path)
    path.write_bytes(b'{"y": 1, "y": 2}')
    assert "occurs twice" in refused(jsonl.read, path)


@pytest.mark.parametrize("unit", [b"\0", b"\n", b" ", json.dumps(GOOD).encode() + b"\n"])
def test_gzip_bombs(unit: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "256K")
    path = tmp_path / "graphs.jsonl.gz"
    with gzip.open(path, "wb", 1) as handle:
        for _ in range(2):
            handle.write(unit * ((1 << 20) // len(unit)))
    refused(jsonl.read, path)


def test_a_file_that_is_packed_too_well_is_not_unpacked_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "graphs.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps(GOOD).encode() + b"\n") * 40_000))
    assert "unpacks to more than 50 times its size" in refused(jsonl.read, path)


def test_one_long_text_is_not_padded_to_all_graphs(tmp_path: Path) -> None:
    path = lines(tmp_path, {**GOOD, "id": "a" * (1 << 20)}, *[{**GOOD, "id": "b"}] * 1000)
    assert "1048576 bytes, as one of many" in refused(jsonl.read, path)


def test_too_many_features_and_classes(tmp_path: Path) -> None:
    wide = {**GOOD, "x": [[0.0] * 200_000] * 2}
    assert "a network for 200000 node features" in refused(
        load_dataset, lines(tmp_path, wide, wide)
    )
    many = [{**GOOD, "y": 3 * number} for number in range(10_001)]
    assert "10001 classes; at most 10000" in refused(load_dataset, lines(tmp_path, *many))


@pytest.mark.parametrize("kind", ["fifo", "device", "sparse"])
@pytest.mark.parametrize("name", ["graphs.jsonl", "graphs.jsonl.gz", "graphs.zip"])
def test_special_files_are_refused_at_once(kind: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as handle:
            handle.truncate(1 << 40)
    said = refused(load_dataset, path)
    assert "not a regular file" in said or "of memory" in said


# -- tables ---------------------------------------------------------------------------------------

TABLES = {
    "A": "1, 2\n2, 1\n3, 4\n", "graph_indicator": "1\n1\n2\n2\n", "graph_labels": "0\n1\n",
    "node_labels": "0\n1\n1\n0\n",
}  # fmt: skip


def tables(folder: Path, **changes: str | None) -> Path:
    (folder / "t").mkdir()
    for name, text in {**TABLES, **changes}.items():
        if text is not None:
            (folder / "t" / f"T_{name}.txt").write_text(text)
    return folder / "t"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"graph_indicator": "1\n1\n2\n4000000000\n", "graph_labels": None}, "a graph 4000000000"),
        ({"graph_indicator": "1\n1\n2\n-9223372036854775808\n"}, "graph_indicator, line 4"),
        ({"A": "1, 2\n2, 1\n3, 9223372036854775807\n"}, "A, line 3"),
        ({"node_labels": "1e300\n1\n1\n0\n"}, "node_labels, line 1: it must be an integer"),
        (
            {"node_labels": "-9223372036854775808\n9223372036854775807\n1\n0\n"},
            "18446744073709551616",
        ),
        ({"node_attributes": "1e300\n1\n1\n0\n"}, "node_attributes contains a number that is too"),
        ({"graph_attributes": "1e300\n1\n"}, "y contains a number that is too large"),
        ({"node_labels": "\x1b[2J\n1\n1\n0\n"}, r"'\\x1b\[2J' is not a number"),
        ({"node_labels": "x" * 100_000}, "is not a number"),
        ({"node_labels": "ü\n1\n1\n0\n"}, "byte 0 is no"),
    ],
)
def test_tables_that_lie(changes: dict[str, str | None], why: str, tmp_path: Path) -> None:
    said = refused(tu.read, tables(tmp_path, **changes))
    assert re.search(why, said), said
    assert len(said) < 400


def test_a_table_that_is_a_link_is_refused(tmp_path: Path) -> None:
    folder = tables(tmp_path)
    (folder / "T_graph_labels.txt").unlink()
    (folder / "T_graph_labels.txt").symlink_to("/etc/passwd")
    assert "it is a symbolic link" in refused(tu.read, folder)


def test_zips_that_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as held:
        for table, text in TABLES.items():
            held.writestr(f"T_{table}.txt", text)
    whole = path.read_bytes()
    place = whole.rfind(b"PK\1\2")
    for offset in range(4, 46):  # every byte of the last entry of its list, the version among them
        content = bytearray(whole)
        content[place + offset] = 255
        path.write_bytes(content)
        with contextlib.suppress(GSATError):  # and nothing else
            tu.read(path)
    path.write_bytes(whole)
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "1K")
    with pytest.raises(DataError, match="the list of files"), open_zip(path):
        pass


# -- pickles --------------------------------------------------------------------------------------


# A list of a list twice of a list twice of …
SHARED = b"]" + b"".join(b"q%c0](h%ch%ce" % (i, i, i) for i in range(60))


# Pickles that a few bytes make dangerous to build.
CRAFTED = {
    "a deep key": b"}" + b"N" + b"\x85" * 100_000 + b"Ns.",
    "a deep item": b"\x80\x04\x8f(N" + b"\x85" * 100_000 + b"\x90.",
    "a shared key": b"}N" + b"2\x86" * 60 + b"Ns.",
    "a shared item of a set": b"c__builtin__\nset\n(](N" + b"2\x86" * 60 + b"etR.",
    "a shared item of a tuple": b"c__builtin__\nfrozenset\n(N" + b"2\x86" * 60 + b"ttR.",
    # Functions that would show, or compare, what is shared sixty times over.
    "a shared type": b"cnumpy\ndtype\n(" + SHARED + b"tR.",
    "shared sizes": b"cnumpy.core.numeric\n_frombuffer\n(C\x01acnumpy\ndtype\n(U\x02i1tR("
    + SHARED
    + SHARED
    + b"tU\x01CtR.",
    "four gigabytes": b"\x80\x03B\xff\xff\xff\xff.",
    "more": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a reference to nothing": b"h\x05.",
    "an empty stack": b"0.",
    "no mark": b"NNt.",
    "no end": b"N",
    "nothing": b"",
    "numbers of one hash": pickle.dumps({k * (2**61 - 1): 0 for k in range(2, 1000)}),
    "many lists": b"(" + b"]" * 150_000 + b"t.",
}


@pytest.mark.parametrize("name", CRAFTED)
def test_dangerous_pickles_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "8M")
    path = tmp_path / "x.pkl"
    path.write_bytes(CRAFTED[name])
    assert "not a pickle of plain values" in refused(load_pickle, path)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.",
        b"\x80\x02Nr\xff\xff\xff\x7f.",
        b"Np2147483647\n.",
    ],
    ids=["frame", "memo", "memo as text"],
)
def test_large_numbers_allocate_no_memory(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        assert load_pickle(path) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# -- downloads ------------------------------------------------------------------------------------


def test_https_is_not_redirected_to_http() -> None:
    import urllib.request

    handler = _SafeRedirects()
    request = urllib.request.Request("https://example.org/a")
    for url in ("http://example.org/b", "ftp://example.org/b", "file:///etc/passwd"):
        with pytest.raises(DataError, match="which is not https"):
            handler.redirect_request(request, None, 302, "Found", {}, url)
    followed = handler.redirect_request(request, None, 302, "Found", {}, "https://example.org/b")
    assert followed.full_url == "https://example.org/b"
