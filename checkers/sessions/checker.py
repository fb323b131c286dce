"""The checker `session`: what each session was promised of its own reads and writes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from splitbrain.checkers.sessions.evidence import Link, Links, links
from splitbrain.checkers.sessions.options import CAS, NAME, Options, is_read, options_of
from splitbrain.checkers.sessions.precedence import Order
from splitbrain.checkers.sessions.reading import AMBIGUOUS, NO_WRITE, Reading, read
from splitbrain.checkers.sessions.staleness import ages, in_words
from splitbrain.checkers.sessions.words import NAMES, Words, broken
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.checkers.weaker.calls import NOTHING
from splitbrain.results.arrow import client_ops
from splitbrain.results.calls import place
from splitbrain.results.columns import array, codes, numbers
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason
from splitbrain.results.values import canonical_json

LISTED: Final = 20
"""The largest number of findings in the evidence; figures count them all."""

THIN_AIR: Final = "thin-air-read"
ABORTED: Final = "aborted-read"


class Finding(msgspec.Struct, frozen=True):
    """One thing that cannot be: its names, in words, the rows that show it, and on what it rests."""

    anomalies: tuple[str, ...]
    sentence: str
    rows: tuple[int, ...]
    because: tuple[str, ...] = ()


class Sessions(OfOneRun):
    """Session guarantees (Terry and others 1994) of registers; its options are the fields of `Options`.

    monotonic-reads, read-your-writes, monotonic-writes, writes-follow-reads   no order of all writes fulfils it
    thin-air-read   a read returned what no op can have written by then
    aborted-read    a read returned what only a failed write had written (G1a of Adya)

    Exact, where each value is written once: false if and only if no order of all writes agrees with what sessions were
    promised, and with real time where that is evidence. Reads of a value that several ops may have written are left
    out; without a violation the verdict is then unknown. Near linear.
    """

    name = NAME
    partition: Partition = "run"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is wrong, or an op is none of a register's.
            HistoryFormatError: completions do not fit invocations.
        """
        began_s = time.thread_time()
        chosen = options_of(options)
        if chosen.only is not None:
            history = history.filter(pc.is_in(history["f"], array(list(chosen.only))))
        reading = read(history, chosen)
        found = links(reading, chosen)
        findings = [*_unwritten(reading), *_circles(reading, found, chosen)]
        findings.sort(key=lambda each: max(each.rows))
        old = ages(reading, chosen.fresh)
        figures = _figures(history, reading, found, findings) | {"staleness": msgspec.to_builtins(old)}
        seconds = round(time.thread_time() - began_s, 6)
        if findings:
            return self._false(reading, findings, figures, chosen, seconds)
        reason = _too_little(figures)
        sentence = " ".join(filter(None, [reason.sentence if reason else _praise(figures, chosen), in_words(old)]))
        return Verdict(
            checker=self.name,
            valid="unknown" if reason else "true",
            algorithm="order of writes",
            sentence=sentence,
            inconclusive=(reason,) if reason else (),
            figures=figures,
            seconds=seconds,
        )

    def _false(
        self, reading: Reading, findings: Sequence[Finding], figures: dict[str, Any], options: Options, seconds: float
    ) -> Verdict:
        first = findings[0]
        more = f" ({counted(len(findings) - 1, 'more finding')})" if len(findings) > 1 else ""
        index = reading.table["index"]
        return Verdict(
            checker=self.name,
            valid="false",
            algorithm="order of writes",
            sentence=f"{first.sentence}{more}",
            anomalies=tuple(dict.fromkeys(anomaly for finding in findings for anomaly in finding.anomalies)),
            evidence={
                "ops": [index[row].as_py() for row in first.rows],
                "because": list(first.because),
                "assumes": _assumes(options),
                "witness": [place(reading.table, row) for row in first.rows],
                "findings": [
                    {
                        "anomalies": list(finding.anomalies),
                        "ops": [index[row].as_py() for row in finding.rows],
                        "sentence": finding.sentence,
                    }
                    for finding in findings[:LISTED]
                ],
            },
            figures=figures,
            seconds=seconds,
        )


