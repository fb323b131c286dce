"""What the runs of a store say of each cell of the matrix: found in how many, by which faults, beside which logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import findings_logs
import msgspec
import pyarrow as pa
from findings_matrix import CELLS, NO_FAULTS, NODES, TIME_LIMIT_S, WANTED, Cell

from splitbrain.results.errors import SplitbrainError
from splitbrain.results.faults import FaultOp, run_events
from splitbrain.results.findings import evident_ns
from splitbrain.results.judgement import Judgement
from splitbrain.results.nemesisop import own_fields
from splitbrain.results.quantities import counted as quantity
from splitbrain.results.store import RunDir, Store

DOCUMENTS: Final = Path(__file__).with_name("findings_documents.json")

_BEFORE_S: Final = 1.0
"""A node may log what a fault does before the harness has verified it."""

_ABOUT_THE_RUN: Final = frozenset({"stats", "coverage"})
"""Checkers that judge how much a run tested, and no promise of a system."""


class Documented(msgspec.Struct, frozen=True, kw_only=True):
    """What a vendor's document or source explains about a finding. A field that is empty fits all.

    Attributes:
        system, workloads, read_mode, store, strategy, checker: which findings it is about.
        after: functions of faults: one of them must have begun before the violation; empty if none has to.
        says: in our words.
        source: which document, or which source file.
    """

    system: str
    says: str
    source: str
    workloads: tuple[str, ...] = ()
    read_mode: str = ""
    store: str = ""
    strategy: str = ""
    checker: str = ""
    after: tuple[str, ...] = ()

    def fits(self, row: Row, found: Found) -> bool:
        """Whether it is about what was found there."""
        asked = {"system": row.system, "read_mode": row.read_mode, "checker": found.checker}
        asked |= {"store": row.store, "strategy": row.strategy}
        begun = {line[1] for line in found.schedule}
        of_it = all(getattr(self, name) in ("", value) for name, value in asked.items())
        of_it = of_it and (not self.workloads or row.workload in self.workloads)
        return of_it and (not self.after or not begun.isdisjoint(self.after))


class Found(msgspec.Struct, kw_only=True):
    """What one checker found in the runs of a cell.

    Attributes:
        checker, anomaly: which checker found it, and the name that it has for it.
        runs: in how many.
        sentence: of the run with the shortest schedule.
        at_s: when that violation was complete, in seconds of the run.
        seed: of that run.
        schedule: its faults until then, as `--schedule` reads them.
        shrunk: whether that run was made to try a shorter schedule.
        log: what nodes logged from the fault before the first op that shows it, until then.
        says, source: what explains it, and where the vendor says so; empty if nothing is known.
    """

    checker: str
    anomaly: str
    runs: int
    sentence: str
    at_s: float
    seed: int
    schedule: list[Any]
    shrunk: bool = False
    log: list[findings_logs.Line] = []
    says: str = ""
    source: str = ""


class Row(msgspec.Struct, kw_only=True):
    """What is known of one cell.

    Attributes:
        system, version, store, strategy, queues, read_mode, workload, settings, nemesis: what was tested.
        wanted: runs with faults that the matrix asks for.
        runs: those that are stored and judged.
        inconclusive: of them, those that tested too little.
        harness_errors: further runs in which the harness failed; they count for nothing.
        control: outcomes of the runs without faults.
        found: by checker; empty if no run with faults has a violation.
        faultless: checkers that name a violation without faults as well.
        state: "finding", "not yet", or "nothing found".
        why: why it is no finding yet.
    """

    system: str
    version: str = "?"
    store: str = ""
    strategy: str = ""
    queues: str = ""
    read_mode: str
    workload: str
    settings: dict[str, str]
    nemesis: str
    wanted: int
    runs: int = 0
    inconclusive: int = 0
    harness_errors: int = 0
    control: list[str] = []
    found: list[Found] = []
    faultless: list[str] = []
    state: str = "not yet"
    why: str = ""

    @property
    def decided(self) -> bool:
        """Whether enough runs have shown what there is."""
        return self.state != "not yet"


def row_is_of(row: Row, cell: Cell) -> bool:
    """Whether it says what is known of this cell."""
    return (row.system, row.workload, row.read_mode, row.settings, row.nemesis) == (
        *(cell.system, cell.workload, cell.read_mode),
        *(dict(cell.settings), cell.nemesis),
    )


def of_cell(document: Mapping[str, Any], cell: Cell, *, nemesis: str | None = None) -> bool:
    """Whether a run is one of this cell: the same test, load and backend, with these faults.

    Args:
        document: the run's test.json.
        cell: of the matrix.
        nemesis: the faults; None for a replay of a shorter schedule.
    """
    options = _options(document)
    settings = dict(word.split("=", 1) for word in str(options.get("settings") or "").split(",") if "=" in word)
    return (
        options.get("system") == cell.system
        and options.get("workload") == cell.workload
        and options.get("read_mode") == cell.read_mode
        and options.get("backend") == cell.backend
        and str(options.get("nodes")) == str(NODES)
        and (options.get("rate"), options.get("recovery")) == (cell.rate, cell.recovery)
        and options.get("time_limit") == TIME_LIMIT_S
        and settings == dict(cell.settings)
        and bool(options.get("schedule")) == (nemesis is None)
        and (nemesis is None or options.get("nemesis") == nemesis)
    )


class Stored(msgspec.Struct, frozen=True):
    """A judged run of the store."""

    run: RunDir
    document: dict[str, Any]
    judgement: Judgement

    @property
    def proves(self) -> bool:
        """Whether it tested enough: the harness did not fail, and the verdict is none that is inconclusive."""
        return self.judgement.outcome in ("pass", "violation")

    @property
    def violations(self) -> list[dict[str, Any]]:
        """The verdicts that name one."""
        return [
            verdict
            for verdict in self.judgement.verdicts
            if verdict["valid"] is False and verdict["checker"] not in _ABOUT_THE_RUN
        ]


def judged(store: Path) -> list[Stored]:
    """The judged runs of a store, the oldest first; one that cannot be read is left out."""
    found: list[Stored] = []
    for run in Store(store).folders():
        try:
            verdict = run.read_verdicts()
            if verdict is not None:
                found.append(Stored(run, run.read_test(), verdict))
        except SplitbrainError:
            continue
    return sorted(found, key=lambda each: str(each.document.get("start")))


def rows(store: Path, cells: Sequence[Cell] = CELLS, documents: Iterable[Documented] | None = None) -> list[Row]:
    """What the store says of each cell of which it has a run with faults."""
    known = list(documented() if documents is None else documents)
    stored = judged(store)
    return [row for cell in cells for row in [row_of(cell, stored, known)] if row is not None]


def documented() -> list[Documented]:
    """The table of what is known from vendors."""
    return msgspec.json.decode(DOCUMENTS.read_bytes(), type=list[Documented])


def row_of(cell: Cell, stored: Sequence[Stored], documents: Sequence[Documented]) -> Row | None:
    """What is known of a cell; None if no run of it with faults is stored."""
    faulty = [each for each in stored if of_cell(each.document, cell, nemesis=cell.nemesis)]
    control = [each for each in stored if of_cell(each.document, cell, nemesis=NO_FAULTS)]
    shorter = [each for each in stored if of_cell(each.document, cell)]
    if not faulty:
        return None
    settings = dict(cell.settings)
    counted = [each for each in faulty if each.judgement.outcome != "harness error"]
    row = Row(
        system=cell.system,
        version=next((found for each in [*counted, *control] if (found := version_of(each))), "?"),
        store=settings.get("store", ""),
        strategy=settings.get("partition-handling", ""),
        queues=settings.get("queue-type", ""),
        read_mode=cell.read_mode,
        workload=cell.workload,
        settings=settings,
        nemesis=cell.nemesis,
        wanted=cell.runs,
        runs=len(counted),
        inconclusive=sum(each.judgement.outcome == "inconclusive" for each in counted),
        harness_errors=len(faulty) - len(counted),
        control=[each.judgement.outcome for each in control],
        faultless=sorted({verdict["checker"] for each in control for verdict in each.violations}),
    )
    row.found = list(_found(row, counted, [*shorter, *control], documents))
    row.state, row.why = _state(row, counted, control)
    return row


def _found(
    row: Row, counted: Sequence[Stored], fewer: Sequence[Stored], documents: Sequence[Documented]
) -> Iterator[Found]:
    """What checkers found in runs with faults; of each the run is shown that needed the fewest, or none at all."""
    names = dict.fromkeys(verdict["checker"] for each in counted for verdict in each.violations)
    for checker in names:
        own = [each for each in counted if any(verdict["checker"] == checker for verdict in each.violations)]
        shown = [_shown(row.system, each, checker, shrunk=False) for each in own]
        shown += [
            _shown(row.system, each, checker, shrunk=True)
            for each in fewer
            if any(verdict["checker"] == checker for verdict in each.violations)
        ]
        best = min(shown, key=lambda found: (len(found.schedule), found.at_s))
        best.runs = len(own)
        about = next((each for each in documents if each.fits(row, best)), None)
        if about is not None:
            best.says, best.source = about.says, about.source
        yield best


def _state(row: Row, counted: Sequence[Stored], control: Sequence[Stored]) -> tuple[str, str]:
    needed = f"at least {WANTED} are needed"
    if len(counted) < WANTED:
        return "not yet", f"there {_are(len(counted), 'run')} with faults, and {needed}"
    if not any(each.proves for each in control):
        return "not yet", "no run without faults has tested enough"
    if row.found or row.faultless:
        return "finding", ""
    enough = sum(each.proves for each in counted)
    if enough < WANTED:
        return "not yet", f"there {_are(enough, 'run')} with faults that tested enough, and {needed}"
    return "nothing found", ""


def _are(count: int, what: str) -> str:
    return f"{'is' if count == 1 else 'are'} {quantity(count, what)}"


def _options(document: Mapping[str, Any]) -> dict[str, Any]:
    options: Any = document.get("options") or {}
    return options


def complete_ns(history: pa.Table, evidence: Any) -> int | None:
    """When the violation was complete that the sentence of a verdict names: after the last op that shows it."""
    ops: Any = evidence.get("ops") if isinstance(evidence, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(ops, list) and ops:
        times = history["time"]
        return max(int(times[index].as_py()) for index in cast("list[int]", ops))
    return evident_ns(history, evidence)


def first_ns(history: pa.Table, evidence: Any) -> int | None:
    """When the first op was complete that shows the violation; None if the evidence names none."""
    ops: Any = evidence.get("ops") if isinstance(evidence, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not (isinstance(ops, list) and ops):
        return None
    return min(int(history["time"][index].as_py()) for index in cast("list[int]", ops))


def version_of(stored: Stored) -> str | None:
    """The version of the system, as the first node's log names it."""
    system = str(_options(stored.document).get("system"))
    nodes = stored.document.get("nodes") or ["n1"]
    return findings_logs.version_in(system, findings_logs.lines_of(stored.run.node_dir(nodes[0]) / findings_logs.LOG))


