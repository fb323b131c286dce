"""The timeline of very many ops shows how many there were, and each of them to those who zoom in."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.results.report import write_report
from tests.report.chromium import Browser, chromium
from tests.report.sample import sample_run


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(sample_run(tmp_path_factory.mktemp("store"), rate=400).path)


def timeline_of(browser: Browser) -> str:
    return re.sub(r' style=""', "", browser.run("document.getElementById('timeline').outerHTML"))


@pytest.mark.slow
def test_very_many_ops_are_bands_of_bars_that_differ_in_height(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    bands = re.findall(r'<path class="density density-ok" d="([^"]*)"', html)
    assert len(bands) == 5
    assert 'class="tick tick-ok"' not in html
    heights = {float(tall) for band in bands for tall in re.findall(r"v-([\d.]+)h", band)}
    assert len(heights) > 5
    assert max(heights) == 17


@pytest.mark.slow
def test_zooming_in_shows_each_op_and_zooming_out_shows_the_page_as_it_was(browser: Browser, page: Path) -> None:
    browser.open(page)
    before = timeline_of(browser)
    for _ in range(6):
        browser.click("[data-zoom=in]")
    assert browser.run("document.querySelectorAll('#timeline g .tick-ok').length") > 0
    assert browser.run("document.querySelectorAll('#timeline g .density').length") == 0
    labels: list[str] = browser.run("[...document.querySelectorAll('#ruler text')].map((text) => text.textContent)")
    seconds = [float(label.removesuffix(" s")) for label in labels]
    assert len(seconds) > 3
    assert max(seconds) - min(seconds) < 1
    browser.click("[data-zoom=right]")
    later = browser.run("parseFloat(document.querySelector('#ruler text').textContent)")
    assert later > seconds[0]
    browser.click("[data-zoom=all]")
    assert timeline_of(browser) == before
    assert browser.complaints == []


@pytest.mark.slow
def test_a_click_on_the_zoomed_timeline_takes_an_op_of_that_time(browser: Browser, page: Path) -> None:
    browser.open(page)
    for _ in range(5):
        browser.click("[data-zoom=in]")
    labels: list[str] = browser.run("[...document.querySelectorAll('#ruler text')].map((text) => text.textContent)")
    seconds = [float(label.removesuffix(" s")) for label in labels]
    browser.click("#timeline")
    told = str(browser.run("document.querySelector('#told .chosen').textContent"))
    (at,) = re.findall(r" to .*? at ([\d.]+) s; it", told)
    assert min(seconds) - 0.2 <= float(at) <= max(seconds) + 0.2


@pytest.mark.slow
def test_without_a_script_there_is_no_control_that_does_nothing(browser: Browser, page: Path) -> None:
    browser.open(page, scripts=False)
    assert browser.run("document.getElementById('zoom').getBoundingClientRect().height") == 0
