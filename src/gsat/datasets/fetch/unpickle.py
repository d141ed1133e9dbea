"""Reads published pickles safely: plain values and numpy arrays only; no code from the file runs.

A pickle is a program that may name any function and call it. Here the few names it may use are
resolved to functions of this module, and arrays are made from bytes by ``numpy.frombuffer``. The
functions of NumPy that restore an array or dtype are not used: they trust the file.

The standard library's unpickler (the one written in Python) runs the opcodes, except those that
hash values or allocate memory before they read: hashing a deep tuple overflows the stack, and
hashing a tuple whose parts are shared can take forever.
"""

from __future__ import annotations

import math
import mmap
import pickle
import pickletools
import re
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError, shown
from gsat.core.files import open_file
from gsat.core.limits import check_size

PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, bytearray)
NUMBERS_AND_TEXT: Final = re.compile(
    r"b1|[iu][1248]|f(2|4|8|12|16)|c(8|16|24|32)|[SU][1-9]\d{0,5}|O[48]?"
)


def load_pickle(path: Path) -> Any:
    """Read a pickle of any protocol, including those written by Python 2.

    Lists, tuples, dicts, sets, numbers, text, bytes, numpy scalars and arrays (also of such
    objects, but not of records) are read; anything else is an error, and no code is run.
    """
    with open_file(path, error=DataError, links=True) as handle:
        try:
            # Mapped, so that a length in the pickle asks for no more than the file has.
            with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _Plain().copy(_Reader(content).load())
        except Exception as error:  # a hostile or damaged pickle can fail in any way
            why = shown(" ".join(str(error).split()) or type(error).__name__, 120)
            raise DataError(f"{path} is not a pickle of plain values and arrays: {why}") from error


class _Refused(pickle.UnpicklingError):
    """The pickle contains something that no data set needs."""


# Others name classes in unusual ways, or data outside of the file.
_OPCODES: Final = frozenset((
    "MARK", "STOP", "POP", "POP_MARK", "DUP", "FLOAT", "INT", "BININT", "BININT1", "LONG",
    "BININT2", "NONE", "REDUCE", "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE",
    "APPEND", "BUILD", "GLOBAL", "DICT", "EMPTY_DICT", "APPENDS", "GET", "BINGET", "LONG_BINGET",
    "LIST", "EMPTY_LIST", "PUT", "BINPUT", "LONG_BINPUT", "SETITEM", "TUPLE", "EMPTY_TUPLE",
    "SETITEMS", "BINFLOAT", "PROTO", "TUPLE1", "TUPLE2", "TUPLE3", "NEWTRUE", "NEWFALSE", "LONG1",
    "LONG4", "BINBYTES", "SHORT_BINBYTES", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES8",
    "EMPTY_SET", "ADDITEMS", "FROZENSET", "STACK_GLOBAL", "MEMOIZE", "FRAME", "BYTEARRAY8",
))  # fmt: skip
_NAMES: Final = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
_OBJECT_BYTES: Final = 80  # about the memory of a small object
_MOST_IN_KEY: Final = 64  # values in a key of a dict or an item of a set, those in tuples included
_MOST_HASHED: Final = 1 << 60  # larger numbers may share a hash, which makes a dict slow


def _check_keys(keys: Iterable[Any]) -> None:
    """Raise unless each value is quick and safe to hash."""
    for key in keys:
        values, count = [key], 0
        while values:
            value = values.pop()
            count += 1 if not isinstance(value, tuple | frozenset) else 1 + len(value)
            if count > _MOST_IN_KEY:
                raise _Refused("it has a key that can't be hashed safely")
            if isinstance(value, tuple | frozenset):
                values.extend(value)
            elif isinstance(value, int | float | complex) and not abs(value) < _MOST_HASHED:
                raise _Refused("it has a number as a key that is too large")
            elif type(value) not in PLAIN and not isinstance(value, np.generic):
                raise _Refused("it has a key that is not a plain value")


_Unpickler: Any = pickle._Unpickler  # its attributes have no type stubs


class _Handlers(dict[int, Callable[[Any], None]]):
    """The functions of the opcodes; counts them, since most make an object."""

    count = 0

    def __getitem__(self, code: int) -> Callable[[Any], None]:
        self.count += 1
        if self.count % 65536 == 0:
            check_size(self.count * _OBJECT_BYTES, "it", DataError)
        return super().__getitem__(code)

    def __missing__(self, code: int) -> NoReturn:
        raise _Refused(f"it uses the opcode {_NAMES.get(code, code)}")


class _Reader(_Unpickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="latin1")
        handlers = {
            code: _Unpickler.dispatch[code] for code, name in _NAMES.items() if name in _OPCODES
        }
        own = {code: getattr(type(self), f"_{name}", None) for code, name in _NAMES.items()}
        changed = {code: handler for code, handler in own.items() if handler is not None}
        self.dispatch = _Handlers(handlers | changed)

    def find_class(self, module: str, name: str) -> Any:
        allowed = ALLOWED.get((module.replace("numpy._core.", "numpy.core."), name))
        if allowed is None:
            raise _Refused(f"it asks for {f'{module}.{name}'[:80]!r}")
        return allowed

    def _SETITEM(self) -> None:
        _check_keys([self.stack[-2]])
        self.load_setitem()

    def _SETITEMS(self) -> None:
        items = self.pop_mark()
        _check_keys(items[::2])
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.stack[-1][key] = value

    def _DICT(self) -> None:
        items = self.pop_mark()
        _check_keys(items[::2])
        self.append(dict(zip(items[::2], items[1::2], strict=True)))

    def _FROZENSET(self) -> None:
        items = self.pop_mark()
        _check_keys(items)
        self.append(frozenset(items))

    def _ADDITEMS(self) -> None:
        items = self.pop_mark()
        _check_keys(items)
        set.update(self.stack[-1], items)

    def _BYTEARRAY8(self) -> None:
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(min(size, sys.maxsize))))

    def _BUILD(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], _Dtype | _Array):
            raise _Refused("it sets the state of something that is neither a dtype nor an array")
        self.stack[-1].__setstate__(state)


