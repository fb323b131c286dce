"""Every page can be read on a phone: nothing scrolls it sideways, and tables of a report not even in themselves."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.results.comparison import Side, compare, subject_of
from splitbrain.results.report import write_report
from splitbrain.results.report.counterexample import write_counterexample
from splitbrain.results.report.overlays import overlays
from splitbrain.results.site.pages import comparison_page
from splitbrain.results.tracks import tracks_of
from tests.report.chromium import Browser, chromium
from tests.report.counterexamples import sample
from tests.report.sample import State, sample_run
from tests.site.support import address, served, small_run

pytestmark = pytest.mark.slow

WIDTH = 390

WIDE_TABLES = """
[...document.querySelectorAll('table.stack')]
  .filter((table) => table.getBoundingClientRect().right > table.closest('.scroll').getBoundingClientRect().right + 1)
  .map((table) => table.caption.textContent)
"""
UNTOLD = """
[...document.querySelectorAll('table.stack tbody td.n')]
  .filter((cell) => cell.checkVisibility() && !cell.dataset.label)
  .map((cell) => [cell.closest('table').caption.textContent, cell.cellIndex].join(': '))
"""
"""Cells with a number of which nothing says what it is, where the heads of columns are not shown."""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


def opened(browser: Browser, page: Path, *, scripts: bool = True) -> None:
    """Show a page with all that can be opened."""
    browser.open(page, width=WIDTH, scripts=scripts)
    browser.run("for (const details of document.querySelectorAll('details')) details.open = true")


def assert_it_fits(browser: Browser) -> None:
    assert browser.run("document.documentElement.scrollWidth") <= WIDTH
    assert browser.run(WIDE_TABLES) == []


@pytest.mark.parametrize("state", ["pass", "violation", "wrong side", "inconclusive"])
def test_a_report(browser: Browser, tmp_path: Path, state: State) -> None:
    opened(browser, write_report(sample_run(tmp_path, state, rate=60).path))
    assert_it_fits(browser)
    assert browser.run("document.querySelectorAll('table.stack').length") > 5
    assert browser.run(UNTOLD) == []


def test_a_counterexample(browser: Browser, tmp_path: Path) -> None:
    of = sample(400, 5, crashes=0.1)
    write_counterexample(tmp_path / "page.html", of.history, of.evidence, of.sentence, "history.jsonl")
    opened(browser, tmp_path / "page.html")
    assert_it_fits(browser)
    assert browser.run(UNTOLD) == []


def test_a_comparison_and_the_list_of_runs(browser: Browser, tmp_path: Path) -> None:
    runs = [small_run(tmp_path, state, seed=seed) for seed, state in enumerate(("pass", "wrong side"))]
    found = compare(*(Side(run.name, [subject_of(run)]) for run in runs))
    page = tmp_path / "page.html"
    page.write_text(comparison_page(found, overlays(*(tracks_of([run]) for run in runs)), standalone=True))
    opened(browser, page, scripts=False)
    assert_it_fits(browser)
    a, b = (address(run).removeprefix("/run/") for run in runs)
    with served(tmp_path) as server:
        for path in ("/", "/matrix", address(runs[0]), f"/compare?a={a}&b={b}"):
            browser.send("Page.navigate", url=server.url.rstrip("/") + path)
            browser.wait_until("document.readyState === 'complete' && location.protocol === 'http:'")
            browser.run("for (const details of document.querySelectorAll('details')) details.open = true")
            assert browser.run("document.querySelectorAll('h1').length") == 1
            assert_it_fits(browser)
