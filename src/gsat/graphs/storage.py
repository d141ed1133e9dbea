"""Stores on disk: one safetensors file or, for large stores, shards and an index.

Shards have the same format as a store in one file. The index is written last, and a shard's name
contains a checksum of its arrays, so that a new store never overwrites files of the previous one.
If a writer is killed, the folder still contains the previous store, if any.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gsat.core import system
from gsat.core.errors import DataError, shown
from gsat.core.files import is_regular, read_file
from gsat.core.limits import check_size, json_bytes
from gsat.core.parsing import FileModel, ParseError, check_model, parse_json
from gsat.core.tensors import map_tensors, write_tensors
from gsat.core.writing import clear_abandoned_files, write_text
from gsat.graphs.array_table import EDGE_ARRAYS, NODE_ARRAYS, check_arrays, check_meta
from gsat.graphs.build import build_arrays
from gsat.graphs.sharded_array import Array, Column, ShardedArray, content_digest
from gsat.graphs.texts import pad_texts

if TYPE_CHECKING:
    from gsat.graphs.store import GraphStore

FILE: Final = "graphs.safetensors"
FORMAT: Final = "gsat-graphs-1"
INDEX: Final = "index.json"
INDEX_FORMAT: Final = "gsat-shards-1"
SHARD_BYTES: Final = 256 << 20
_SHARD_NAME: Final = re.compile(r"graphs-\d{5,}-[0-9a-f]{16}\.safetensors")
# Versions of files that this process has validated.
_checked: set[tuple[int, ...]] = set()


class Shard(FileModel):
    """Entry of the index for one file."""

    file: str = Field(max_length=80, pattern=f"^{_SHARD_NAME.pattern}$")
    graphs: int = Field(ge=0)
    bytes: int = Field(ge=0)


class Index(FileModel):
    """The index of a sharded store."""

    meta: dict[str, Any]
    shards: list[Shard] = Field(min_length=1, max_length=1 << 16)


def save(store: GraphStore, folder: str | Path, shard_bytes: int = SHARD_BYTES) -> Path:
    """Write the graphs of a view to a folder."""
    folder = Path(folder)
    if graph_bytes(store).sum() > shard_bytes:
        with ShardWriter(folder, store.meta, shard_bytes) as writer:
            writer.add(store)
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    clear_abandoned_files(folder)
    replaced = _shards_in(folder)
    _write(folder, FILE, store.whole().arrays, store.meta)
    for name in (INDEX, *replaced):
        system.remove(folder / name)
    return folder


def load(folder: str | Path) -> tuple[Mapping[str, Column], dict[str, Any]]:
    """Open the arrays and ``meta`` of a saved store.

    Arrays of nodes and edges are memory-mapped. The per-graph arrays of shards are read: they are
    small, and every batch needs them.
    """
    folder = Path(folder)
    if not (folder / INDEX).exists():
        if not (folder / FILE).exists():
            raise DataError(f"{folder} holds no saved graphs: there is no {FILE} in it")
        return _read(folder / FILE)
    index = _read_index(folder)
    shards = [_read_shard(folder, shard) for shard in index.shards]
    if len(shards) == 1:
        return shards[0], index.meta
    if any(_kinds(shard) != _kinds(shards[0]) for shard in shards):
        raise DataError(f"{folder / INDEX} is damaged: its shards hold different arrays")
    arrays: dict[str, Column] = {}
    for name in shards[0]:
        parts = [shard[name] for shard in shards]
        mapped = name in EDGE_ARRAYS or name in NODE_ARRAYS
        arrays[name] = ShardedArray(parts) if mapped else _concatenate(name, parts)
    return arrays, index.meta


def file_versions(folder: str | Path) -> tuple[tuple[int, ...], ...]:
    """Identify the current version of a store's files."""
    folder = Path(folder)
    names = sorted({FILE, INDEX, *_shards_in(folder)})
    return tuple(_version(folder / name) for name in names if (folder / name).exists())


