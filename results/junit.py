"""A night as JUnit XML, as CI services read it: a suite for each cell, a test case for each run.

There is no standard; this keeps to the strictest schema that a CI service validates, that of Jenkins' xUnit plug-in
(junit-10.xsd), and to what GitLab and GitHub's actions read. A violation is a `failure`; what the system or the harness
could not do is an `error`, of type `deploy` or `harness`; an inconclusive run is `skipped` with its reason. A known
violation is `skipped` with its issue, unless known ones count.

The schema has `properties` of suites, and none of test cases: a file that has them is refused as a whole. So what there
is to say of a run is in its `system-out`, a line for each, with its report as an attachment (`[[ATTACHMENT|PATH]]`, as
GitLab and Jenkins' attachments plug-in read it); and the properties of the suite have the path of each report.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from xml.etree import ElementTree as ET

import msgspec

from splitbrain.results.nights import Night, Ran, Violation

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no way to write."""

_AXES: Final = ("workload", "nemesis", "system", "version", "backend", "bug")
"""The parts of a cell."""

NOT_RUN: Final = "not run"
"""The name of the test case of a cell without a run."""


def text(value: object) -> str:
    """A value as text that XML can hold."""
    return _NOT_XML.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), str(value))


def document(night: Night, runs: Sequence[Ran]) -> bytes:
    """The night as a file.

    Args:
        night: the night.
        runs: all of its runs.
    """
    violations = {(each.cell, each.seed): each for each in night.violations}
    looked_at: dict[tuple[str, str], str] = {}
    for each in night.violations:
        if each.report is not None:
            looked_at.setdefault((each.cell, each.signatures[0]), each.report)
    impossible = {each.cell: each.why for each in night.not_reached.impossible}
    by_cell: defaultdict[str, list[Ran]] = defaultdict(list)
    for run in runs:
        by_cell[run.cell].append(run)
    suites = ET.Element("testsuites", name=text(f"splitbrain nightly {night.name}"), time=_seconds(night.elapsed_s))
    for cell in night.cells:
        own = by_cell[cell.name]
        suite = ET.SubElement(suites, "testsuite", name=text(cell.name), time=_seconds(cell.seconds))
        suite.set("timestamp", night.began.partition(".")[0].partition("+")[0])
        suite.set("hostname", "splitbrain")
        properties = ET.SubElement(suite, "properties")
        for axis in _AXES:
            _property(properties, axis, getattr(cell, axis))
        for run in own:
            violation = violations.get((run.cell, run.seed))
            if violation is not None and violation.report is None:  # another run of its kind was kept
                kept = looked_at.get((run.cell, violation.signatures[0]))
                violation = msgspec.structs.replace(violation, report=kept)
            _case(suite, run, violation, strict=night.strict)
            report = run.report if violation is None else violation.report
            if report is not None:
                _property(properties, f"report seed {run.seed}", report)
        if not own:
            case = ET.SubElement(suite, "testcase", classname=text(cell.name), name=NOT_RUN, time="0")
            ET.SubElement(case, "skipped", message=text(impossible.get(cell.name, "the night did not reach this cell")))
    for each in (*suites, suites):
        _count(each)
    del suites.attrib["skipped"]  # the schema of Jenkins' xUnit plug-in has it for suites only
    ET.indent(suites)
    return ET.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n"


def _case(suite: ET.Element, run: Ran, violation: Violation | None, *, strict: bool) -> None:
    case = ET.SubElement(
        suite, "testcase", classname=text(run.cell), name=f"seed {run.seed}", time=_seconds(run.seconds)
    )
    if violation is not None:
        message = text(f"{violation.classification}: {violation.sentence}")
        if violation.classification == "known" and not strict:
            ET.SubElement(case, "skipped", message=text(f"known, {violation.issue}: {violation.sentence}"))
        else:
            found = ET.SubElement(case, "failure", type=text(violation.signatures[0]), message=message)
            found.text = text("\n".join(_failure_text(run, violation)))
    elif run.error is not None:
        found = ET.SubElement(case, "error", type=run.error_kind or "harness", message=text(run.error))
        found.text = text(f"{run.error}\nagain: {run.command}")
    elif run.outcome == "inconclusive":
        said = run.sentences[0] if run.sentences else "inconclusive"
        ET.SubElement(case, "skipped", message=text(f"{run.reason}: {said}" if run.reason else said))
    said_of = _of_run(run) if violation is None else _of_violation(violation)
    ET.SubElement(case, "system-out").text = text("\n".join(_lines(said_of)))


def _failure_text(run: Ran, violation: Violation) -> Iterable[str]:
    yield from run.sentences
    yield f"signature: {violation.signatures[0]}"
    yield f"again:     {violation.command}"
    yield f"replay:    {violation.replay}"
    if violation.smaller is not None and violation.smaller.replay is not None:
        yield f"smallest:  {violation.smaller.replay}"
    if violation.replays:
        yield f"replayed:  seen {violation.seen} of {violation.replays} times"
    if violation.expired:
        yield f"expired:   the entry for {violation.issue} ended on {violation.expires}"


def _of_run(run: Ran) -> Mapping[str, object]:
    return {"outcome": run.outcome, "seed": run.seed, "command": run.command, "report": run.report}


def _of_violation(found: Violation) -> Mapping[str, object]:
    return {
        "outcome": "violation",
        "classification": found.classification,
        "seed": found.seed,
        "signature": found.signatures[0],
        "signatures": " ".join(found.signatures),
        "command": found.command,
        "replay": found.replay,
        "report": found.report,
        "issue": found.issue or None,
        "reproduced": f"{found.seen} of {found.replays}" if found.replays else None,
        "smallest": None if found.smaller is None else found.smaller.replay,
    }


def _lines(named: Mapping[str, object]) -> Iterable[str]:
    """A line for each value that is known, and the report as an attachment."""
    yield from (f"{name}: {value}" for name, value in named.items() if value is not None)
    if named["report"] is not None:
        yield f"[[ATTACHMENT|{named['report']}]]"


def _property(properties: ET.Element, name: str, value: str) -> None:
    ET.SubElement(properties, "property", name=text(name), value=text(value))


def _count(element: ET.Element) -> None:
    """Set the counts of a suite, or of all."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(kind) is not None for case in cases)))


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"