class _Dtype:
    """Stand-in for a dtype while a pickle is read."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, code: Any, *_: Any) -> None:
        if not (isinstance(code, str) and NUMBERS_AND_TEXT.fullmatch(code)):
            # Not the repr of anything: it may share its parts so often that it never ends.
            what = repr(code[:20]) if isinstance(code, str) else type(code).__name__
            raise _Refused(f"arrays of {what} are not read")
        self.value: np.dtype[Any] = np.dtype("O" if code.startswith("O") else code)

    def __setstate__(self, state: Any) -> None:
        _version, order, *structure = state
        if order not in ("<", ">", "=", "|") or any(part is not None for part in structure[:3]):
            raise _Refused("arrays of records are not read")
        if order in "<>":
            self.value = self.value.newbyteorder(order)


class _Array:
    """Stand-in for an array while a pickle is read."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: NDArray[Any] | None = None) -> None:
        self.value = value

    def __setstate__(self, state: Any) -> None:
        *_version, shape, dtype, fortran, data = state
        order = "F" if fortran else "C"
        make = _from_list if _real(dtype).hasobject else _from_bytes
        self.value = make(data, dtype, shape, order)


def _real(dtype: Any) -> np.dtype[Any]:
    if type(dtype) is not _Dtype:
        raise _Refused("an array lacks its dtype")
    return dtype.value


def _from_list(data: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    if not isinstance(data, list):
        raise _Refused("an array's content is not a list")
    flat = np.empty(len(data), dtype=object)
    for position, item in enumerate(data):  # one by one: numpy would unpack nested lists
        flat[position] = item
    return _shaped(flat, shape, order)


def _from_bytes(data: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    if isinstance(data, str):  # from Python 2, which had no bytes
        data = data.encode("latin1")
    real = _real(dtype)
    if real.hasobject or not isinstance(data, bytes | bytearray):
        raise _Refused("an array's content is not bytes")
    # A writable copy in this machine's byte order, which torch requires.
    return _shaped(np.frombuffer(data, real), shape, order).astype(real.newbyteorder("="))


def _shaped(flat: NDArray[Any], shape: Any, order: Any) -> NDArray[Any]:
    if not isinstance(shape, tuple) or not all(type(size) is int for size in shape):
        raise _Refused("an array's shape is not a tuple of numbers")
    if max(shape, default=0) >= 2**31 or min(shape, default=0) < 0 or math.prod(shape) != len(flat):
        raise _Refused("an array's shape does not fit its content")
    return flat.reshape(shape, order=order)


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> _Array:
    array = _from_bytes(data, dtype, shape, "C" if axes is not None else order)
    return _Array(array if axes is None else array.transpose(axes))


def _scalar(dtype: Any, data: Any) -> Any:
    return _from_bytes(data, dtype, (1,), "C")[0]


def _encode(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise _Refused("it encodes text in another way than bytes need")
    return text.encode("latin1")


def _set(items: Any = ()) -> set[Any]:
    if not isinstance(items, list | tuple):
        raise _Refused("a set's items are not a list")
    _check_keys(items)
    return set(items)


def _frozenset(items: Any = ()) -> frozenset[Any]:
    return frozenset(_set(items))


def _never(*_: Any) -> NoReturn:
    raise _Refused("it makes an array in an unusual way")


ALLOWED: Final[Mapping[tuple[str, str], Callable[..., Any]]] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _never,  # only as an argument of the next
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),  # its state follows
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    # Bytes, before protocol 3.
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): lambda: b"",
    **{
        (module, name): make
        for module in ("builtins", "__builtin__")
        for name, make in (("set", _set), ("frozenset", _frozenset), ("complex", complex))
    },
}


class _Plain:
    """Copies what was read, with arrays in place of their stand-ins; refuses what is not plain.

    An object that a pickle refers to twice is copied once: a small pickle can hold a list of lists
    of lists … that is astronomically large when written out.
    """

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}

    def copy(self, value: Any) -> Any:
        """Copy a value, with arrays in place of stand-ins."""
        if type(value) in PLAIN or isinstance(value, np.generic):
            return value
        if id(value) not in self.made:
            self.made[id(value)] = self._copy(value)
        return self.made[id(value)]

    def _copy(self, value: Any) -> Any:
        made: Any
        match value:
            case list():
                made = self.made[id(value)] = []  # before its items: it may be one of them
                made.extend(self.copy(item) for item in value)
            case dict():
                made = self.made[id(value)] = {}
                made.update((self.copy(key), self.copy(item)) for key, item in value.items())
            case tuple() | set() | frozenset():
                made = type(value)(self.copy(item) for item in value)
            case _Array(value=np.ndarray() as made) if made.dtype.hasobject:
                items = made.reshape(-1)
                flat = np.empty(len(items), dtype=object)
                made = self.made[id(value)] = flat.reshape(made.shape)
                for position, item in enumerate(items):
                    flat[position] = self.copy(item)
            case _Array(value=np.ndarray() as made):
                pass
            case _:
                raise _Refused("it holds something that is neither")
        return made
