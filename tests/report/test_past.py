"""New, known or flaky follows from the other runs of the same test, as far as these can be read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from splitbrain.checkers.verdict import Verdict
from splitbrain.results.report import past, write_report
from splitbrain.results.report.past import NOTHING_EARLIER, novelty_of, past_of
from splitbrain.results.report.run_view import load
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

START_NS = 1_760_000_000_000_000_000
LOST = Verdict(checker="set", valid="false", sentence="Lost.", anomalies=("lost",))
FINE = Verdict(checker="set", valid="true", sentence="Fine.")


def made(
    root: Path,
    day: int,
    *verdicts: Verdict,
    outcome: str = "pass",
    seed: int = 1,
    test: str = "t",
    rate: float = 100.0,
) -> RunDir:
    document = {"nodes": ["n1"], "options": {"rate": rate, "seed": seed}}
    run = Store(root).create(test, seed, document, START_NS + day * 86_400 * 10**9)
    if verdicts:
        run.write_verdicts(verdicts, outcome)
    run.release()
    return run


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("earlier", "word", "seen"),
    [([], NOTHING_EARLIER, 0), ([FINE, FINE], "new", 0), ([LOST, LOST], "known", 2), ([FINE, LOST, FINE], "flaky", 1)],
)
def test_an_anomaly_is_new_known_or_flaky_by_the_runs_before(
    tmp_path: Path, earlier: list[Verdict], word: str, seen: int
) -> None:
    for day, verdict in enumerate(earlier):
        made(tmp_path, day, verdict, outcome="violation" if verdict is LOST else "pass", seed=day)
    run = made(tmp_path, 10, LOST, outcome="violation", seed=99)
    made(tmp_path, 11, LOST, outcome="violation", seed=98)
    made(tmp_path, 0, LOST, outcome="violation", test="another")
    (trace,) = past_of(load(run.path)).traces
    assert (str(trace.signature), trace.word) == ("set/lost/-/*", word)
    assert trace.earlier == (seen, len(earlier))


def test_the_same_anomaly_under_another_fault_is_another_and_one_of_an_earlier_version_may_be_either(
    tmp_path: Path,
) -> None:
    def kept(run: RunDir, *signatures: str) -> RunDir:
        document = json.loads((run.path / "verdict.json").read_bytes())
        (run.path / "verdict.json").write_text(json.dumps({**document, "signatures": signatures}))
        return run

    kept(made(tmp_path, 0, LOST, outcome="violation"), "set/lost/-/kill")
    kept(made(tmp_path, 1, LOST, outcome="violation"))
    kept(made(tmp_path, 2, LOST, outcome="violation"), "set/lost/-/partition")
    run = kept(made(tmp_path, 3, LOST, outcome="violation"), "set/lost/-/partition")
    (trace,) = past_of(load(run.path)).traces
    assert (trace.word, trace.earlier) == ("flaky", (2, 3))
    assert "<td" in (page := write_report(run.path).read_text())
    assert ">partition</td>" in page


def test_first_seen_and_last_passing_are_told(tmp_path: Path) -> None:
    made(tmp_path, 0, FINE)
    first = made(tmp_path, 1, LOST, outcome="violation", seed=7)
    passed = made(tmp_path, 2, FINE, seed=7)
    made(tmp_path, 3, LOST, outcome="violation")
    run = made(tmp_path, 4, LOST, outcome="violation", seed=7)
    (trace,) = past_of(load(run.path)).traces
    assert trace.first is not None
    assert trace.last_without is not None
    assert (trace.first.name, trace.last_without.name) == (first.name, passed.name)
    page = write_report(run.path).read_text()
    assert first.name in page
    assert "2 of 4" in page


def test_the_reproduction_rate_counts_runs_with_the_same_options_and_those_with_the_same_seed_apart(
    tmp_path: Path,
) -> None:
    made(tmp_path, 0, FINE)
    made(tmp_path, 1, LOST, outcome="violation", seed=7)
    made(tmp_path, 2, FINE, seed=7)
    made(tmp_path, 3, LOST, outcome="violation", seed=7, rate=50.0)
    made(tmp_path, 4, seed=7)
    run = made(tmp_path, 5, LOST, outcome="violation", seed=7)
    made(tmp_path, 6, LOST, outcome="violation")
    (trace,) = past_of(load(run.path)).traces
    assert trace.same_options == (3, 5)
    assert trace.same_seed == (2, 3)
    page = write_report(run.path).read_text()
    assert re.search(r'any seed">3 of 5</td><td class="n" data-label="with this seed">2 of 3</td>', page)


def test_runs_that_cannot_be_read_or_were_not_judged_count_for_nothing_and_are_told(tmp_path: Path) -> None:
    made(tmp_path, 0)
    (made(tmp_path, 1, LOST, outcome="violation").path / "verdict.json").write_text("{")
    (made(tmp_path, 2, LOST, outcome="violation").path / "verdict.json").write_text('{"outcome": "pass", "format": 9}')
    run = made(tmp_path, 3, LOST, outcome="violation")
    past = past_of(load(run.path))
    assert (past.unreadable, past.traces[0].earlier.of, past.traces[0].word) == (2, 0, NOTHING_EARLIER)
    assert "2 other runs cannot be read." in write_report(run.path).read_text()


def test_of_very_many_runs_the_nearest_are_read_and_the_rest_is_counted(tmp_path: Path) -> None:
    runs = [made(tmp_path, day, FINE) for day in range(8)]
    past = past_of(load(runs[5].path), most=3)
    assert [other.name for other in past.others] == [run.name for run in runs[2:5]]
    assert past.left_out == 4
    past = past_of(load(runs[1].path), most=3)
    assert [other.name for other in past.others] == [runs[i].name for i in (0, 2, 3)]


def test_a_run_outside_of_a_store_has_no_past(tmp_path: Path) -> None:
    run = made(tmp_path, 0, LOST, outcome="violation")
    moved = run.path.rename(tmp_path / "moved")
    assert past_of(load(moved)).traces == []
    assert "There is no other run of this test" in write_report(moved).read_text()


def test_known_bugs_that_were_switched_on_are_named(tmp_path: Path) -> None:
    run = Store(tmp_path).create("t", 1, {"nodes": ["n1"], "bugs": ["M23", "M01"]}, START_NS)
    run.write_verdicts([LOST], "violation")
    run.release()
    assert "Known bugs were switched on: M23, M01." in write_report(run.path).read_text()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("earlier", "told"),
    [
        ([], "Not known: this store has no earlier judged run"),
        ([FINE, FINE], "New: set lost (in none of 2 earlier runs)."),
        ([LOST, LOST], "Known: set lost (in 2 of 2 earlier runs, first in "),
        ([FINE, LOST, FINE], "Seen before, not always: set lost (in 1 of 3 earlier runs, first in "),
    ],
)
def test_the_banner_says_whether_it_is_new_or_known(tmp_path: Path, earlier: list[Verdict], told: str) -> None:
    for day, verdict in enumerate(earlier):
        made(tmp_path, day, verdict, outcome="violation" if verdict is LOST else "pass", seed=day)
    run = made(tmp_path, 10, LOST, outcome="violation", seed=99)
    page = write_report(run.path).read_text(encoding="utf-8")
    banner = page[page.index("<header") : page.index("</header>")]
    assert told in banner


def test_a_bug_that_was_switched_on_is_told_as_expected_and_a_pass_has_nothing_to_tell(tmp_path: Path) -> None:
    fine = made(tmp_path, 0, FINE)
    assert novelty_of(past_of(load(fine.path)), ["M23"]) == ""
    lost = made(tmp_path, 1, LOST, outcome="violation")
    assert novelty_of(past_of(load(lost.path)), ["M23"]).endswith("Expected: M23 was switched on.")


@pytest.mark.slow
def test_a_store_of_many_runs_is_read_once_for_all_pages_and_again_where_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [made(tmp_path, day, LOST if day % 2 else FINE, outcome="violation", seed=day) for day in range(12)]
    long_ago_s = START_NS // 10**9
    os.utime(tmp_path / "test=t", (long_ago_s, long_ago_s))
    read: list[Path] = []
    look: Callable[..., past.Other] = past._other  # pyright: ignore[reportPrivateUsage]

    def noted(path: Path, *rest: Any) -> past.Other:
        read.append(path)
        return look(path, *rest)

    monkeypatch.setattr(past, "_other", noted)
    views = [load(run.path) for run in runs]
    first = [past_of(view) for view in views]
    assert len(read) <= 2 * len(runs), "each run once as itself, and once for all others"
    read.clear()
    runs[3].write_verdicts([FINE], "pass")
    changed = past_of(views[5])
    assert runs[3].path in read
    assert len(read) == 2, "the run of the page, and the one that was judged again"
    assert changed.traces[0].earlier.seen == first[5].traces[0].earlier.seen - 1
    another = made(tmp_path, 20, FINE)
    assert another.name in [other.name for other in past_of(views[5]).others]