def _version(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class ShardWriter:
    """Context manager that writes a store larger than memory, chunk by chunk.

    The store can be loaded after the block. If the block raises, the new files are removed and the
    previous store in the folder stays.

    Args:
        folder: Created if missing; a previous store is replaced when the new one is complete.
        meta: Plain values to store with the data, such as ``classes``. (default: none)
        shard_bytes: Bytes per file, which are gathered in memory. (default: 256 MiB)

    Example:
        >>> import tempfile
        >>> from gsat.graphs import GraphStore
        >>> folder = tempfile.mkdtemp()
        >>> graphs = GraphStore.from_arrays(node_ptr=[0, 2], edge_ptr=[0, 1], edge_index=[[0], [1]])
        >>> with ShardWriter(folder, meta={"classes": ["no", "yes"]}) as writer:
        ...     for _ in range(3):  # usually chunks of several thousand graphs
        ...         writer.add(graphs)
        >>> GraphStore.load(folder)
        GraphStore(3 graphs, 6 nodes, 3 edges)
    """

    def __init__(
        self,
        folder: str | Path,
        meta: Mapping[str, Any] | None = None,
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        self.folder = Path(folder)
        self.meta = dict(meta or {})
        self.shard_bytes = shard_bytes
        self._pending: list[dict[str, Column]] = []
        self._pending_bytes = 0
        self._shards: list[dict[str, Any]] = []
        self._kinds: dict[str, str] = {}
        self._open = True
        self.folder.mkdir(parents=True, exist_ok=True)
        clear_abandoned_files(self.folder)

    def add(self, graphs: GraphStore) -> None:
        """Append graphs.

        Args:
            graphs: A store or view with the same kinds of arrays as all previous ones.

        Raises:
            DataError: If the arrays differ from previous ones, or the writer is closed.
        """
        if not self._open:
            raise DataError(f"the store in {self.folder} is complete; nothing can be added to it")
        self._check_kinds(_kinds(graphs.arrays))
        ends = np.cumsum(graph_bytes(graphs))
        first = 0
        # Shards do not depend on how the graphs are divided among calls.
        while first < len(graphs):
            before = int(ends[first - 1]) if first else 0
            room = self.shard_bytes - self._pending_bytes
            last = int(np.searchsorted(ends, before + room, side="right"))
            if last <= first and self._pending:
                self._flush()
                continue
            last = max(last, first + 1)
            self._pending.append(graphs.select(np.arange(first, last)).compact().arrays)
            self._pending_bytes += int(ends[last - 1]) - before
            first = last

    def close(self) -> Path:
        """Write the last shard and the index, and return the folder."""
        if not self._open:
            return self.folder
        if not self._pending and not self._shards:
            nothing = build_arrays([0], [0], [], nodes={}, edges={}, graphs={})
            self._pending.append(dict(nothing))
        if self._pending:
            self._flush()
        replaced = _shards_in(self.folder) - {shard["file"] for shard in self._shards}
        index = {"format": INDEX_FORMAT, "meta": self.meta, "shards": self._shards}
        write_text(self.folder / INDEX, json.dumps(index))
        self._open = False
        for name in (FILE, *replaced):
            system.remove(self.folder / name)
        return self.folder

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            if self._open:
                self._open = False
                for name in {shard["file"] for shard in self._shards} - _shards_in(self.folder):
                    system.remove(self.folder / name)

    def _check_kinds(self, kinds: dict[str, str]) -> None:
        self._kinds = self._kinds or kinds
        if kinds != self._kinds:
            odd = min(n for n in kinds | self._kinds if kinds.get(n) != self._kinds.get(n))
            raise DataError(
                f"'{odd}' is {kinds.get(odd, 'missing')} in these graphs but "
                f"{self._kinds.get(odd, 'missing')} in those before; all need the same arrays"
            )

    def _flush(self) -> None:
        parts, self._pending, self._pending_bytes = self._pending, [], 0
        # Popping frees the memory of each array as soon as it is concatenated.
        arrays = {n: _concatenate(n, [part.pop(n) for part in parts]) for n in [*parts[0]]}
        name = f"graphs-{len(self._shards):05d}-{content_digest(arrays)}.safetensors"
        _write(self.folder, name, arrays, {})
        size = (self.folder / name).stat().st_size
        graphs = len(arrays["node_ptr"]) - 1
        self._shards.append({"file": name, "graphs": graphs, "bytes": size})


def graph_bytes(store: GraphStore) -> NDArray[np.int64]:
    """Size of each graph of a view on disk, ``[len(store)]``."""
    node = edge = graph = 0
    for name, values in store.arrays.items():
        size = values.dtype.itemsize * math.prod(values.shape[1:])
        if name in NODE_ARRAYS:
            node += size
        elif name in EDGE_ARRAYS:
            edge += size
        else:
            graph += size
    return node * store.node_counts + edge * store.edge_counts + graph


def _concatenate(name: str, parts: Sequence[Column]) -> Array:
    if name not in ("node_ptr", "edge_ptr"):
        return np.concatenate(
            pad_texts([*map(np.asarray, parts)]) if _is_text(name, parts[0]) else parts
        )
    before = np.cumsum([0, *(part[-1] for part in parts)])
    return np.concatenate([[0], *(part[1:] + n for part, n in zip(parts, before, strict=False))])


def _kinds(arrays: Mapping[str, Column]) -> dict[str, str]:
    """Type and width of every array as text; arrays of texts may have any width."""
    widths = {name: list(values.shape[1:]) or "" for name, values in arrays.items()}
    kinds = {name: f"{arrays[name].dtype} {width}".strip() for name, width in widths.items()}
    return {name: "text" if _is_text(name, arrays[name]) else kind for name, kind in kinds.items()}


def _is_text(name: str, values: Column) -> bool:
    return name.startswith("graph.") and values.dtype == np.uint8


def _write(folder: Path, name: str, arrays: Mapping[str, Column], meta: Mapping[str, Any]) -> None:
    whole = {key: np.ascontiguousarray(values) for key, values in arrays.items()}
    write_tensors(folder / name, whole, {"format": FORMAT, "meta": json.dumps(meta)})


def _read(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    arrays, header = map_tensors(path, error=DataError)
    if header.get("format") != FORMAT:
        raise DataError(
            f"{path} is not a graph store of this version: its format is "
            f"{shown(repr(header.get('format')))}, not {FORMAT!r}"
        )
    with _damage_of(path):
        if "meta" not in header:
            raise ParseError("its header has no 'meta'")
        meta = check_meta(parse_json(header["meta"]))
        version = _version(path)
        if version not in _checked:
            check_arrays(arrays)
            _checked.add(version)
    return arrays, meta


def _read_index(folder: Path) -> Index:
    path = folder / INDEX
    content = read_file(path, error=DataError)
    check_size(json_bytes(content), str(path), DataError)
    with _damage_of(path):
        values = parse_json(content)
        version = values.get("format") if isinstance(values, dict) else None
        if isinstance(version, str) and version != INDEX_FORMAT:
            raise DataError(
                f"{path} is not an index of this version: its format is "
                f"{shown(repr(version))}, not {INDEX_FORMAT!r}"
            )
        index = check_model(Index, values)
        check_meta(index.meta)
    return index


@contextmanager
def _damage_of(path: Path) -> Iterator[None]:
    try:
        yield
    except ParseError as error:
        raise DataError(f"{path} is damaged ({error}); remove it and create it again") from None


def _read_shard(folder: Path, shard: Shard) -> dict[str, Array]:
    path = folder / shard.file
    size = path.stat().st_size if is_regular(path) else 0
    if size != shard.bytes:
        raise DataError(
            f"{path} is damaged: it has {size} bytes, not {shard.bytes}; save {folder} again"
        )
    return _read(path)[0]


def _shards_in(folder: Path) -> set[str]:
    """The files of the sharded store in a folder, if there is one."""
    try:
        return {shard.file for shard in _read_index(folder).shards}
    except (DataError, OSError):
        return set()
