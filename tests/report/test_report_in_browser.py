"""The page in a browser: quiet, whole without a script, usable by mouse and keyboard, harmless whatever a run holds."""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.results.arrow import from_table
from splitbrain.results.report import write_report
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.report.chromium import Browser, chromium
from tests.report.sample import START_WALL_NS, State, sample_run

HOSTILE = {
    "script": "</script><script>window.pwned = 1</script>",
    "attribute": '"><img src=x onerror="window.pwned = 1">',
    "frame": "</title></svg></style><iframe srcdoc='<script>parent.pwned = 1</script>'>",
    "template": "{{ 7 * 7 }}{% raw %}${window.pwned = 1}",
    "control": "<!--<script>\u2028\u2029\x00\u202e\U0001f4a3\u0301",
    "quotes": "'\"`&quot;&#39;" * 20,
    "right to left": "\u202e\u2067\u200fabc \u05d0\u05d1\u05d2 \u0627\u0644 \u2069",
    "binary": "".join(map(chr, range(256))),
    "glyphs": "e" + "\u0301" * 400 + "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 40,
    "megabyte": "x" * 1_000_000,
}

INVISIBLE = r"/[\u0000-\u0008\u000e-\u001f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/"
"""Control characters, and those that turn the direction of what is around them: they must be shown as escapes."""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


def text_of(browser: Browser, selector: str) -> str:
    return browser.run(f"document.querySelector({selector!r}).innerText")


def fits(browser: Browser) -> bool:
    return browser.run("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    "state", ["pass", "violation", "wrong side", "inconclusive", "harness error", "unjudged", "no history"]
)
def test_every_outcome_is_shown_without_a_complaint_and_without_scrolling_sideways(
    browser: Browser, tmp_path: Path, state: State, width: int
) -> None:
    page = write_report(sample_run(tmp_path, state, rate=60).path)
    browser.open(page, width=width)
    assert browser.complaints == []
    assert fits(browser)


@pytest.mark.slow
def test_on_a_phone_what_a_table_is_about_is_read_without_scrolling_sideways(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(sample_run(tmp_path, "wrong side", rate=40).path), width=390)
    browser.run("for (const details of document.querySelectorAll('details')) details.open = true")
    too_wide = browser.run(
        "[...document.querySelectorAll('.scroll caption')]"
        ".filter((c) => c.getBoundingClientRect().right > c.closest('.scroll').getBoundingClientRect().right)"
        ".map((c) => c.textContent)"
    )
    assert too_wide == []


@pytest.mark.slow
def test_on_a_phone_sentences_have_the_width_of_the_window(browser: Browser, tmp_path: Path) -> None:
    page = write_report(sample_run(tmp_path, "wrong side", rate=60).path)
    browser.open(page, width=390)
    widths: list[float] = browser.run(
        "[...document.querySelectorAll('table.stack td.wrap')].filter((cell) => cell.textContent.length > 40)"
        ".map((cell) => cell.getBoundingClientRect().width).filter((width) => width > 0)"
    )
    assert len(widths) > 5
    assert min(widths) > 280


@pytest.mark.slow
def test_a_click_on_an_op_shows_what_each_node_logged_around_it(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(sample_run(tmp_path, "wrong side").path))
    link = "tr[id^=op-] a"
    index = browser.run(f"document.querySelector('{link}').getAttribute('href').slice(4)")
    browser.run(f"document.querySelector('{link}').scrollIntoView({{block: 'center'}})")
    browser.click(link)
    browser.wait_until(f"location.hash === '#op-{index}'")
    told = text_of(browser, "#told")
    assert told.startswith(f"Op {index}: process ")
    begun = float(re.search(r" at ([\d.]+) s; it ended", told).group(1))  # type: ignore[union-attr]
    for node, words in (("n1", "n1 heard of it at"), ("n2", "raft at")):
        near = [float(at) for at in re.findall(rf"{words} ([\d.]+) ?(?:s)", told)]
        assert near, node
        assert all(begun - 1.01 <= at <= begun + 0.6 for at in near), node
        assert min(abs(at - begun) for at in near) <= 0.5, node
    assert "n4" in told
    over_time = "svg.plot:not(#availability, #recovery)"
    pictures = browser.run(f"document.querySelectorAll('{over_time}').length")
    assert browser.run("document.querySelectorAll('.cursor').length") == pictures > 3
    assert browser.run("document.activeElement.id") == "told"
    assert browser.complaints == []


