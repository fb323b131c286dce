"""Two sides are drawn one over the other: their values on one axis of time, their faults, and what is not drawn."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from splitbrain.results.availability import seconds_of
from splitbrain.results.comparison import Side, compare, subject_of
from splitbrain.results.errors import RunNotFoundError
from splitbrain.results.faults import FaultOp, Window
from splitbrain.results.figures import Recovery
from splitbrain.results.history import NEMESIS, Op
from splitbrain.results.report.overlays import RECOVERIES_MAX, Overlays, overlays
from splitbrain.results.site.pages import comparison_page
from splitbrain.results.tracks import RUNS_MAX, Track, Tracks, track_of, tracks_of
from tests.report.sample import sample_run
from tests.site.support import address, bare_run, get, small_run, text

S = 1_000_000_000


def track(
    per_s: float,
    *,
    end_s: float = 10.0,
    silent: tuple[float, float] = (0.0, 0.0),
    latency_ms: float = 5.0,
    recoveries: tuple[Recovery, ...] = (),
) -> Track:
    """Ops at a steady rate, none of which is answered in a stretch of time; a partition is in force in it."""
    begun = np.arange(0.0, end_s, 1 / per_s)
    ok = (begun < silent[0]) | (begun >= silent[1])
    begun_ns = (begun * S).astype(np.int64)
    ended_ns = begun_ns + int(latency_ms * 1e6)
    value = {"fault": "partition", "action": "start", "target": "n1 | n2 n3"}
    start = FaultOp(Op(process=NEMESIS, type="invoke", f="start", value=value, index=0, time=0), None)
    window = Window("partition", start, None, round(silent[0] * S), round(silent[1] * S))
    return Track(
        name="t/1",
        end_s=end_s,
        windows=(window,) if silent[1] else (),
        ended_s=ended_ns[ok] / 1e9,
        begun_s=begun[ok],
        latency_ms=np.full(int(np.count_nonzero(ok)), latency_ms),
        seconds=seconds_of(begun_ns, ended_ns, ok, round(end_s * S)),
        recoveries=recoveries,
    )


def recovery(time_s: float, *took: float | None) -> Recovery:
    first, majority, every = took
    return Recovery(
        fault="kill", action="stop", target="n1", time_s=time_s, first_s=first, majority_s=majority, all_s=every
    )


def drawn(a: list[Track], b: list[Track]) -> Overlays:
    found = overlays(Tracks(a), Tracks(b))
    assert found is not None
    return found


def picture(found: Overlays, name: str) -> str:
    return str(next(each.picture for each in found.pictures if each.name == name))


def heights(svg: str, style: str) -> list[float]:
    """The y of a line's points, of all its pieces."""
    pieces = re.findall(rf'<polyline class="{style}" points="([^"]*)"', svg)
    return [float(point.split(",")[1]) for piece in pieces for point in piece.split()]


def test_both_sides_stand_on_one_axis_and_one_scale() -> None:
    found = drawn([track(100, end_s=10)], [track(25, end_s=20)])
    svg = picture(found, "rate")
    (of_a,), (of_b,) = set(heights(svg, "line series-0")), set(heights(svg, "line series-1 dashed"))
    floor = max(float(y) for y in re.findall(r'class="grid"[^>]* y1="([\d.]+)"', svg))
    assert (floor - of_a) / (floor - of_b) == pytest.approx(4, rel=0.01)
    ends = [float(line.split()[-1].split(",")[0]) for line in re.findall(r'<polyline[^>]* points="([^"]*)"', svg)]
    assert (ends[0] - 88) / (ends[1] - 88) == pytest.approx(0.5, rel=0.01)
    assert "A: from 100 to 100, in the middle 100. B: from 25 to 25" in svg


def test_a_stretch_without_an_answer_is_one_of_no_availability_and_its_fault_stands_above_it() -> None:
    found = drawn([track(50, silent=(4.0, 6.0))], [track(50)])
    rows = {row.begin_s: row for row in found.stretches}
    place = next(i for i, measure in enumerate(found.measures) if measure.startswith("Availability"))
    assert [rows[at].values[place] for at in (3.0, 4.0, 5.0, 6.0)] == [(100, 100), (0, 100), (0, 100), (100, 100)]
    assert [rows[at].faults for at in (3.0, 4.0, 6.0)] == [("", ""), ("partition", ""), ("", "")]
    for each in found.pictures:
        assert 'class="fault-partition"' in each.picture
        assert "n1 | n2 n3 (4.000 s to 6.000 s)" in each.picture


