"""The page that draws a violation: whole without a script, the same with one, harmless whatever a history holds."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Generator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from splitbrain.results.calls import OPEN, ints
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.report.counterexample import render, write_counterexample
from splitbrain.results.report.counterexample.drawing import CRASHED_ROW, first_view
from splitbrain.results.report.counterexample.scene import points, scene
from tests.report.chromium import Browser, chromium
from tests.report.counterexamples import WRONG, Sample, sample

HOSTILE = [
    "</script><script>window.pwned = 1</script>",
    '"><img src=x onerror="window.pwned = 1">',
    "</title></svg></style><iframe srcdoc='<script>parent.pwned = 1</script>'>",
    "{{ 7 * 7 }}{% raw %}${window.pwned = 1}",
    "<!--<script>\u2028\u2029\x00\u202e",
]


class Parsed(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(of: Sample, **options: Any) -> str:
    return render(of.history, of.evidence, of.sentence, "history.jsonl", **options)


def write(path: Path, of: Sample) -> Path:
    write_counterexample(path, of.history, of.evidence, of.sentence, "history.jsonl")
    return path


# --- without a script -------------------------------------------------------------------------------------------------


def test_the_first_view_has_the_failing_op_the_witness_and_every_op_about_them() -> None:
    of = sample()
    drawn = scene(of.history, of.evidence)
    view = first_view(drawn)
    parsed = Parsed(page(of))
    groups = {int(str(group["data-op"])): group for group in parsed.all("g") if "data-op" in group}
    bars = drawn.bars
    inside = [op for op in range(len(bars.begin)) if bars.begin[op] <= view.high and bars.end[op] >= view.low]
    assert sorted(groups) == inside
    (failing,) = [group for group in groups.values() if group.get("id") == "failing"]
    assert f"read → {WRONG}" in str(failing["aria-label"])
    assert sorted(op for op, group in groups.items() if "witness" in str(group["class"])) == sorted(drawn.witness)
    assert all(group["tabindex"] == "0" for group in groups.values())


def test_the_order_that_is_drawn_is_a_linearization_as_far_as_intervals_go() -> None:
    of = sample(clients=8)
    drawn = scene(of.history, of.evidence)
    for path in drawn.paths:
        assert path.points == sorted(set(path.points))
        for op, point in zip(path.steps, path.points, strict=True):
            assert drawn.bars.begin[op] < point < drawn.bars.end[op]


def test_points_between_two_events_are_spread_evenly_and_in_order() -> None:
    assert points([3, 1, 9], since=2) == pytest.approx([3 + 1 / 3, 3 + 2 / 3, 9.5])


def test_the_ends_of_all_orders_are_told_in_words() -> None:
    of = sample()
    text = " ".join(Parsed(page(of)).text.split())
    for path in of.evidence["final_paths"]["paths"]:
        assert path["then"] in text
    assert "None of them can be left out." in text
    assert f"{of.evidence['prefix']['ops']:,} ops, up to op {of.evidence['prefix']['last_index']}" in text


def test_a_violation_that_was_proven_without_an_order_is_drawn_without_one() -> None:
    of = sample()
    for missing in ("final_paths", "possible_states", "possible_states_count", "pending", "pending_count"):
        del of.evidence[missing]
    of.evidence["prefix_is_smallest"] = False
    parsed = Parsed(page(of))
    assert not [group for group in parsed.all("g") if group.get("class") == "step"]
    assert "No order is drawn" in parsed.text
    assert "ops at most" in parsed.text


def test_faults_stand_on_a_lane_above_the_ops_at_their_time() -> None:
    of = sample()
    drawn = scene(of.history, of.evidence)
    assert [fault.kind for fault in drawn.faults] == ["partition"] * 4
    struck = ints(of.history, "index")[ints(of.history, "process") < 0]
    begun = struck[1::4].tolist()
    for fault, index in zip(drawn.faults, begun, strict=True):
        before, after = (int(drawn.bars.index[int(fault.begin + by)]) for by in (-0.5, 0.5))
        assert before < index < after
    assert all(fault.words.startswith("partition: n4 | n1 n2 n3 n5 (") for fault in drawn.faults)
    lanes = [box for box in Parsed(page(of)).all("rect") if "fault-partition" in str(box.get("class"))]
    assert len(lanes) >= len(drawn.faults)


def test_ops_that_crashed_long_before_share_one_row_and_stay_open() -> None:
    of = sample(crashes=0.2)
    drawn = scene(of.history, of.evidence)
    view = first_view(drawn)
    assert view.rows[0] == CRASHED_ROW
    assert len(view.crashed) > 20
    assert f"{len(view.crashed)} ops crashed before, and may take effect at any time" in page(of)


def test_only_ops_of_the_key_are_drawn() -> None:
    ours, others = sample(key="a"), sample(key="b", seed=2)
    both = pa.concat_tables([ours.history, others.history])
    index = pa.array(range(both.num_rows), pa.int64())
    both = both.set_column(0, "index", index)
    bars = scene(both, ours.evidence).bars
    assert bars.ranks == int((ints(ours.history, "process") >= 0).sum())
    with pytest.raises(HistoryFormatError, match="has no invocation at op"):
        page(Sample(ours.history, {**ours.evidence, "key": "b"}, ""))
    assert page(Sample(others.history, others.evidence, ""))
    nameless = sample(key=None)
    assert page(nameless)


@pytest.mark.slow
def test_ops_far_away_are_left_out_of_a_huge_history_and_the_page_says_so() -> None:
    of = sample(3000)
    bars = scene(of.history, of.evidence, most=1000).bars
    assert len(bars.begin) == 1000
    total = bars.left_out + 1000
    assert f"{bars.left_out:,} ops of this key, far from the failing one, are not in this file." in page(of, most=1000)
    assert f"{total:,}" in page(of, most=1000)
    assert bars.end[scene(of.history, of.evidence, most=1000).failing] != OPEN


def test_the_page_needs_nothing_from_outside_and_runs_its_own_script_only() -> None:
    text = page(sample())
    parsed = Parsed(text)
    assert not parsed.all("link")
    assert not [attributes for _, attributes in parsed.tags if "src" in attributes or "href" in attributes]
    assert "url(" not in text
    assert "@import" not in text
    (policy,) = [meta["content"] for meta in parsed.all("meta") if meta.get("http-equiv")]
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in str(policy)
    assert "default-src 'none'" in str(policy)


@pytest.mark.parametrize("hostile", HOSTILE, ids=["script", "attribute", "frame", "template", "control"])
def test_hostile_values_show_as_text(hostile: str) -> None:
    text = page(sample(hostile=hostile))
    parsed = Parsed(text)
    assert len(parsed.all("script")) == 2
    assert not parsed.all("img")
    assert not parsed.all("iframe")
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\u2028]", text)


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


def bars_of(browser: Browser) -> list[list[str]]:
    return browser.run(
        "[...document.querySelectorAll('#picture g[data-op]')].map((g) => [g.dataset.op, g.getAttribute('class'), "
        "g.id, g.getAttribute('aria-label'), g.textContent, "
        "...['x', 'y', 'width', 'height'].map((name) => g.querySelector('rect').getAttribute(name))])"
    )


def picture_of(browser: Browser) -> list[str]:
    """Every element of the picture, as text, in order."""
    return browser.run(
        "[...document.querySelectorAll('#picture *')].map((e) => e.tagName + ' ' + "
        "[...e.attributes].map((a) => a.name + '=' + a.value).sort().join(' ') + "
        "(e.children.length ? '' : ' ' + e.textContent))"
    )


def in_window(browser: Browser, selector: str, width: int, height: int) -> bool:
    box = browser.box(selector)
    return 0 <= box["left"] < box["right"] <= width and 0 <= box["top"] < box["bottom"] <= height


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
@pytest.mark.parametrize("clients", [3, 60])
def test_the_failing_op_is_in_sight_without_scrolling(
    browser: Browser, tmp_path: Path, scripts: bool, clients: int
) -> None:
    browser.open(write(tmp_path / "page.html", sample(1000, clients, crashes=0.05)), scripts=scripts)
    assert in_window(browser, "#failing", 1280, 800)
    assert browser.complaints == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("clients", [3, 20])
def test_in_a_narrow_window_the_picture_is_moved_to_the_failing_op(
    browser: Browser, tmp_path: Path, clients: int
) -> None:
    page = write(tmp_path / "page.html", sample(200, clients))
    browser.open(page)
    browser.run("document.body.style.width = '420px'; document.getElementById('controls').firstElementChild.click()")
    middle = "(box => (box.left + box.right) / 2)"
    browser.run(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))"
    )
    seen = browser.run(
        f"{middle}(document.getElementById('failing').getBoundingClientRect())"
        f" - {middle}(document.getElementById('stage').getBoundingClientRect())"
    )
    assert abs(seen) < 210


OVERLAPS = """(() => {
  const boxes = [...document.querySelectorAll('#picture text')].filter((text) => !text.closest('.step'))
    .map((text) => [text.textContent, text.getBoundingClientRect()]);
  const found = [];
  boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
    const beside = a.left >= b.right - 1 || b.left >= a.right - 1;
    const below = a.top >= b.bottom - 3 || b.top >= a.bottom - 3;
    if (!beside && !below) found.push(one + ' | ' + other);
  }));
  return found;
})()"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("value", [7, 123_456_789_012, 10**40])
@pytest.mark.parametrize("clients", [2, 7])
def test_the_failing_op_is_named_whole_in_the_first_view_and_labels_keep_apart(
    browser: Browser, tmp_path: Path, clients: int, value: int
) -> None:
    of = sample(300, clients, wrong=value)
    browser.open(write(tmp_path / "page.html", of), scripts=False)
    assert browser.run("document.querySelector('.flag').textContent") == f"✗ read → {value}"
    beside = str(browser.run("document.querySelector('.failing-label').textContent"))
    assert f"read → {value}".startswith(beside.removesuffix("…"))
    assert len(beside) >= min(len(str(value)) + 7, 24)
    for label in (".flag", ".failing-label"):
        assert in_window(browser, label, 1280, 800)
    assert browser.run(OVERLAPS) == []


