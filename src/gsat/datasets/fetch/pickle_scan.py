"""A look at the opcodes of a pickle before anything is built from it.

Built naively, a few bytes can ask for gigabytes, a deep nest overflows the stack when it is hashed,
and a tuple of tuples that are shared takes for ever. This module follows the pickle's stack without
its values and refuses what no data set needs.
"""

from __future__ import annotations

import pickletools
from pickle import UnpicklingError
from typing import IO, Any, Final, cast

from gsat.core.errors import GSATError, shown
from gsat.core.limits import check_size

# What a pickle may do. Others name classes in unusual ways, or data outside of the file.
_ALLOWED: Final = frozenset((
    "MARK", "STOP", "POP", "POP_MARK", "DUP", "FLOAT", "INT", "BININT", "BININT1", "LONG",
    "BININT2", "NONE", "REDUCE", "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE",
    "APPEND", "BUILD", "GLOBAL", "DICT", "EMPTY_DICT", "APPENDS", "GET", "BINGET", "LONG_BINGET",
    "LIST", "EMPTY_LIST", "PUT", "BINPUT", "LONG_BINPUT", "SETITEM", "TUPLE", "EMPTY_TUPLE",
    "SETITEMS", "BINFLOAT", "PROTO", "TUPLE1", "TUPLE2", "TUPLE3", "NEWTRUE", "NEWFALSE", "LONG1",
    "LONG4", "BINBYTES", "SHORT_BINBYTES", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES8",
    "EMPTY_SET", "ADDITEMS", "FROZENSET", "STACK_GLOBAL", "MEMOIZE", "FRAME", "BYTEARRAY8",
))  # fmt: skip
_DEPTH: Final = 64  # of tuples in tuples
_KEY: Final = 64  # values in a tuple that is a key of a dict or an item of a set
_EXPANDED: Final = 1 << 24  # values in a tuple when everything it shares is written out
_OBJECT_BYTES: Final = 80  # about the memory of a small object
_BIG: Final = 1 << 60  # whole numbers beyond it may have the same hash


class _Value:
    """What is known of a value: how deep and how large it is where it can't change any more.

    Attributes:
        depth: Of tuples in tuples.
        size: Values in it, everything that it shares counted as often as it is there.
        key: Whether it may be hashed without harm.
        items: Whether all that is in it may be.
        arguments: Whether all that is in what is in it may be: a function may make a set of it.
    """

    __slots__ = ("arguments", "depth", "items", "key", "size")

    def __init__(self, depth: int = 0, size: int = 1, key: bool = True) -> None:
        self.depth, self.size, self.key = depth, size, key
        self.items = self.arguments = True


_PLAIN: Final = _Value()
_HUGE_NUMBER: Final = _Value(key=False)


def scan_pickle(file: IO[bytes]) -> None:
    """Raise unless a pickle is harmless to build."""
    stack: list[Any] = []
    memo: dict[int, _Value] = {}
    count, frame_end = 0, 0
    for opcode, given, position in pickletools.genops(file):
        count += 1
        name, argument = opcode.name, cast("Any", given)
        frame_end = _check_frame(name, argument, position or 0, frame_end, file.tell())
        if name not in _ALLOWED:
            raise UnpicklingError(f"it uses the opcode {name}")
        if count % 65536 == 0:
            _check_memory(count)
        if "PUT" in name:
            if not 0 <= argument <= count:  # the table of the memo is as long as the largest
                raise UnpicklingError("it numbers its values in leaps")
            memo[argument] = _top(stack)
        elif name == "MEMOIZE":
            memo[len(memo)] = _top(stack)
        elif "GET" in name:
            if argument not in memo:
                raise UnpicklingError("it refers to a value that it does not hold")
            stack.append(memo[argument])
        elif name == "MARK":
            stack.append(None)
        elif name not in ("PROTO", "FRAME"):
            _step(name, argument, stack)
    _check_memory(count)


