"""Pickles read without running them, checked against Python's own unpickler; and hostile ones."""

from __future__ import annotations

import builtins
import collections
import copyreg
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gsat.core.errors import DataError
from gsat.datasets.fetch import unpickle
from gsat.datasets.fetch.unpickle import load_pickle


def read(tmp_path: Path, content: bytes) -> Any:
    path = tmp_path / "x.pkl"
    path.write_bytes(content)
    return load_pickle(path)


def refused(tmp_path: Path, content: bytes) -> str:
    with pytest.raises(DataError) as caught:
        read(tmp_path, content)
    message = str(caught.value)
    assert str(tmp_path / "x.pkl") in message
    return message


def same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype.newbyteorder("=")
        assert ours.dtype.isnative
        assert ours.shape == theirs.shape
        assert ours.flags.writeable
        if theirs.dtype == object:
            for a, b in zip(ours.flat, theirs.flat, strict=True):
                same(a, b)
        else:
            np.testing.assert_array_equal(ours, theirs)
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            same(ours[key], theirs[key])
    else:
        np.testing.assert_equal(ours, theirs)


ragged = np.empty(2, dtype=object)
ragged[:] = [[1, np.arange(3)], {"a": np.float32(2)}]
GOOD = {
    "plain": [None, True, -3, 2**70, 1.5, float("nan"), 1 + 2j, "é", b"\xff\x00", (), {"k": [1]}],
    "sets": [{1, 2}, frozenset({(1, "a")}), set()],
    "dict": {"a": 1, (2, 3): "b", None: 2**60 - 1},
    "matrix": np.arange(6.0).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
    "turned": np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
    "big-endian": np.arange(5, dtype=">f8"),
    "small": [np.arange(4).astype(d) for d in ("?", "u1", "<i2", ">u4", "f2", "c8", "c16", "g")],
    "text": np.array(["ab", "ü"]),
    "octets": np.array([b"ab", b"c"]),
    "empty": np.zeros((0, 3), dtype=np.int32),
    "no axes": np.array(3.5),
    "scalars": [np.float32(0.1), np.int64(-5), np.bool_(True), np.str_("ab"), np.complex64(1j)],
    "objects": ragged,
    "object without axes": np.array(None, dtype=object),
    "nested": ([(np.ones((2, 2)), [np.zeros(1)])], {"x": {3: np.arange(2)}}),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", GOOD)
def test_values_and_arrays_are_those_of_pickle(tmp_path: Path, name: str, protocol: int) -> None:
    content = pickle.dumps(GOOD[name], protocol)
    same(read(tmp_path, content), pickle.loads(content))


@pytest.mark.parametrize("old", ["numpy.core", "numpy._core"])
def test_before_and_since_numpy_2(tmp_path: Path, old: str) -> None:
    content = pickle.dumps([np.arange(3), np.float32(1)], 2)
    renamed = content.replace(b"numpy._core.", old.encode() + b".")
    same(read(tmp_path, renamed), [np.arange(3), np.float32(1)])


def python_2(data: bytes, code: bytes = b"f8", order: bytes = b"<", count: int = 2) -> bytes:
    """An array as Python 2 wrote it: bytes are text."""
    return (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b"
        b"\x87R(K\x01" + bytes([ord("K"), count]) + b"\x85cnumpy\ndtype\nU"
        + bytes([len(code)]) + code + b"K\x00K\x01\x87R(K\x03U\x01" + order
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U" + bytes([len(data)]) + data + b"tb."
    )  # fmt: skip


def test_python_2(tmp_path: Path) -> None:
    content = python_2(struct.pack("<2d", 0.1, -7.25))
    expected = pickle.loads(content, encoding="latin1")
    assert expected.tolist() == [0.1, -7.25]
    same(read(tmp_path, content), expected)


def test_what_is_shared_stays_shared_and_loops_stay_loops(tmp_path: Path) -> None:
    array, loop = np.arange(3), []
    loop.append((loop, array, array))
    ours = read(tmp_path, pickle.dumps(loop))
    assert ours[0][0] is ours
    assert ours[0][1] is ours[0][2]


def test_a_list_of_lists_of_lists_is_not_written_out(tmp_path: Path) -> None:
    laughs: list[Any] = []
    for _ in range(200):
        laughs = [laughs, laughs]
    ours = read(tmp_path, pickle.dumps(laughs))
    assert ours[0] is ours[1]


# -- hostile pickles ----------------------------------------------------------------------------


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function: Any, *arguments: Any, state: Any = None) -> None:
        self.call = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> Any:
        return self.call


