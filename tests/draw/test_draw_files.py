"""Pictures as files: by suffix, whole, the same every time, from any thread or process."""

from __future__ import annotations

import threading

import pytest

from gsat.core.errors import GSATError
from gsat.draw import draw_explanation, draw_grid

MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<svg ", ".pdf": b"%PDF-"}


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".SVG"])
def test_files_by_suffix(house, tmp_path, suffix):
    path = tmp_path / "new folder" / f"a{suffix}"
    draw_explanation(house(), path, top=2)
    first = path.read_bytes()
    assert first.startswith(MAGIC[suffix.lower()])
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # nothing half-written beside it
    draw_explanation(house(), path, top=2)
    assert path.read_bytes() == first


def test_threads_may_draw_at_once(house, tmp_path):
    import matplotlib

    before = matplotlib.rcParams["svg.hashsalt"]

    def work(number: int) -> None:
        draw_explanation(house(), tmp_path / f"{number}.svg")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    contents = {(tmp_path / f"{i}.svg").read_bytes() for i in range(6)}
    assert len(contents) == 1
    assert matplotlib.rcParams["svg.hashsalt"] == before


@pytest.mark.parametrize("name", ["a.gif", "a", "a.svg.txt"])
def test_an_unknown_suffix_is_refused_in_one_line(house, tmp_path, name):
    with pytest.raises(GSATError, match=r"must end in \.svg, \.png, \.pdf") as error:
        draw_explanation(house(), tmp_path / name)
    assert "\n" not in str(error.value)
    with pytest.raises(GSATError, match="must end in"):
        draw_grid([house()], tmp_path / name)
    assert list(tmp_path.iterdir()) == []