def test_the_longest_names_of_faults_and_nodes_stay_inside_the_picture(browser: Browser, tmp_path: Path) -> None:
    page = write_report(sample_run(tmp_path, rate=20).path)
    text = (
        page.read_text().replace(">partition</text>", ">membership</text>").replace(">n1</text>", ">metadata-…</text>")
    )
    page.write_text(text)
    browser.open(page)
    left = "Math.min(...[...document.querySelectorAll('#timeline text')].map((text) => text.getBBox().x))"
    assert browser.run(left) >= 0
    assert "membership" in browser.run("document.querySelector('#timeline text.lane').textContent")


@pytest.mark.slow
def test_a_click_on_the_timeline_takes_the_nearest_op_of_that_node(browser: Browser, tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    browser.open(write_report(run.path))
    browser.run("document.getElementById('timeline').scrollIntoView({block: 'center'})")
    browser.run("[...document.querySelectorAll('#timeline rect.ground')][2].id = 'third'")
    box = browser.box("#third")
    x, y = box["left"] + (box["right"] - box["left"]) / 2, box["bottom"] - 2
    for kind in ("mousePressed", "mouseReleased"):
        browser.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, x=x, y=y)
    browser.settle()
    told = text_of(browser, "#told .chosen")
    rows = run.history().to_pylist()
    ends = [row["time"] for row in rows if row["node"] == "n3" and row["type"] != "invoke"]
    nearest = min(abs(end - rows[-1]["time"] / 2) for end in ends) / 1e9
    assert " asked n3 to add " in told
    ended = float(told.rpartition(" at ")[2].split()[0])
    assert abs(ended - rows[-1]["time"] / 2e9) <= nearest + 0.02


@pytest.mark.slow
def test_ops_are_reached_by_keyboard_and_by_address(browser: Browser, tmp_path: Path) -> None:
    page = write_report(sample_run(tmp_path).path)
    browser.open(page, fragment="#op-4000")
    first = browser.run("+document.querySelector('#inspect [name=op]').value")
    assert 3950 < first <= 4000
    browser.run("document.querySelector('[data-do=next]').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.send(
            "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r"
        )
    browser.wait_until(f"+document.querySelector('#inspect [name=op]').value > {first}")
    few = browser.run("document.querySelectorAll('#told tbody tr').length")
    browser.run(
        "(select => { select.value = '10'; select.dispatchEvent(new Event('change')); })"
        "(document.querySelector('[name=radius]'))"
    )
    assert browser.run("document.querySelectorAll('#told tbody tr').length") > few
    browser.open(page, fragment="#op-99999999")
    assert "is not in this page" in text_of(browser, "#told")
    assert browser.complaints == []


@pytest.mark.slow
def test_the_timeline_is_walked_by_keys_and_left_again(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(sample_run(tmp_path, "wrong side").path))
    browser.run("document.getElementById('walk').focus({focusVisible: true})")
    assert browser.run("getComputedStyle(document.getElementById('walk')).outlineStyle") == "solid"
    assert "go from op to op" in text_of(browser, "#walk-keys")
    first = browser.run("document.querySelector('tr[id^=op-]').id.slice(3)")

    def walked(key: str) -> tuple[int, str, float]:
        browser.press(key)
        found = re.match(
            r"Op (\d+): process \d+ asked (\w+) to .* ended \w+ .*at ([\d.]+) s", text_of(browser, "#walked")
        )
        assert found is not None
        return int(found[1]), found[2], float(found[3])

    assert walked("ArrowRight")[0] == int(first), "it begins at the evidence"
    second = walked("ArrowRight")
    begun, node, ended = walked("ArrowLeft")
    assert begun == int(first) < second[0]
    below = walked("ArrowDown")
    assert int(below[1][1:]) == int(node[1:]) + 1, "the next lane"
    assert abs(below[2] - ended) < 1.0
    last = walked("End")
    assert last == walked("ArrowRight"), "there is none after the last one"
    assert walked("Home")[0] < int(first)
    assert browser.run("document.querySelectorAll('#timeline .walker').length") == 1
    assert not text_of(browser, "#told").startswith("Op ")
    browser.press("Enter")
    assert text_of(browser, "#told .chosen") == text_of(browser, "#walked")
    browser.press("Escape")
    assert browser.run("document.activeElement.tagName") == "BODY"
    assert browser.run("document.querySelectorAll('.walker').length") == 0
    assert browser.run("document.getElementById('walked').hidden")
    assert text_of(browser, "#told .chosen").startswith("Op "), "what was pinned stays"
    assert browser.complaints == []