class Custom:
    pass


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "call",
    [
        lambda p: Calls(os.mkdir, str(p / "attacked")),
        lambda p: Calls(os.system, f"mkdir {p / 'attacked'}"),
        lambda p: Calls(builtins.eval, f"__import__('os').mkdir({str(p / 'attacked')!r})"),
        lambda p: Calls(builtins.exec, f"import os; os.mkdir({str(p / 'attacked')!r})"),
        lambda p: Calls(builtins.open, str(p / "attacked"), "w"),
        lambda p: Calls(builtins.getattr, (1,), "count"),
        lambda p: Calls(np.load, str(p / "victim.npy"), None, True),
        lambda p: Calls(np.fromfile, str(p / "victim.npy")),
        lambda p: Calls(np.memmap, str(p / "attacked"), "u1", "w+", 0, (4,)),
        lambda p: Calls(np.save, str(p / "attacked"), 1),
        lambda p: Calls(np.ndarray, (3,)),
        lambda p: Calls(np.frombuffer, b"abc", "u1"),
        lambda p: Calls(np.dtype, {"names": ["a"], "formats": ["O"]}),
        lambda p: Calls(pickle.loads, pickle.dumps(1)),
        lambda p: Calls(copyreg._reconstructor, Custom, object, None),
        lambda p: Custom(),
        lambda p: Custom,
        lambda p: collections.OrderedDict(a=1),
        lambda p: collections.defaultdict(list),
        lambda p: len,
        lambda p: np.ndarray,
        lambda p: np.dtype("f8"),
        lambda p: np.array([Custom()], dtype=object),
        lambda p: np.zeros(2, dtype=[("a", "f8")]),
        lambda p: np.zeros(2, dtype="M8[s]"),
        lambda p: np.zeros(2, dtype="V4"),
        lambda p: np.rec.array([(1, 2)]),
        lambda p: np.ma.array([1], mask=[True]),
        lambda p: p,
    ],
)
def test_everything_else_is_refused(tmp_path: Path, call: Any, protocol: int) -> None:
    np.save(tmp_path / "victim.npy", np.arange(3))
    refused(tmp_path, pickle.dumps([1, call(tmp_path)], protocol))
    assert {path.name for path in tmp_path.iterdir()} == {"victim.npy", "x.pkl"}