@pytest.mark.parametrize("crashes", [0.0, 0.1])
def test_the_script_draws_the_first_view_exactly_as_it_stands_in_the_page(
    browser: Browser, tmp_path: Path, crashes: float
) -> None:
    browser.open(write(tmp_path / "page.html", sample(600, 7, crashes=crashes)))
    before = picture_of(browser)
    browser.run("document.querySelector('#picture .step').remove()")
    browser.click("[data-do=failing]")
    assert picture_of(browser) == before
    assert browser.complaints == []


def lens(browser: Browser) -> tuple[float, float]:
    return tuple(browser.run("['x', 'width'].map((name) => +document.getElementById('lens').getAttribute(name))"))


@pytest.mark.slow
def test_every_way_to_zoom_and_pan_leads_to_other_ops_and_back(browser: Browser, tmp_path: Path) -> None:
    browser.open(write(tmp_path / "page.html", sample(5000, 6)))
    home, shown = lens(browser), bars_of(browser)
    browser.click("[data-do=out]")
    wider = lens(browser)
    assert wider[1] > home[1]
    assert len(bars_of(browser)) > len(shown)
    browser.click("[data-do=all]")
    assert lens(browser)[1] == pytest.approx(1064, abs=1)
    browser.click("[data-do=failing]")
    assert (lens(browser), bars_of(browser)) == (home, shown)
    browser.click("[data-do=left]")
    assert lens(browser)[0] < home[0]
    browser.click("[data-do=failing]")
    browser.drag("#picture .ground", by=200)
    assert lens(browser)[0] < home[0]
    browser.click("[data-do=failing]")
    browser.click("#overview")
    assert lens(browser)[0] == pytest.approx(104 + 1064 / 2, abs=10)
    assert len(bars_of(browser)) > 20
    browser.click("[data-do=failing]")
    at = browser.box("#failing")
    where = {"x": at["left"] + 5, "y": at["top"] + 5}
    browser.send("Input.dispatchMouseEvent", type="mouseWheel", deltaX=0, deltaY=-200, modifiers=2, **where)
    browser.settle()
    assert len(bars_of(browser)) < len(shown)
    assert browser.complaints == []