@pytest.mark.slow
def test_a_narrow_timeline_follows_the_keys(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(sample_run(tmp_path, rate=40).path), width=390)
    browser.run("document.getElementById('walk').focus()")
    for key in ("ArrowRight", "End"):
        browser.press(key)
    walk, mark = browser.box("#walk"), browser.box("#timeline .walker")
    assert walk["left"] <= mark["left"] <= mark["right"] <= walk["right"]


@pytest.mark.slow
def test_a_screen_reader_is_told_of_the_op_and_has_the_timeline_as_a_table(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(sample_run(tmp_path, "wrong side").path))
    assert browser.run("document.getElementById('walked').getAttribute('aria-live')") == "polite"
    assert browser.run("document.getElementById('walk').getAttribute('aria-describedby')") == "walk-keys"
    browser.run("document.querySelector('#story summary').click()")
    told = text_of(browser, "#story")
    for words in ("phase faults begins", "partition begins: n4 | n1 n2 n3 n5", "led in term 4", "was paused, until"):
        assert words in told
    browser.run("document.querySelector('#story a[href^=\"#finding-\"]').click()")
    assert browser.run("document.querySelector(':target').id") == "finding-1"


@pytest.mark.slow
def test_a_finding_leads_to_its_window_and_back(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(sample_run(tmp_path, "wrong side").path))
    assert browser.run("document.getElementById('windows').open")
    browser.run("document.querySelector('a[href^=\"#window-\"]').click()")
    assert browser.run("document.querySelector(':target').id") == "window-1"
    browser.run("document.querySelector('#window-1 a[href^=\"#finding-\"]').click()")
    assert browser.run("document.querySelector(':target').id") == "finding-1"


def test_a_run_of_which_half_was_written_is_shown_as_such(browser: Browser, tmp_path: Path) -> None:
    run = half_written(tmp_path)
    browser.open(write_report(run.path))
    assert text_of(browser, "h1") == "Half written"
    assert "splitbrain analyze" in text_of(browser, "header")
    assert "unfinished" in browser.run("document.querySelector('header').className")
    browser.run("document.querySelector('[data-do=next]').click()")
    assert text_of(browser, "#told .chosen").startswith("Op 1: process ")
    assert browser.complaints == []


def half_written(root: Path) -> RunDir:
    """A run whose controller was killed in the middle of a block."""
    whole = sample_run(root / "whole", rate=40).history()
    run = Store(root).create("metadata-set", 1, {"nodes": ["n1", "n2", "n3", "n4", "n5"]}, START_WALL_NS)
    writer = run.history_writer()
    for op in from_table(whole)[:400]:
        writer.record(op)
    writer.close()
    run.release()
    run.wal_path.write_bytes(run.wal_path.read_bytes()[:-7])
    return run


@pytest.mark.slow
def test_without_a_script_the_logs_around_the_evidence_are_there(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(sample_run(tmp_path, "wrong side").path), scripts=False)
    assert browser.run("document.getElementById('inspect').hidden")
    told = text_of(browser, "#told")
    assert "n1 heard of it at 6 s" in told
    assert "raft at 6.5" in told


@pytest.mark.slow
def test_the_page_has_what_a_screen_reader_goes_by(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(sample_run(tmp_path, "violation").path))
    for landmark in ("header", "nav[aria-label]", "main", "footer"):
        assert browser.run(f"document.querySelectorAll('body > {landmark}').length") == 1
    levels = browser.run("[...document.querySelectorAll('h1, h2, h3')].map((h) => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    unnamed = browser.run(
        "[...document.querySelectorAll('table')].filter((t) => !t.caption?.textContent.trim()).length"
        " + [...document.querySelectorAll('svg.plot')].filter((s) => !s.querySelector('title')).length"
        " + [...document.querySelectorAll('th:not([scope])')].length"
        " + [...document.querySelectorAll('input, select')].filter((i) => !i.labels.length).length"
    )
    assert unnamed == 0
    broken = browser.run(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.getAttribute('href').slice(1))"
        ".filter((id) => !id.startsWith('op-') && !document.getElementById(id))"
    )
    assert broken == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground_in_both_schemes(browser: Browser, tmp_path: Path, scheme: str) -> None:
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.send("Emulation.setEmulatedMedia", media="screen", features=media)
    browser.open(write_report(sample_run(tmp_path, "violation", rate=40).path))
    low = browser.run(CONTRAST)
    browser.send("Emulation.setEmulatedMedia", media="", features=[])
    assert low == []


