"""The pages in a browser: every view, three user journeys, accessibility, no errors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web_harness import MOLECULES, serving

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
from axe_playwright_python.sync_playwright import Axe  # noqa: E402

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = os.environ.get("GSAT_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = [
    pytest.mark.medium,
    pytest.mark.skipif(
        BROWSER is None, reason="there is no Chromium (Debian: apt install chromium)"
    ),
    pytest.mark.xdist_group("browser"),
]
VIEWS = {
    "runs": "/runs",
    "overview": "/runs/motifs-a",
    "regression": "/runs/number",
    "gallery": "/runs/mols/graphs?split=all",
    "graph": "/runs/motifs-a/graphs/test/1?top=5",
    "molecule": "/runs/mols/graphs/all/6",
    "node": "/runs/nodes/graphs/test/2",
    "compare": "/compare?run=motifs-a&run=motifs-b",
    "patterns": "/runs/mols/patterns?split=all",
    "try": "/runs/mols/try?smiles=CCO",
    "error": "/runs/nobody",
}


@pytest.fixture(scope="module")
def address(runs: Path) -> Iterator[str]:
    with serving(runs) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page whose console must stay empty."""
    context = browser.new_context(base_url=address, viewport={"width": 1200, "height": 900})
    context.set_default_timeout(60_000)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else 0)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    expected = ("status of 404", "status of 422")  # errors that a test provokes
    assert not [text for text in problems if not any(part in text for part in expected)]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible_in_light_and_dark_and_fits_a_phone(page: Any, view: str) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.goto(VIEWS[view], wait_until="networkidle")
    assert page.locator("h1").count() == 1
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        problems = [f"{one['id']}: {[n['html'][:120] for n in one['nodes'][:3]]}" for one in found]
        assert not problems, "\n".join([scheme, *problems])
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_chemist_finds_a_substructure_and_tries_a_molecule(page: Any) -> None:
    page.goto("/runs/mols/graphs?split=all")
    page.get_by_label("Search").fill("c1ccccc1")
    page.keyboard.press("Enter")
    page.wait_for_url("**search=c1ccccc1**")
    tiles = page.locator(".tile")
    assert tiles.count() > 0
    tiles.first.click()
    page.wait_for_selector("svg.molecule")
    row = page.locator("#edges tbody tr").first
    row.hover()
    assert row.get_attribute("class") == "lit"
    assert page.locator("#picture .lit").count() > 0
    edge = page.locator("#picture path.area").first
    number = edge.get_attribute("data-edge")
    edge.dispatch_event("pointerover")
    assert "lit" in (page.locator(f'#edges tr[data-edge="{number}"]').get_attribute("class") or "")
    page.get_by_role("link", name="Try your own").click()
    page.get_by_label("SMILES", exact=True).fill("c1ccccc1[N+](=O)[O-]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".answer-card svg.molecule")
    assert "predicted" in page.locator(".answer-card").inner_text()
    table = {"name": "new.csv", "mimeType": "text/csv", "buffer": MOLECULES.encode()}
    page.locator("#file").set_input_files(table)
    page.get_by_text("60 rows").wait_for()
    with page.expect_download() as download:
        page.get_by_text("Download all predictions").click()
    lines = Path(download.value.path()).read_text("utf-8").splitlines()
    assert len(lines) == 61
    assert "prediction" in lines[0]
    page.get_by_role("link", name="Patterns").click()
    page.wait_for_selector("h1:has-text('Patterns')")


def test_a_researcher_sorts_runs_and_compares_them(page: Any) -> None:
    page.goto("/runs")
    page.get_by_role("button", name="accuracy").click()
    values = [
        cell.inner_text() for cell in page.locator("#runs-table tbody tr td:nth-child(8)").all()
    ]
    scores = [float(value) for value in values if value != "–"]
    assert scores == sorted(scores, reverse=True)
    page.get_by_label("Compare motifs-a").check()
    page.get_by_label("Compare motifs-b").check()
    page.get_by_role("button", name="Compare selected runs").click()
    page.wait_for_selector(".beside svg.graph")
    assert page.locator(".beside svg.graph").count() == 2
    correlations = page.locator("section:has-text('disagree most') tbody td:nth-child(2)")
    shown = [float(text) for text in correlations.all_inner_texts() if text != "–"]
    assert shown == sorted(shown)
    page.locator("section:has-text('disagree most') tbody a").nth(1).click()
    page.wait_for_url("**row=**")
    page.locator(".compared a").first.click()
    page.wait_for_selector("#view")
    # Sliders: the picture follows, and so does the table.
    page.locator("#top").fill("4")
    page.wait_for_selector("text=top 4 of")
    assert page.locator("#edges tr.beyond").count() == page.locator("#edges tbody tr").count() - 4
    before = page.locator("#picture .truth").count()
    page.keyboard.press("Tab")
    page.locator("#truth").uncheck()
    page.locator("#picture .truth").wait_for(state="detached")
    assert before == 1
    page.locator("#level").fill("1")
    page.wait_for_selector("text=top 1 of")
    for kind in ("SVG", "PNG", "JSON", "CSV"):
        with page.expect_download() as download:
            page.get_by_role("link", name=kind, exact=True).click()
        assert download.value.suggested_filename.endswith(f".{kind.lower()}")
        assert Path(download.value.path()).stat().st_size > 100
    first = page.url
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(lambda url: url.partition("?")[0] != first.partition("?")[0])
    page.keyboard.press("g")
    page.wait_for_selector(".gallery")


def test_an_engineer_pastes_a_graph_and_reads_the_error(page: Any) -> None:
    page.goto("/runs/motifs-a/try")
    page.get_by_role("button", name="Use the example").click()
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector(".answer-card svg.graph")
    page.locator("#graph").fill('{"edges": [[0, 7]], "num_nodes": 2}')
    page.get_by_role("button", name="Explain").click()
    page.get_by_role("alert").wait_for()
    assert "0 → 7" in page.get_by_role("alert").inner_text()
    page.goto("/api/openapi.json")
    assert "/api/runs/{run}/explanations" in page.content()


def test_the_keyboard_and_the_theme_button_work(page: Any) -> None:
    page.goto("/runs/motifs-a/graphs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_curves_of_a_run_in_training_are_updated(page: Any, runs: Path, tmp_path: Path) -> None:
    from gsat.core.locks import locked

    path = runs / "live"
    shutil.copytree(runs / "motifs-a", path)
    (path / "result.json").unlink()
    log = (path / "metrics.jsonl").read_text("utf-8").splitlines(keepends=True)
    (path / "metrics.jsonl").write_text(log[0], "utf-8")
    try:
        with locked(path / ".lock"):
            page.wait_for_timeout(1100)  # lists of runs are kept for a second
            page.goto("/runs/live")
            page.get_by_text("epoch 1 of 2").first.wait_for()
            (path / "metrics.jsonl").write_text("".join(log), "utf-8")
            page.get_by_text("epoch 2 of 2").first.wait_for()
            assert "over 2 epochs" in (
                page.locator(".chart").first.get_attribute("aria-label") or ""
            )
    finally:
        shutil.rmtree(path)
