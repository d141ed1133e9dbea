"""Two versions of the package side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

import gsat
from benchmarks import against, epoch_cpu_time


def test_processes_of_both_versions_alternate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gsat").mkdir()
    (tmp_path / "gsat" / "__init__.py").touch()
    ours = Path(gsat.__file__).parents[1]
    runs = []

    def measure(source: Path, dataset: str, backbone: str) -> float:
        runs.append((source, dataset, backbone))
        return 3.0 if source == ours else 2.0 + len(runs) / 100

    monkeypatch.setattr(against, "epoch_cpu_time", measure)
    starts: list[Path] = []
    monkeypatch.setattr(
        against, "start_cpu_time", lambda source: starts.append(source) or float(len(starts))
    )
    start, row = against.compare(tmp_path, ["pna"], rounds=3)
    assert starts == [ours, tmp_path] * 4  # the first two compile
    assert (start["this_s"], start["other_s"]) == (5.0, 6.0)
    assert runs == [(source, "ba2motifs", "PNA") for source in (ours, tmp_path)] * 3
    assert (row["this_s"], row["other_s"]) == (3.0, 2.04)
    assert row["ratio"] == pytest.approx(3 / 2.04)
    printed = capsys.readouterr().out
    assert all(number in printed for number in ("1.471", "1.456", "1.485"))


def test_the_other_version_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="gsat"):
        against.compare(tmp_path, ["floor"], rounds=1)


@pytest.mark.medium
def test_the_measured_epoch_is_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    load = gsat.load_dataset
    monkeypatch.setattr(gsat, "load_dataset", lambda name, seed: load(name, seed=seed, graphs=30))
    monkeypatch.setattr(epoch_cpu_time, "REPEATS", 1)
    assert 0 < epoch_cpu_time.main("ba2motifs", "GIN") < 60
