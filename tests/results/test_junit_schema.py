"""The JUnit file of a night keeps to the schema that Jenkins' xUnit plug-in validates, and parsers find the reports.

The rules are those of junit-10.xsd (jenkinsci/xunit-plugin, MIT), which refuses a file as a whole: which elements and
which attributes an element may have, which it must have, and how seconds are written. Other readers are looser: those
of GitLab (`Gitlab::Ci::Parsers::Test::Junit`) and of GitHub's actions (dorny/test-reporter,
mikepenz/action-junit-report) read the same elements, and take no notice of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import msgspec
import pytest

from splitbrain.results import junit
from splitbrain.results.nights import Impossible, Night, NotReached, Ran, Shrunk, Violation
from tests.results.nightsupport import night_document

CELL = "register/kill/metadata/default/sim/none"
NEVER = "set/partition/metadata/default/sim/none"
SECONDS = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")
REPORT = "store/test=register/run=2/report.html"


class Rule(NamedTuple):
    """What an element may hold, and which attributes it must and may have."""

    children: frozenset[str]
    needed: frozenset[str]
    allowed: frozenset[str]


def _rule(children: str = "", needed: str = "", allowed: str = "") -> Rule:
    must = frozenset(needed.split())
    return Rule(frozenset(children.split()), must, must | frozenset(allowed.split()))


JUNIT_10 = {
    "testsuites": _rule("testsuite", "", "name time tests failures errors"),
    "testsuite": _rule(
        "testsuite properties testcase system-out system-err",
        "name tests failures errors",
        "group time skipped timestamp hostname id package file log url",
    ),
    "testcase": _rule(
        "skipped error failure rerunFailure rerunError flakyFailure flakyError system-out system-err",
        "name",
        "time classname group",
    ),
    "properties": _rule("property"),
    "property": _rule("", "name value"),
    "failure": _rule("", "", "type message"),
    "error": _rule("", "", "type message"),
    "skipped": _rule("", "", "type message"),
    "system-out": _rule(),
    "system-err": _rule(),
}


def breaches(element: ET.Element) -> Iterator[str]:
    """What the schema refuses in an element, and in what is in it."""
    rule = JUNIT_10[element.tag]
    yield from (f"{element.tag} in no way has {name}" for name in sorted(set(element.keys()) - rule.allowed))
    yield from (f"{element.tag} lacks {name}" for name in sorted(rule.needed - set(element.keys())))
    if element.tag in ("testsuites", "testsuite") and not SECONDS.fullmatch(element.get("time", "")):
        yield f"{element.tag} takes {element.get('time')!r}"
    for child in element:
        if child.tag not in rule.children:
            yield f"{child.tag} below {element.tag}"
        yield from breaches(child)


def _ran(seed: int, outcome: str, **more: object) -> Ran:
    made = {"cell": CELL, "seed": seed, "why": "fresh", "outcome": outcome, "command": f"splitbrain run --seed {seed}"}
    return msgspec.convert({**made, **more}, Ran)


def _runs() -> list[Ran]:
    return [
        _ran(1, "pass", seconds=1234567.5),
        _ran(2, "violation", signatures=["set/lost/-/kill"], sentences=["lost."], report=REPORT, run="store/run=2"),
        _ran(3, "violation", signatures=["set/lost/-/kill"], sentences=["lost."]),
        _ran(4, "inconclusive", reason="no-fault", sentences=["no fault bit."]),
        _ran(5, "harness error", error="n1 did not start", error_kind="deploy"),
        _ran(6, "violation", signatures=["set/twice/-/kill"], sentences=["twice."]),
    ]


def _night(runs: list[Ran], *, strict: bool = False) -> Night:
    rows = [{"cell": cell, "outcome": run.outcome} for cell in (CELL, NEVER) for run in runs if run.cell == cell]
    found = night_document("n", [*rows, {"cell": NEVER, "outcome": "pass"}])
    shrunk = Shrunk(cell=CELL, seed=2, plan="p", replay="splitbrain replay p")
    failed = [run for run in runs if run.outcome == "violation"]
    violations = [
        Violation(
            cell=run.cell,
            seed=run.seed,
            classification="known" if run.seed == 6 else "new",
            signatures=run.signatures,
            sentence=run.sentences[0],
            command=run.command,
            replay=run.command,
            replays=3,
            seen=3,
            run=run.run,
            report=run.report,
            issue="#1" if run.seed == 6 else "",
            expires=date(2026, 5, 1).isoformat(),
            smaller=shrunk if run.seed == 2 else None,
        )
        for run in failed
    ]
    never = NotReached(impossible=(Impossible(NEVER, "no such nemesis"),))
    return msgspec.structs.replace(found, violations=tuple(violations), not_reached=never, strict=strict)


@pytest.mark.parametrize("strict", [False, True])
def test_the_file_keeps_to_the_schema_of_jenkins_xunit_plug_in(strict: bool) -> None:
    runs = _runs()
    root = ET.fromstring(junit.document(_night(runs, strict=strict), runs))
    assert len(list(root.iter("testcase"))) == 7
    assert list(breaches(root)) == []


def test_the_rules_find_what_they_are_for() -> None:
    wrong = (
        '<testsuites skipped="1" time="2 s"><testsuite name="a" time="1"><testcase><properties/></testcase>'
        "</testsuite></testsuites>"
    )
    assert list(breaches(ET.fromstring(wrong))) == [
        "testsuites in no way has skipped",
        "testsuites takes '2 s'",
        "testsuite lacks errors",
        "testsuite lacks failures",
        "testsuite lacks tests",
        "testcase lacks name",
        "properties below testcase",
    ]


def test_a_report_is_among_the_properties_of_its_suite_and_attached_to_its_case_as_gitlab_reads_it() -> None:
    """So is the report of the run that stands for others of the same signature."""
    runs = _runs()
    root = ET.fromstring(junit.document(_night(runs), runs))
    suite = next(each for each in root if each.get("name") == CELL)
    properties = {each.get("name"): each.get("value") for each in suite.findall("properties/property")}
    assert properties["report seed 2"] == properties["report seed 3"] == REPORT
    assert properties["nemesis"] == "kill"
    assert "report seed 1" not in properties
    said = {str(case.get("name")): case.findtext("system-out") or "" for case in suite.iter("testcase")}
    attached = {name: re.findall(r"\[\[ATTACHMENT\|(.+?)\]\]", text) for name, text in said.items()}
    assert attached["seed 2"] == [REPORT]
    assert attached["seed 1"] == []
    assert "smallest: splitbrain replay p" in said["seed 2"].splitlines()
    assert "signature: set/lost/-/kill" in said["seed 3"].splitlines()
    assert "command: splitbrain run --seed 1" in said["seed 1"].splitlines()


def test_the_path_of_a_report_is_text_that_xml_can_hold(tmp_path: Path) -> None:
    runs = [_ran(2, "harness error", error="x", error_kind="harness", report="a\x00&<b>")]
    root = ET.fromstring(junit.document(_night(runs), runs))
    assert {"report seed 2": "a\\x00&<b>"}.items() <= {
        str(each.get("name")): each.get("value") for each in root.iter("property")
    }.items()