def _shown(system: str, stored: Stored, checker: str, *, shrunk: bool) -> Found:
    """What is shown of a run: the violation that this checker named, the faults before it, and the logs beside them."""
    verdict = next(each for each in stored.violations if each["checker"] == checker)
    history = stored.run.history()
    events = run_events(history)
    at_ns = complete_ns(history, verdict["evidence"])
    until_ns = events.end_ns if at_ns is None else at_ns
    before = [op for op in events.fault_ops if op.invoke.time <= until_ns]
    anomalies = verdict.get("anomalies") or ["violation"]
    return Found(
        checker=checker,
        anomaly=str(anomalies[0]),
        runs=0,
        sentence=str(verdict["sentence"]),
        at_s=round(until_ns / 1e9, 3),
        seed=int(stored.document["seed"]),
        schedule=[line_of(op) for op in before],
        shrunk=shrunk,
        log=_log(system, stored, before, first_ns(history, verdict["evidence"]) or until_ns, until_ns),
    )


def line_of(op: FaultOp) -> list[Any]:
    """A fault as `--schedule` reads it."""
    fields = own_fields(op.invoke.value)
    return [round(op.invoke.time / 1e9, 2), op.invoke.f, *([fields] if fields else [])]


def _log(
    system: str, stored: Stored, before: Sequence[FaultOp], shown_ns: int, until_ns: int
) -> list[findings_logs.Line]:
    """From the last fault that began before the first op that shows the violation, or else before its last one; from
    shortly before that op where there was no fault.
    """
    starts = [op.invoke.time for op in before if op.said.action == "start"]
    earlier = [start for start in starts if start <= shown_ns] or starts[:1]
    from_s = (earlier[-1] if earlier else shown_ns) / 1e9 - _BEFORE_S
    nodes: list[str] = stored.document.get("nodes") or []
    logs = {node: list(findings_logs.lines_of(stored.run.node_dir(node) / findings_logs.LOG)) for node in nodes}
    return findings_logs.beside(
        system,
        logs,
        began_s=int(stored.document.get("began_wall_ns", 0)) / 1e9,
        from_s=from_s,
        until_s=until_ns / 1e9,
        addresses=findings_logs.addresses(logs),
    )


def shorter_schedule(stored: Stored) -> list[list[Any]] | None:
    """The last fault that began before the first violation of a run, and its end: what else may be left out.

    Returns:
        Lines for `--schedule`; None if the run has no violation, or no more faults than that before it, or if that
        fault began as the faults phase ended. What only that end healed has no end in here: the next run heals it then
        as well.
    """
    if not stored.violations:
        return None
    history = stored.run.history()
    at_ns = complete_ns(history, stored.violations[0]["evidence"])
    ops = run_events(history).fault_ops
    before = [op for op in ops if at_ns is None or op.invoke.time <= at_ns]
    start = next((op for op in reversed(before) if op.said.action == "start" and op.hit), None)
    if start is None or len(before) <= 2:
        return None
    stop = next(
        (
            op
            for op in ops
            if op.said.action == "stop" and op.fault == start.fault and op.invoke.time > start.invoke.time
        ),
        None,
    )
    lines = [line_of(op) for op in (start, stop) if op is not None]
    return [line for line in lines if line[0] < TIME_LIMIT_S] or None