CONTRAST = """(() => {
  const part = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => sum + weight * part(c[i] / 255), 0.05);
  const colour = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = colour(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const words = 'h1, h2, h3, p, li, td, th, dt, dd, caption, figcaption, a, summary, code, .tag, label, button';
  const found = new Set();
  for (const e of document.querySelectorAll(words)) {
    if (!e.textContent.trim() || e.closest('svg')) continue;
    const [a, b] = [light(colour(getComputedStyle(e).color)), light(ground(e))];
    const ratio = Math.max(a, b) / Math.min(a, b);
    if (ratio < 4.5) found.add(e.tagName + '.' + e.className + ' ' + ratio.toFixed(2));
  }
  return [...found];
})()"""
"""Elements whose text has a contrast below 4.5 to 1 (WCAG 2, level AA)."""


def test_in_print_all_but_raw_evidence_is_open_and_the_controls_are_gone(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(sample_run(tmp_path, "violation", rate=40).path))
    before = browser.run("document.querySelectorAll('details:not([open])').length")
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    shut = browser.run("[...document.querySelectorAll('details:not([open])')].map((d) => d.className)")
    assert set(shut) == {"raw"}
    browser.send("Emulation.setEmulatedMedia", media="print", features=[])
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth"), "nothing is cut off at the right"
    hidden = browser.run("['nav', '#inspect'].map((s) => getComputedStyle(document.querySelector(s)).display)")
    browser.send("Emulation.setEmulatedMedia", media="", features=[])
    assert hidden == ["none", "none"]
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    assert browser.run("document.querySelectorAll('details:not([open])').length") == before > len(shut)


@pytest.mark.slow
def test_it_prints_as_a_document_of_a_few_pages(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(sample_run(tmp_path, "violation", rate=40).path))
    printed = base64.b64decode(browser.send("Page.printToPDF", printBackground=True)["data"])
    assert printed.startswith(b"%PDF-")
    assert 3 <= len(re.findall(rb"/Type /Page\b", printed)) <= 20
    assert browser.run("document.querySelectorAll('details[data-closed]').length") == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(HOSTILE))
def test_hostile_values_do_nothing_in_a_browser(browser: Browser, tmp_path: Path, kind: str) -> None:
    hostile = HOSTILE[kind]
    run = sample_run(tmp_path, "violation", seconds=8, rate=50, hostile=hostile)
    run.write_marks({hostile: 1})
    page = write_report(run.path)
    assert page.stat().st_size < 1_000_000
    browser.open(page)
    last = browser.run("document.querySelector('tr[id^=op-] a').getAttribute('href')")
    browser.open(page, fragment=last)
    browser.run("for (let i = 0; i < 2000; i += 1) document.querySelector('[data-do=next]').click()")
    assert browser.run("typeof window.pwned") == "undefined"
    assert browser.run("document.querySelectorAll('img, iframe').length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run(f"document.documentElement.textContent.match({INVISIBLE})") is None
    assert text_of(browser, "#told .chosen").startswith("Op ")
    assert browser.complaints == []
    assert fits(browser)


@pytest.mark.slow
def test_a_hundred_thousand_ops_stay_below_five_megabytes_and_each_answers_to_a_click(
    browser: Browser, tmp_path: Path
) -> None:
    run = sample_run(tmp_path, "wrong side", seconds=220, rate=600)
    page = write_report(run.path)
    assert page.stat().st_size < 5_000_000
    browser.open(page, fragment="#op-150000")
    assert text_of(browser, "#told .chosen").startswith("Op 1")
    assert "ops can be clicked: those nearest to faults and evidence" in text_of(browser, "main")
    assert browser.complaints == []
