"""Files that a stranger may have made are opened without harm and without waiting."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gsat.core import system
from gsat.core.errors import DataError, GSATError, RunError
from gsat.core.files import bare_name, check_no_links, open_file, read_file, read_json, read_toml
from gsat.core.limits import check_size, in_words, memory_limit
from gsat.core.locks import locked
from gsat.core.parsing import FileModel
from gsat.core.tensors import map_tensors, write_tensors
from gsat.core.writing import clear_abandoned_files, partial_name, write_bytes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and FIFOs of Unix")


def special(path: Path, kind: str) -> Path:
    """Make something else than a file."""
    if kind == "link":
        (path.parent / "target").write_text("{}")
        path.symlink_to("target")
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.fspath(path))
    return path


@pytest.mark.parametrize("kind", ["link", "device", "fifo", "folder", "socket"])
def test_only_regular_files_are_read(kind: str, tmp_path: Path) -> None:
    path = special(tmp_path / "x", kind)
    for read in (
        lambda: read_file(path, error=DataError),
        lambda: read_json(path, FileModel, error=DataError),
        lambda: read_toml(path, error=DataError),
        lambda: map_tensors(path, error=DataError),
    ):
        with pytest.raises(DataError, match="can't be read") as caught:
            read()
        assert "\n" not in str(caught.value)
    if kind in ("device", "fifo", "folder"):
        with pytest.raises(DataError, match="can't be read"):
            open_file(path, error=DataError, links=True)
    elif kind == "link":
        assert read_file(path, error=DataError, links=True) == b"{}"


def test_no_more_is_read_than_expected(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as handle:
        handle.truncate(1 << 40)
    with pytest.raises(DataError, match="too large: more than 16 MiB"):
        read_file(path, error=DataError)


@pytest.mark.parametrize("kind", ["link", "device", "fifo", "socket"])
def test_a_run_may_hold_no_links_and_no_special_files(kind: str, tmp_path: Path) -> None:
    (tmp_path / "run" / "deep").mkdir(parents=True)
    (tmp_path / "run" / "file").write_text("")
    (tmp_path / "link-to-run").symlink_to("run")
    check_no_links(tmp_path / "link-to-run")
    special(tmp_path / "run" / "deep" / "x", kind)
    with pytest.raises(RunError, match=r"deep/x is (a symbolic link|not a regular file)"):
        check_no_links(tmp_path / "link-to-run")


def test_what_is_written_is_new_and_follows_no_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "link").symlink_to(precious)
    for opened in (system.create, system.open_to_append, system.open_to_lock):
        with pytest.raises(OSError, match=r"File exists|symbolic links"):
            opened(tmp_path / "link")
    with pytest.raises(RunError, match="is a symbolic link"), locked(tmp_path / "link"):
        pass
    write_bytes(tmp_path / "link", b"new")  # replaces the link itself
    assert precious.read_text() == "mine"
    assert (tmp_path / "link").read_bytes() == b"new"
    system.remove_tree(special(tmp_path / "folder-link", "link"))
    assert (tmp_path / "target").exists()


def test_a_lock_keeps_what_its_file_holds(tmp_path: Path) -> None:
    (tmp_path / "original").write_text("mine")
    (tmp_path / ".lock").hardlink_to(tmp_path / "original")
    with locked(tmp_path / ".lock"):
        pass
    assert (tmp_path / "original").read_text() == "mine"
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RunError, match="not a regular file"), locked(tmp_path / "fifo"):
        pass


def test_temporary_names_can_not_be_guessed() -> None:
    names = {partial_name(Path("x")).name for _ in range(100)}
    assert len(names) == 100
    assert all(len(name) >= 32 for name in names)


def test_orphans_are_removed_when_they_are_old(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("data.partial", "x.safetensors", ".tmp", ".tmpabcdefg")]
    young, old = tmp_path / ".tmpAbC123", tmp_path / ".tmpQQQQQQ"
    ours = tmp_path / ".graphs.safetensors.0123.partial"
    for file in (*kept, young, old, ours):
        file.write_bytes(b"x")
    for file in (*kept, old, ours):
        os.utime(file, (0, 0))
    clear_abandoned_files(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {young.name, *(k.name for k in kept)}


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/dev/zero", "a/b", "a\\b", ".hidden", "a\0", "x" * 300, "a b"]
)
def test_descriptions_name_files_beside_them(name: str) -> None:
    assert not bare_name(name)
    assert bare_name("model-0123.safetensors")


def test_the_limit_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory_limit() == 512 << 20
    with pytest.raises(DataError, match=r"needs 1 GiB of memory; 512 MiB are allowed.*=8G"):
        check_size(1 << 30, "it", DataError)
    monkeypatch.setenv("GSAT_MEMORY_LIMIT", "2g")
    check_size(1 << 30, "it", DataError)
    for wrong in ("much", "-1", "1.5G", "9" * 30):
        monkeypatch.setenv("GSAT_MEMORY_LIMIT", wrong)
        with pytest.raises(GSATError, match="must be a size such as 2G"):
            memory_limit()
    assert in_words(3) == "3 bytes"


# -- safetensors -----------------------------------------------------------------------------------


ARRAYS = {
    "b": np.array([True, False, True]),
    "x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.array([0.5], np.float16),
    "n": np.arange(3),
    "none": np.zeros((0, 4), np.int32),
}


def test_what_we_write_safetensors_reads_and_the_other_way_round(tmp_path: Path) -> None:
    write_tensors(tmp_path / "ours", ARRAYS, {"format": "x"})
    save_file(ARRAYS, tmp_path / "theirs", metadata={"format": "x"})
    assert (tmp_path / "ours").stat().st_size == (tmp_path / "theirs").stat().st_size
    theirs = load_file(tmp_path / "ours")
    ours, metadata = map_tensors(tmp_path / "theirs", error=DataError)
    assert metadata == {"format": "x"}
    assert theirs.keys() == ours.keys() == ARRAYS.keys()
    for name, values in ARRAYS.items():
        for found in (theirs[name], ours[name]):
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, values)
            assert found.flags.aligned


def test_a_damaged_header_is_refused_or_its_arrays_lie_in_the_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", ARRAYS)
    whole, rng = (tmp_path / "x").read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        content = bytearray(whole)
        for place in rng.integers(0, len(content), size=rng.integers(1, 4)):
            content[place] = rng.integers(256)
        (tmp_path / "x").write_bytes(content)
        arrays = {}
        with contextlib.suppress(DataError):  # and nothing else
            arrays, _ = map_tensors(tmp_path / "x", error=DataError)
        assert sum(int(values.nbytes) for values in arrays.values()) < len(content)


def test_a_header_can_not_ask_for_more_than_the_file_has(tmp_path: Path) -> None:
    for text in (
        '{"x":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}',
        '{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        '{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
        '{"x":{"dtype":"Q7","shape":[1],"data_offsets":[0,4]}}',
        "[1]",
    ):
        header = text.encode()
        (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + b"1234")
        with pytest.raises(DataError, match="is damaged"):
            map_tensors(tmp_path / "x", error=DataError)
    (tmp_path / "x").write_bytes(b"\xff" * 100)
    with pytest.raises(DataError, match="its header is too long"):
        map_tensors(tmp_path / "x", error=DataError)
