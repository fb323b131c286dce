"""What is said of a night: new, known, flaky, fixed; the exit code; JUnit, Markdown and page of the same document."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.nightly import classify, output
from splitbrain.harness.campaigns.nightly.journal import FILE, Journal, read
from splitbrain.harness.campaigns.nightly.night import outcome_of
from splitbrain.results import nights
from splitbrain.results.baseline import Baseline, Known
from splitbrain.results.errors import HistoryFormatError, StoreVersionError, UsageError
from splitbrain.results.nights import Began, CellOfNight, Impossible, Kept, Night, NotReached, Ran, Replayed

TODAY = date(2026, 5, 1)
CELL = "set/kill/metadata/default/sim/none"
LOST, TWICE = "set/lost/-/kill", "set/duplicate/-/none"
ENTRY = Known(signature=LOST, issue="https://example.org/1?a=1&b=2", owner="ann", expires=TODAY)


def _ran(seed: int, *signatures: str, cell: str = CELL, **more: Any) -> Ran:
    outcome = more.pop("outcome", "violation" if signatures else "pass")
    sentences = ("5 <elements> & \x1b[31m | were lost.",) if signatures else ()
    made: dict[str, Any] = {
        "cell": cell,
        "seed": seed,
        "why": "fresh",
        "outcome": outcome,
        "signatures": signatures,
        "sentences": sentences,
        "command": f"splitbrain run --seed {seed}",
        **more,
    }
    return Ran(**made)


def _night(runs: Sequence[Ran], entries: Sequence[Known] = (), replayed: Sequence[Replayed] = (), **more: Any) -> Night:
    found = classify.violations(runs, [], replayed, [], Baseline(entries), TODAY)
    names = list(dict.fromkeys([CELL, *(run.cell for run in runs)]))
    cells = [
        CellOfNight(
            name=name,
            **dict(zip(("workload", "nemesis", "system", "version", "backend", "bug"), name.split("/"), strict=True)),
            outcomes={
                outcome.value: count
                for outcome in Outcome
                if (count := sum(run.cell == name and run.outcome == outcome.value for run in runs))
            },
            seconds=1.0,
            weight=1.0,
        )
        for name in names
    ]
    made: dict[str, Any] = {
        "name": "20260501",
        "matrix": "night.toml",
        "matrix_digest": "x",
        "began": "2026-05-01T00:00:00.000+00:00",
        "ended": "2026-05-01T01:00:00.000+00:00",
        "ended_by": "budget",
        "budget_s": 10.0,
        "elapsed_s": 9.0,
        "outcome": "violation",
        "exit_code": 1,
        "strict": False,
        "outcomes": {"violation": 1},
        "cells": tuple(cells),
        "violations": found,
        "errors": tuple(run for run in runs if run.outcome == "harness error"),
        "fixed": (),
        "expired": (),
        "not_reached": NotReached(),
        "stored_bytes": 0,
    }
    return Night(**{**made, **more})


# --- classification ---------------------------------------------------------------------------------------------------


def test_a_violation_is_new_known_or_flaky_and_the_rate_is_that_of_its_replays() -> None:
    other = _ran(3, TWICE, cell=CELL.replace("kill", "pause"))
    runs = [_ran(1, LOST), _ran(2, TWICE), _ran(4, TWICE), other]
    replayed = [Replayed(cell=CELL, seed=2, seen=seen) for seen in (True, False, False)]
    replayed += [Replayed(cell=other.cell, seed=3, seen=True)]
    night = _night(runs, [ENTRY], replayed)
    found = {(each.cell, each.seed): (each.classification, each.seen, each.replays) for each in night.violations}
    assert found == {
        (CELL, 1): ("known", 0, 0),
        (CELL, 2): ("flaky", 1, 3),
        (CELL, 4): ("flaky", 1, 3),
        (other.cell, 3): ("new", 1, 1),
    }
    assert [each.classification for each in night.violations] == ["new", "flaky", "flaky", "known"]


def test_an_entry_that_expired_makes_it_new_again_and_says_so() -> None:
    old = msgspec.structs.replace(ENTRY, expires=date(2026, 4, 30))
    [found] = _night([_ran(1, LOST)], [old]).violations
    assert (found.classification, found.expired, found.issue) == ("new", True, ENTRY.issue)
    assert classify.expired(Baseline([old, ENTRY]), TODAY) == (LOST,)


def test_a_known_violation_hides_no_other_one() -> None:
    [found] = _night([_ran(1, LOST, TWICE)], [ENTRY]).violations
    assert (found.classification, found.uncovered) == ("new", (TWICE,))
    assert f'with = ["{TWICE.rsplit("/", 2)[0]}"]' in found.baseline_entry


def test_what_is_gone_for_n_nights_in_which_its_cell_was_run_is_fixed() -> None:
    pause = CELL.replace("kill", "pause")
    seen = _night([_ran(1, LOST), _ran(2, TWICE, cell=pause)], name="1")
    quiet = _night([_ran(3)], name="2")  # the cell of the second one is not run
    tonight = _night([_ran(4)], name="3")
    found = classify.fixed(tonight, [seen, quiet], Baseline([ENTRY]), 2)
    assert [(each.signature, each.nights, each.last_seen, each.issue) for each in found] == [
        (LOST, 2, "1", ENTRY.issue)
    ]
    assert classify.fixed(tonight, [seen, quiet], Baseline([ENTRY]), 3) == ()
    other_faults = _night([_ran(4, LOST.replace("kill", "none"))], name="3")
    assert classify.fixed(other_faults, [seen, quiet], Baseline(), 1) == ()
    assert [each.signature for each in classify.fixed(tonight, [seen, quiet], Baseline(), 2)] == ["set/lost/*/*"]
    back = _night([_ran(4, LOST)], name="3")
    assert classify.fixed(back, [seen, quiet], Baseline([ENTRY]), 1) == ()


@pytest.mark.parametrize(
    ("outcomes", "violated", "outcome"),
    [
        ({"pass": 1, "violation": 2}, True, Outcome.VIOLATION),
        ({"pass": 1, "violation": 2}, False, Outcome.PASS),
        ({"violation": 2}, False, Outcome.PASS),
        ({"pass": 9, "harness error": 1}, False, Outcome.HARNESS_ERROR),
        ({"violation": 1, "harness error": 1}, True, Outcome.VIOLATION),
        ({"pass": 1, "inconclusive": 9}, False, Outcome.PASS),
        ({"inconclusive": 9}, False, Outcome.INCONCLUSIVE),
        ({}, False, Outcome.INCONCLUSIVE),
    ],
)
def test_known_violations_do_not_decide_and_the_rest_is_as_of_a_hunt(
    outcomes: dict[str, int], violated: bool, outcome: Outcome
) -> None:
    assert outcome_of(outcomes, violated=violated) is outcome


# --- files ------------------------------------------------------------------------------------------------------------


def _cases(content: bytes) -> dict[str, ET.Element]:
    return {f"{case.get('classname')} {case.get('name')}": case for case in ET.fromstring(content).iter("testcase")}


def test_junit_has_a_failure_for_a_violation_an_error_for_what_broke_and_skips_with_reasons(tmp_path: Path) -> None:
    never = CELL.replace("kill", "pause")
    runs = [
        _ran(1, LOST),
        _ran(2, TWICE, run="store/run=2", report="store/run=2/report.html"),
        _ran(3, outcome="inconclusive", reason="no-fault", sentences=("no fault \x00 bit",)),
        _ran(4, outcome="harness error", error="n1 did not start", error_kind="deploy"),
        _ran(5),
        _ran(6, cell=never),
    ]
    night = _night(runs, [ENTRY], [Replayed(cell=CELL, seed=2, seen=True)])
    night = msgspec.structs.replace(night, not_reached=NotReached(impossible=(Impossible(never, "no such <fault>"),)))
    output.write(night, runs[:-1], tmp_path)
    content = (tmp_path / output.JUNIT).read_bytes()
    cases = _cases(content)
    [failure] = cases[f"{CELL} seed 2"].findall("failure")
    assert failure.get("type") == TWICE
    assert "5 <elements> & \\x1b[31m | were lost." in str(failure.get("message"))
    assert "splitbrain run --seed 2" in str(failure.text)
    properties = dict(
        line.split(": ") for line in str(cases[f"{CELL} seed 2"].findtext("system-out")).splitlines()[:-1]
    )
    assert properties["signature"] == TWICE
    assert properties["replay"] == "splitbrain replay store/run=2"
    assert properties["report"] == "store/run=2/report.html"
    assert properties["reproduced"] == "1 of 1"
    assert str(cases[f"{CELL} seed 1"].findall("skipped")[0].get("message")).startswith(f"known, {ENTRY.issue}")
    assert cases[f"{CELL} seed 3"].findall("skipped")[0].get("message") == "no-fault: no fault \\x00 bit"
    assert cases[f"{CELL} seed 4"].findall("error")[0].get("type") == "deploy"
    assert not list(cases[f"{CELL} seed 5"].iter("skipped"))
    assert cases[f"{never} not run"].findall("skipped")[0].get("message") == "no such <fault>"
    suites = ET.fromstring(content)
    assert {name: suites.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "6",
        "failures": "1",
        "errors": "1",
    }
    strict = msgspec.structs.replace(night, strict=True)
    output.write(strict, runs[:-1], tmp_path)
    assert ET.fromstring((tmp_path / output.JUNIT).read_bytes()).get("failures") == "2"


def test_summary_and_page_say_the_same_and_nothing_of_a_run_is_markup(tmp_path: Path) -> None:
    night = _night([_ran(1, LOST), _ran(2, TWICE)], [ENTRY], [Replayed(cell=CELL, seed=2, seen=False)])
    night = msgspec.structs.replace(night, not_reached=NotReached(marks=("leader isolated",), cells=("a/b",)))
    output.write(night, [], tmp_path)
    summary, page = (tmp_path / output.SUMMARY).read_text(), (tmp_path / output.PAGE).read_text()
    assert "0 new, 1 flaky, 1 known" in summary
    assert "0 new, 1 flaky, 1 known" in page
    assert "5 &lt;elements&gt; &amp; \\\\x1b\\[31m \\| were lost." in summary
    assert "<elements>" not in page
    for text in (summary, page):
        assert "leader isolated" in text
        assert "reproduced" in text
        assert "a/b" in text
        assert "\x1b" not in text
    assert nights.read(tmp_path) == night
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit.xml", "night.html", "night.json", "summary.md"]


def test_a_night_of_a_newer_version_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    assert nights.read(tmp_path) is None
    (tmp_path / nights.FILE).write_text('{"format": 99}')
    with pytest.raises(StoreVersionError, match=r"format 99.*upgrade splitbrain"):
        nights.read(tmp_path)
    (tmp_path / nights.FILE).write_text('{"format": ')
    with pytest.raises(HistoryFormatError, match="damaged"):
        nights.read(tmp_path)


# --- the journal ------------------------------------------------------------------------------------------------------


def test_a_journal_keeps_whole_lines_and_drops_the_one_that_was_cut_off(tmp_path: Path) -> None:
    entries: list[nights.Entry] = [
        Began(matrix="m", seed=1, began="2026-01-01T00:00:00+00:00"),
        _ran(1, LOST),
        Kept(cell=CELL, seed=1, run="r"),
    ]
    with Journal(tmp_path / FILE) as journal:
        for entry in entries:
            journal.append(entry)
        with pytest.raises(UsageError, match="under way in another process"):
            Journal(tmp_path / FILE)
    whole = (tmp_path / FILE).read_bytes()
    for cut in (1, 9, len(msgspec.json.encode(_ran(2)))):
        (tmp_path / FILE).write_bytes(whole + msgspec.json.encode(_ran(2))[:cut])
        assert read(tmp_path / FILE) == entries
    with Journal(tmp_path / FILE) as journal:
        journal.append(_ran(2))
        assert journal.of(Ran) == [entries[1], _ran(2)]
    assert read(tmp_path / FILE) == [*entries, _ran(2)]
    (tmp_path / FILE).write_bytes(b"{}\n" + whole)
    with pytest.raises(HistoryFormatError, match="line 1 is damaged"):
        read(tmp_path / FILE)