def _unwritten(reading: Reading) -> Iterable[Finding]:
    """Reads of what no op that may have happened had written by then."""
    ops = [op for op, source in enumerate(reading.source) if source == NO_WRITE]
    failed = _failed_writes(reading) if ops else {}
    words = Words(reading)
    for op in ops:
        row, key = reading.calls.end[op], reading.table["key"][reading.calls.begin[op]].as_py()
        at = failed.get((key, _seen(reading, op)))
        at = None if at is not None and at > row else at
        row = min(row, reading.table.num_rows - 1)
        yield Finding(
            (THIN_AIR if at is None else ABORTED,),
            words.unwritten(op, at),
            (row,) if at is None else tuple(sorted((at, row))),
        )


def _seen(reading: Reading, op: int) -> str:
    """What a read returned, as JSON text."""
    column, calls = reading.table["value"], reading.calls
    if reading.f[op] != CAS:
        return column[calls.end[op]].as_py() or "null"
    return canonical_json(msgspec.json.decode(column[calls.begin[op]].as_py())[0])


def _failed_writes(reading: Reading) -> dict[tuple[str | None, str], int]:
    """Rows of failed writes, each its invocation's, by key and value."""
    table = reading.table
    found: dict[tuple[str | None, str], int] = {}
    invoked: dict[int, int] = {}
    fs: list[str] = table["f"].to_pylist()  # pyright: ignore[reportAssignmentType]
    types, processes = codes(table["type"]), numbers(table["process"]).tolist()
    kinds = [types[1][code] for code in types[0].tolist()]
    for row, f in enumerate(fs):
        if is_read(f):
            continue
        if kinds[row] == "invoke":
            invoked[processes[row]] = row
        elif kinds[row] == "fail" and processes[row] in invoked:
            at = invoked[processes[row]]
            value = table["value"][at].as_py() or "null"
            if f == CAS:
                asked: Any = msgspec.json.decode(value)
                if not isinstance(asked, list) or len(cast("list[Any]", asked)) != 2:
                    continue  # no compare-and-set: it failed, and says nothing
                value = canonical_json(asked[1])
            found.setdefault((table["key"][at].as_py(), value), at)
    return found


def _circles(reading: Reading, found: Links, options: Options) -> Iterable[Finding]:
    order = Order(reading, found, real_time=options.linearizable_writes)
    words = Words(reading)
    for number in order.broken_at_first:
        yield _finding(words, [found.link(number)])
    for circle in order.circles():
        yield _finding(words, circle)


def _finding(words: Words, circle: Sequence[Link]) -> Finding:
    return Finding(
        tuple(NAMES[why] for why in broken(circle)),
        words.circle(circle),
        tuple(words.rows(circle)),
        tuple(words.link(link) for link in circle),
    )


def _figures(history: pa.Table, reading: Reading, found: Links, findings: Sequence[Finding]) -> dict[str, Any]:
    saw = [source for source in reading.source if source != NOTHING]
    by_name: dict[str, int] = {}
    for finding in findings:
        for anomaly in finding.anomalies:
            by_name[anomaly] = by_name.get(anomaly, 0) + 1
    return {
        "ops": client_ops(history),
        "sessions": reading.sessions,
        "writes": sum(value != NOTHING for value in reading.registers.leaves),
        "reads": len(saw),
        "ambiguous_reads": saw.count(AMBIGUOUS),
        "compared": found.compared,
        "findings": by_name,
    }


def _too_little(figures: Mapping[str, Any]) -> Reason | None:
    """Why a run without a finding proves nothing."""
    if figures["ambiguous_reads"]:
        return Reason(
            Code.UNDECIDED,
            f"Unknown: {figures['ambiguous_reads']} of {counted(figures['reads'], 'read')} returned a value that "
            "several ops may have written, so that it is not known which version they saw.",
            "Write each value of a key once.",
        )
    if not figures["reads"]:
        return Reason(
            Code.NO_OCCASION,
            "Unknown: no read was answered, so that no order of the writes was seen.",
            "Let each client read and write the same keys.",
        )
    if not figures["compared"]:
        return Reason(
            Code.NO_OCCASION,
            "Unknown: no session had two ops that a guarantee relates.",
            "Let each client read and write the same keys again and again, in a longer --time-limit.",
        )
    return None


def _praise(figures: Mapping[str, Any], options: Options) -> str:
    return (
        f"One order of {counted(figures['writes'], 'write')} fulfils what {counted(figures['sessions'], 'session')} "
        f"were promised, in {counted(figures['compared'], 'comparison')}; {_assumes(options)}."
    )


def _assumes(options: Options) -> str:
    if options.linearizable_writes:
        return "writes are taken for linearizable, so that their order in real time is evidence"
    return "only what sessions did is evidence of the order of writes"
