"""Studies as users see them: tables as one document, claims, pictures, and comparisons of seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gsat.core.errors import GSATError
from gsat.methods import METHODS
from gsat.study.bench_folders import BenchFolders
from gsat.study.figures import draw_figure
from gsat.study.records import Records
from gsat.study.report import render
from gsat.study.stability import record_stability, stability
from gsat.study.study import Experiment, FigureStudy, Study, TableStudy


@dataclass(frozen=True)
class ShownStudies:
    """What there is to show of some studies.

    Attributes:
        document: All tables as one document; empty if there is none.
        notes: Claims, and for each picture its title and path.
        errors: Why a study can't be shown.
    """

    document: str = ""
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def show_studies(
    studies: Sequence[Study],
    chosen: Iterable[str],
    folders: BenchFolders,
    style: str = "text",
    *,
    statistics: bool = False,
) -> ShownStudies:
    """Make the tables, claims and pictures of studies from recorded runs."""
    records, hashes = Records.read(folders.record), set(chosen)
    tables = [study.restricted(hashes) for study in studies if isinstance(study, TableStudy)]
    tables = [table for table in tables if table.parts]
    shown = ShownStudies(render(tables, records, style, statistics=statistics) if tables else "")
    for study in studies:
        if study.name == "claims":
            shown.notes.append(f"{study.title}: python -m paper results --page claims")
        elif isinstance(study, FigureStudy):
            experiments = tuple(e for e in study.experiments if e.hash in hashes)
            if not experiments:
                continue
            try:
                pictures = draw_figure(replace(study, experiments=experiments), folders)
            except GSATError as error:  # the other studies can still be shown
                shown.errors.append(f"{study.name}: {error}")
                continue
            shown.notes.extend(f"{study.title}: {picture}" for picture in pictures)
    return shown


def compare_seeds(
    experiments: Iterable[Experiment], folders: BenchFolders
) -> Iterator[tuple[str, GSATError | None]]:
    """Compare the explanations of runs that differ by their seed alone, and record the result."""
    found, records = False, Records.read(folders.record)
    for experiment in experiments:
        runs = folders.finished(experiment, records.of(experiment).data_hash)
        if len(runs) < 2 or not METHODS[experiment.method].Model.explains:
            continue
        found = True
        try:
            line = stability(list(runs.values()))
        except GSATError as error:  # other recipes may still be compared
            yield str(experiment), error
            continue
        record_stability(folders.stability, line)
        mean = "undefined" if line["mean"] is None else f"{line['mean']:.3f}"
        spread = "" if line["std"] is None else f" ± {line['std']:.3f}"
        yield (
            f"{experiment}: rank correlation between {len(runs)} seeds {mean}{spread} "
            f"({line['graphs']} graphs, {line['explained']})",
            None,
        )
    if not found:
        raise GSATError(
            f"there are no two finished runs of one recipe in {folders.runs} to compare; the "
            "folders of the runs are needed"
        )