def _check_frame(name: str, argument: Any, begin: int, frame_end: int, end: int) -> int:
    """Return the end of the frame that an opcode is in; it has to lie in it as a whole.

    Where a value crosses the end of a frame, Python's two readers go on at different places: the
    one that builds would see other opcodes than this scan has.
    """
    if begin >= frame_end:  # outside of frames
        return end + argument if name == "FRAME" else 0
    if name == "FRAME" or end > frame_end:
        raise UnpicklingError("a frame of it ends within a value")
    return frame_end


def _step(name: str, argument: Any, stack: list[Any]) -> None:
    """Do to the stack what an opcode does."""
    if name in _POPS_MARK:
        parts = _above_mark(stack)
    else:
        parts = [_pop(stack) for _ in range(_POPS.get(name, 0))][::-1]
    if name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE", "FROZENSET"):
        if name == "FROZENSET":
            _check_keys(parts)
        stack.append(_tuple_of(parts))
    elif name in ("SETITEM", "SETITEMS", "DICT"):
        _check_keys(parts[::2])
        if name == "DICT":
            stack.append(_Value(key=False))
        else:
            _top(stack)
    elif name in ("APPEND", "APPENDS", "LIST"):
        target = _Value(key=False) if name == "LIST" else _top(stack)
        if target is not _PLAIN:
            target.items = target.items and all(part.key for part in parts)
        if name == "LIST":
            stack.append(target)
    elif name == "ADDITEMS":
        _check_keys(parts)
        _top(stack)
    elif name == "REDUCE":
        # set(list) hashes what is in the list.
        if not parts[1].arguments:
            raise UnpicklingError("it calls a function with values that can't be hashed safely")
        stack.append(_Value())
    elif name in ("EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"):
        stack.append(_Value(key=False))
    elif name == "DUP":
        stack.append(_top(stack))
    elif name == "BUILD":
        _top(stack)
    elif name not in ("POP", "POP_MARK", "STOP"):
        huge = isinstance(argument, int) and abs(argument) >= _BIG
        stack.append(_HUGE_NUMBER if huge else _PLAIN)


_POPS_MARK: Final = frozenset(
    ("TUPLE", "FROZENSET", "SETITEMS", "DICT", "APPENDS", "LIST", "ADDITEMS", "POP_MARK")
)
_POPS: Final = {
    "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "SETITEM": 2, "APPEND": 1, "REDUCE": 2, "BUILD": 1,
    "POP": 1, "STOP": 1, "STACK_GLOBAL": 2,
}  # fmt: skip


def _tuple_of(parts: list[_Value]) -> _Value:
    depth = 1 + max((part.depth for part in parts), default=0)
    made = _Value(depth, 1 + sum(part.size for part in parts))
    made.items = all(part.key for part in parts)
    made.arguments = all(part.items for part in parts)
    if made.depth > _DEPTH:
        raise UnpicklingError(f"it has tuples nested more than {_DEPTH} deep")
    if made.size > _EXPANDED:
        raise UnpicklingError(f"it has a tuple of more than {_EXPANDED} values")
    # A list in it makes it no key, but that is an error of its own, and a quick one.
    made.key = made.size <= _KEY and made.items
    return made


def _check_keys(parts: list[_Value]) -> None:
    if not all(part.key for part in parts):
        raise UnpicklingError("it has a key that can't be hashed safely")


def _top(stack: list[Any]) -> _Value:
    if not stack or stack[-1] is None:
        raise UnpicklingError("it takes a value from an empty stack")
    value: _Value = stack[-1]
    return value


def _pop(stack: list[Any]) -> _Value:
    value = _top(stack)
    stack.pop()
    return value


def _above_mark(stack: list[Any]) -> list[_Value]:
    for place in range(len(stack) - 1, -1, -1):
        if stack[place] is None:
            parts: list[_Value] = stack[place + 1 :]
            del stack[place:]
            return parts
    raise UnpicklingError("it ends a group that it did not begin")


def _check_memory(count: int) -> None:
    try:
        check_size(count * _OBJECT_BYTES, "it", GSATError)
    except GSATError as error:
        raise UnpicklingError(shown(str(error))) from None