def test_an_op_tells_about_itself_to_mouse_and_keyboard(browser: Browser, tmp_path: Path) -> None:
    browser.open(write(tmp_path / "page.html", sample()))
    browser.run("document.querySelector('#failing').focus()")
    assert "No order lets it take effect." in browser.run("document.getElementById('told').textContent")
    browser.run("[...document.querySelectorAll('[data-op]')].find((g) => g.textContent.includes('Step 20 ')).focus()")
    assert "the state after it is" in browser.run("document.getElementById('told').textContent")
    browser.click("#failing rect")
    assert "pinned" in browser.run("document.querySelector('#failing').getAttribute('class')")
    assert browser.complaints == []


def test_another_possible_order_can_be_drawn(browser: Browser, tmp_path: Path) -> None:
    browser.open(write(tmp_path / "page.html", sample()))
    assert "25" in browser.run("[...document.querySelectorAll('#picture .step text')].pop().textContent")
    browser.run("document.querySelector(\"[data-path='1']\").scrollIntoView({ block: 'center' })")
    browser.click("[data-path='1']")
    assert "24" in browser.run("[...document.querySelectorAll('#picture .step text')].pop().textContent")


def test_a_link_leads_to_an_op(browser: Browser, tmp_path: Path) -> None:
    of = sample(2000)
    drawn = scene(of.history, of.evidence)
    op = 300
    path = write(tmp_path / "page.html", of)
    browser.open(path, fragment=f"#op-{drawn.bars.index[drawn.bars.begin[op]]}")
    assert browser.run("document.querySelector('#picture .pinned').dataset.op") == str(op)
    assert in_window(browser, "#picture .pinned", 1280, 800)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("hostile", HOSTILE, ids=["script", "attribute", "frame", "template", "control"])
def test_hostile_values_do_nothing_in_a_browser(browser: Browser, tmp_path: Path, hostile: str) -> None:
    browser.open(write(tmp_path / "page.html", sample(300, hostile=hostile)))
    for name in ("all", "failing", "out"):
        browser.click(f"[data-do={name}]")
    browser.click("#failing rect")
    assert browser.run("typeof window.pwned") == "undefined"
    assert browser.run("document.querySelectorAll('img, iframe, script').length") == 2
    assert browser.complaints == []


@pytest.mark.slow
def test_a_hundred_thousand_ops_stay_below_five_megabytes_and_within_reach(browser: Browser, tmp_path: Path) -> None:
    of = sample(100_000, 10)
    path = write(tmp_path / "page.html", of)
    assert path.stat().st_size < 5_000_000
    assert "far from the failing one" not in path.read_text()
    browser.open(path)
    assert in_window(browser, "#failing", 1280, 800)
    browser.click("[data-do=all]")
    assert browser.run("document.querySelectorAll('#picture path.dense.ok').length") == 10
    assert browser.run("document.querySelectorAll('#picture *').length") < 500
    browser.open(path, fragment="#op-1000")
    assert len(bars_of(browser)) > 20
    assert browser.complaints == []