def test_a_side_of_several_runs_is_their_median_between_the_lowest_and_the_highest() -> None:
    found = drawn([track(10), track(20), track(60)], [track(20)])
    assert {row.values[0] for row in found.stretches} == {(20, 20)}
    svg = picture(found, "rate")
    assert svg.count("<polygon") == 1
    assert "A, 3 runs</text>" in svg
    assert heights(svg, "line series-0") == heights(svg, "line series-1 dashed")


def test_latency_is_the_99th_percentile_and_unknown_where_nothing_was_answered() -> None:
    found = drawn([track(50, silent=(4.0, 6.0), latency_ms=20)], [track(50, latency_ms=80)])
    assert [row.values[1] for row in found.stretches[3:7]] == [(20, 80), (None, 80), (None, 80), (20, 80)]


def test_every_recovery_has_a_dot_and_those_that_never_came_a_row_of_their_own() -> None:
    a = track(10, recoveries=(recovery(2.0, 0.5, 1.0, None), recovery(5.0, 0.1, None, None)))
    found = drawn([a], [track(10, recoveries=(recovery(2.0, 0.5, 2.0, 4.0),))])
    svg = picture(found, "recovery")
    assert svg.count("<circle") == 2
    assert svg.count('class="hollow series-1"') == 1
    assert ">none</text>" in svg
    assert "kill healed at 5.000 s (n1): first answer after 0.100 s, a majority never, all never" in svg
    assert [(side, each.majority_s) for side, _, each in found.recoveries] == [("A", 1.0), ("A", None), ("B", 2.0)]


def test_what_is_not_drawn_is_counted() -> None:
    many = tuple(recovery(i / 100, 0.1, 0.1, 0.1) for i in range(RECOVERIES_MAX + 7))
    found = overlays(Tracks([track(10, recoveries=many)], left_out=1200), Tracks([], problems=("it is damaged",)))
    assert found is not None
    assert found.notes == [
        "A: 1,200 earlier runs are not drawn.",
        "B: a run is not drawn: it is damaged",
        "A: 7 later operations of the nemesis have no dot.",
    ]
    assert picture(found, "recovery").count("<circle") == RECOVERIES_MAX


@pytest.mark.slow
def test_of_many_runs_the_last_are_read_and_a_run_without_a_history_is_told(tmp_path: Path) -> None:
    empty = [bare_run(tmp_path, "empty", seed, {}) for seed in range(RUNS_MAX + 3)]
    found = tracks_of(empty)
    assert (found.runs, found.left_out) == ([], 3)
    assert found.problems
    with pytest.raises(RunNotFoundError):
        track_of(empty[0])
    assert overlays(found, found) is None


def test_the_page_of_a_comparison_has_the_pictures_without_a_script(tmp_path: Path) -> None:
    runs = [sample_run(tmp_path, state, rate=40, seed=seed) for seed, state in enumerate(("pass", "wrong side"))]
    sides = [Side(run.name, [subject_of(run)]) for run in runs]
    found = overlays(*(tracks_of([run]) for run in runs))
    page = comparison_page(compare(*sides), found, standalone=True)
    assert "<script" not in page
    assert ".series-1 { stroke:" in page  # the style of the pictures is in the file
    for name in ("rate", "p99", "availability", "recovery"):
        assert f'<svg class="plot" id="over-{name}" role="img" aria-labelledby="over-{name}-title"' in page
    assert page.count("<figcaption>") == 4
    assert "The pictures as tables" in page
    assert "Over time" not in comparison_page(compare(*sides), None, standalone=True)


@pytest.mark.slow
def test_the_site_draws_what_it_compares_and_says_what_has_not_ended(tmp_path: Path) -> None:
    a = small_run(tmp_path, seed=1)
    name = address(a).removeprefix("/run/")
    running = bare_run(tmp_path, "later", 2, {}, held=True)
    page = text(get(tmp_path, "/compare", a=name, b=address(running).removeprefix("/run/")))
    assert "/static/plots.css" in page
    assert "B: a run is not drawn: it has not ended" in page
    assert 'id="over-rate"' in page
    assert ".plot" in text(get(tmp_path, "/static/plots.css"))
    running.release()