DTYPE = b"cnumpy\ndtype\nX\x02\x00\x00\x00%sI00\nI01\n\x87R"
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(tR"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        # Pointers made of bytes: an array of objects whose dtype says it holds none.
        (DTYPE % b"O8" + b"(I3\nX\x01\x00\x00\x00|NNNI-1\nI-1\nI0\ntb.", "neither"),
        (
            ARRAY + b"(I1\n(I1\nt" + DTYPE % b"O8" + b"I00\nC\x08AAAAAAAAtb.",
            "not a list",
        ),
        # A field that lies outside of its record, put into a plain dtype afterwards.
        (
            DTYPE % b"f8" + b"(I3\nX\x01\x00\x00\x00<N(X\x01\x00\x00\x00at}X\x01\x00\x00\x00a("
            + DTYPE % b"O8" + b"I1000\ntsI8\nI8\nI0\ntb.",
            "records",
        ),
        # More objects than are there, more bytes than are there, fewer than none.
        (ARRAY + b"(I1\n(I9\nt" + DTYPE % b"O8" + b"I00\n(I1\nltb.", "does not fit"),
        (ARRAY + b"(I1\n(I9\nt" + DTYPE % b"f8" + b"I00\nC\x08AAAAAAAAtb.", "does not fit"),
        (ARRAY + b"(I1\n(I-1\nt" + DTYPE % b"f8" + b"I00\nC\x08AAAAAAAAtb.", "does not fit"),
        (ARRAY + b"(I1\n(I1\nt" + DTYPE % b"f8" + b"I00\n(I1\nltb.", "not bytes"),
        (ARRAY + b"(I1\n(I1\ntNI00\nC\x08AAAAAAAAtb.", "lacks its dtype"),
        (b"cnumpy.core.multiarray\nscalar\n(" + DTYPE % b"O8" + b"C\x08AAAAAAAAtR.", "not bytes"),
        (b"cnumpy.core.multiarray\nscalar\n(" + DTYPE % b"f8" + b"C\x04AAAAtR.", ""),
        (ARRAY + b".", "neither"),
        (b"cnumpy\ndtype\n(X\x02\x00\x00\x00V8tR.", "arrays of 'V8' are not read"),
        # Codecs other than the one that carries bytes.
        (b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13tR.", "encodes text"),
        # Persistent ids and registered extensions.
        (b"Pos.system\n.", "the opcode PERSID"),
        (b"\x80\x02\x82\xf0.", "the opcode EXT1"),
        # Names with dots, and modules that lead to others.
        (b"\x80\x04\x8c\x08builtins\x8c\x0cset.__init__\x93.", "asks for 'builtins.set.__init__'"),
        (b"cnumpy._core.multiarray.os\nsystem\n.", "asks for 'numpy._core.multiarray.os.system'"),
        (b"cgsat.datasets.fetch.unpickle\nload_pickle\n.", "asks for 'gsat."),
        # Names that would draw on the terminal.
        (b"\x80\x04\x8c\x02\x1b[\x8c\x02\n\x1b\x93.", r"asks for '\x1b[.\n\x1b'"),
        # A text that crosses the end of its frame.
        (
            b"\x80\x04\x95\x03" + bytes(7) + b"U\x20A" + b"B" * 31
            + b"Ur\xff\xff\xff\x01" + b"." * 111,
            "before end of frame",
        ),
        # A frame in a frame.
        (b"\x80\x04\x95\x14" + bytes(7) + b"\x95\x01" + bytes(7) + b"K\x01.", "before end of"),
    ],
)  # fmt: skip
def test_crafted_pickles_are_refused(tmp_path: Path, content: bytes, why: str) -> None:
    assert why in refused(tmp_path, content)


@pytest.mark.parametrize(("module", "name"), unpickle.ALLOWED)
def test_allowed_names_can_neither_be_changed_nor_subclassed_nor_kept(
    tmp_path: Path, module: str, name: str
) -> None:
    """BUILD with a dict or with slots, NEWOBJ, APPEND and SETITEM on what may only be called."""
    before = {key: dir(value) for key, value in unpickle.ALLOWED.items()}
    found = f"c{module}\n{name}\n".encode()
    field = b"X\x04\x00\x00\x00made"
    for rest in (
        b"}" + field + b"I1\nsb.",
        b"N}" + field + b"I1\ns\x86b.",
        b"}X\x08\x00\x00\x00__dict__}sb.",
        b")\x81.",
        b"I1\na.",
        field + b"I1\ns.",
        b".",
    ):
        refused(tmp_path, found + rest)
    assert {key: dir(value) for key, value in unpickle.ALLOWED.items()} == before


def test_dicts_of_an_old_opcode(tmp_path: Path) -> None:
    content = b"(K\x01K\x02K\x03K\x04d."
    assert read(tmp_path, content) == pickle.loads(content) == {1: 2, 3: 4}


@pytest.mark.parametrize(
    ("key", "fine"),
    [
        (2**60 - 1, True),
        (2**60, False),
        (float("nan"), False),
        ((0, 2**60), False),
        (((),) * 31, True),  # 63 values: the tuple, its items, and each again when it is looked at
        ((0,) * 32, False),
    ],
)
def test_keys_are_small(tmp_path: Path, key: Any, fine: bool) -> None:
    for values in ({key: 0}, {0: 1, key: 0}, {key}, frozenset([key])):
        for protocol in (2, 4):
            content = pickle.dumps(values, protocol)
            if fine:
                assert read(tmp_path, content) == values
            else:
                refused(tmp_path, content)


def test_deep_nesting_is_an_error_not_a_crash(tmp_path: Path) -> None:
    refused(tmp_path, b"]" * 20_000 + b"a" * 19_999 + b".")
