"""No text lies on another one or leaves its picture, as a browser measures, in any view that a script draws."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.results.report import write_report
from splitbrain.results.report.counterexample import write_counterexample
from splitbrain.results.report.overlays import overlays
from splitbrain.results.report.svg import PLOTS_STYLE
from splitbrain.results.tracks import Tracks
from tests.report.chromium import Browser, chromium
from tests.report.counterexamples import sample
from tests.report.families import Shape
from tests.report.labels import Box, clashes_of
from tests.report.sample import sample_run
from tests.report.test_labels import pictures, track_in

pytestmark = pytest.mark.slow

MEASURE = """
[...document.querySelectorAll('svg.plot')].map((svg) => {
  const whole = svg.getBoundingClientRect(), { width, height } = svg.viewBox.baseVal, scale = width / whole.width;
  const texts = [...svg.querySelectorAll('text')].filter((text) => text.checkVisibility() && text.textContent.trim());
  return [svg.id, width, height, texts.map((text) => {
    const { left, top, right, bottom } = text.getBoundingClientRect();
    const box = [left - whole.left, top - whole.top, right - whole.left, bottom - whole.top];
    return [text.textContent, ...box.map((at) => at * scale)];
  })];
})
"""
"""Every picture of the page: its name, its size, and where its texts are in its own units."""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


def wrong(browser: Browser) -> dict[str, list[str]]:
    """What is wrong with the texts of the pictures of a page, by picture."""
    measured = browser.run(MEASURE)
    assert measured
    assert any(texts for *_, texts in measured)
    found = {name: clashes_of([Box(*text) for text in texts], wide, high) for name, wide, high, texts in measured}
    return {name: clashes for name, clashes in found.items() if clashes}


def test_what_lies_on_each_other_or_outside_is_seen(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    texts = '<text x="10" y="20">one</text><text x="14" y="20">two</text><text x="196" y="60">three</text>'
    page.write_text(f'<!DOCTYPE html><svg class="plot" id="p" viewBox="0 0 200 80" width="400">{texts}</svg>')
    browser.open(page, scripts=False)
    first, second = wrong(browser)["p"]
    assert "'three' leaves the picture" in first
    assert "'one'" in second
    assert "lies on 'two'" in second


@pytest.mark.parametrize(
    "shape",
    [
        Shape(nodes=1, seconds=5.0),
        Shape(nodes=3, seconds=3600.0, ops=77_000),
        Shape(nodes=7, seconds=12_345.6),
        Shape(nodes=15, names=60, large=True),
        Shape(ops=0, faults=200, seconds=1e6),
    ],
    ids=str,
)
def test_pictures_of_every_shape(browser: Browser, tmp_path: Path, shape: Shape) -> None:
    drawn = dict(pictures(shape))
    found = overlays(Tracks([track_in(shape)]), Tracks([track_in(shape)] * 3))
    assert found is not None
    drawn |= {each.name: str(each.picture) for each in found.pictures}
    page = tmp_path / "page.html"
    page.write_text(f"<!DOCTYPE html><style>{PLOTS_STYLE.read_text()}</style>{''.join(drawn.values())}")
    browser.open(page, scripts=False)
    assert wrong(browser) == {}


@pytest.mark.parametrize("rate", [60.0, 600.0])
def test_the_timeline_however_far_it_is_zoomed(browser: Browser, tmp_path: Path, rate: float) -> None:
    browser.open(write_report(sample_run(tmp_path, "wrong side", rate=rate).path))
    assert wrong(browser) == {}
    for act in ("in", "right", "in", "right", "in", "in", "left", "in", "in", "out", "all"):
        browser.click(f"[data-zoom={act}]")
        assert wrong(browser) == {}, act


@pytest.mark.parametrize("clients", [5, 60])
def test_the_counterexample_however_far_it_is_zoomed(browser: Browser, tmp_path: Path, clients: int) -> None:
    of = sample(2000, clients, crashes=0.05, seed=clients)
    page = tmp_path / "page.html"
    write_counterexample(page, of.history, of.evidence, of.sentence, "history.jsonl")
    browser.open(page)
    assert wrong(browser) == {}
    for act in ("in", "in", "left", "failing", "out", "out", "left", "all", "failing"):
        browser.click(f"[data-do={act}]")
        assert wrong(browser) == {}, act
