"""Streams: acknowledged messages stay where they are, for all readers, in the order in which they were published.

    lost         a message was acknowledged, and is nowhere in the log as nodes read it in the end; or a node says that
                 it has dropped what was before an offset, and streams are to keep all
    changed      two answers name two messages for one offset: answers of readers, or acknowledgements
    duplicated   one message is at two offsets
    order        a message stands before one that was acknowledged before it was published
    unexpected   a message was read that no client had published by then, or whose publishing had certainly failed

All rules are about what is at which offset, as answers say. A node may lag: what it does not have yet is not wrong, and
only what it gives is judged. So loss is judged in the end only, where nodes are asked until they have all.

`order` holds in real time, for all publishers of a stream, which contains the order of each one: an acknowledged
message is committed, and what is published later comes behind it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding, answer, evidence_of, moment
from splitbrain.checkers.streams.reading import NEVER, Fetch, Published, Reading, Seen, read
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import ints
from splitbrain.results.columns import array
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

_MOST_SEVERE_FIRST: Final = ("lost", "changed", "duplicated", "order", "unexpected")
_ALGORITHM: Final = "offsets"


class StreamChecker(OfOneRun):
    """Judges ops that publish values to streams (`publish`, `repeat`), and that read from an offset on (`fetch`).

    The key of an op names the stream. Values and answers: see `splitbrain.checkers.streams.reading`. Options:
    `publish`, `fetch` and `repeat`, the functions' names; `drops`, whether nodes may drop the beginnings of streams
    (false). Then what they say is gone is not lost.
    """

    name = "stream"
    partition: Partition = "run"
    counts_ops = True

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return tuple(by_key.function_option(self.name, options, name) for name in ("publish", "fetch", "repeat"))

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is wrong.
            HistoryFormatError: a value or an answer makes no sense, or a value was published to one stream twice.
        """
        names = [by_key.function_option(self.name, options, name) for name in ("publish", "fetch", "repeat")]
        drops: Any = options.get("drops", False)
        if not isinstance(drops, bool):
            raise UsageError(f"checker {self.name}: option 'drops' must be true or false, not {drops!r}.")
        start = time.process_time()
        table = history.filter(array(ints(history, "process") >= 0)).combine_chunks()
        verdict = _Judge(read(table, *names), drops).verdict(self.name)
        return msgspec.structs.replace(verdict, seconds=round(time.process_time() - start, 6))


class _Judge:
    """One run, in rows of its table: row order is real-time order."""

    def __init__(self, reading: Reading, drops: bool) -> None:
        self.reading = reading
        self.drops = drops
        self.dropped = [each for each in reading.fetches if each.first > each.wanted]
        self.table = reading.table
        self.seen = reading.seen()
        self.at: dict[tuple[str | None, int], Seen] = {}  # by stream and offset, the first sight
        self.where: dict[tuple[str | None, int], Seen] = {}  # by stream and value, likewise
        for each in self.seen:
            self.at.setdefault((each.stream, each.offset), each)
            self.where.setdefault((each.stream, each.value), each)
        self.read = {(each.stream, value) for each in reading.fetches for value in each.values}
        self.published: dict[str | None, list[Published]] = {}  # by stream
        for each in reading.published.values():
            self.published.setdefault(each.stream, []).append(each)
        self.streams = list(self.published)
        self.ends: dict[str | None, int] = {}  # by stream, the offset behind all that was seen
        for each in self.seen:
            self.ends[each.stream] = max(each.offset + 1, self.ends.get(each.stream, 0))
        self.late = self._late()
        self.behind = self._behind()
        self.unread = {stream: reason for stream in self.streams if (reason := self._unread(stream)) is not None}

    def verdict(self, checker: str) -> Verdict:
        """What there is to say."""
        rules = (self._lost, self._changed, self._duplicated, self._order, self._unexpected)
        findings = {name: list(rule()) for name, rule in zip(_MOST_SEVERE_FIRST, rules, strict=True)}
        leading = [found[0] for found in findings.values() if found]
        shown = [*leading, *(each for found in findings.values() for each in found[1 : by_key.LISTED])]
        figures = self._figures()
        reasons = self._too_little(figures)
        sentence = leading[0].sentence if leading else reasons[0].sentence if reasons else self._praise(figures)
        return Verdict(
            checker=checker,
            valid="false" if leading else "unknown" if reasons else "true",
            algorithm=_ALGORITHM,
            sentence=sentence,
            anomalies=tuple(name for name, found in findings.items() if found),
            inconclusive=tuple(reasons),
            evidence=evidence_of(self.table, shown),
            figures={**figures, **{name: len(found) for name, found in findings.items()}},
        )

    # --- rules ------------------------------------------------------------------------------------------------

    def _lost(self) -> Iterator[Finding]:
        for each in () if self.drops else self.dropped:
            yield Finding(
                "lost",
                f"Lost: {each.node} has messages of {_stream(each.stream)} from offset {each.first} on only, says "
                f"{answer(self.table, each.ended)}, which wanted them from {each.wanted} on.",
                (each.ended,),
            )
        shortened = {each.stream for each in self.dropped}
        for each in self.reading.published.values():
            is_known = (each.stream, each.value) in self.read
            if each.ended == NEVER or is_known or each.stream in self.unread or each.stream in shortened:
                continue
            if each.offset is not None or self._may_be_behind(each):
                continue  # one with an offset is there, or another one in its place: `changed`
            yield Finding(
                "lost",
                f"Lost: {self._named(each)} was acknowledged by {answer(self.table, each.ended)}, and is nowhere in "
                "the log as every node read it in the end.",
                (each.ended,),
            )

    def _changed(self) -> Iterator[Finding]:
        for each in self.seen:
            first = self.at[each.stream, each.offset]
            if first.value == each.value:
                continue
            yield Finding(
                "changed",
                f"Changed: at offset {each.offset} of {_stream(each.stream)} is {first.value} by "
                f"{answer(self.table, first.row)}, and {each.value} by {answer(self.table, each.row)}.",
                _rows(first.row, each.row),
            )

    def _duplicated(self) -> Iterator[Finding]:
        for each in self.seen:
            first = self.where[each.stream, each.value]
            if first.offset == each.offset:
                continue
            yield Finding(
                "duplicated",
                f"Duplicated: {each.value} of {_stream(each.stream)} is at offset {first.offset} by "
                f"{answer(self.table, first.row)}, and at {each.offset} by {answer(self.table, each.row)}.",
                _rows(first.row, each.row),
            )

    def _order(self) -> Iterator[Finding]:
        for stream in self.streams:
            own = self.published[stream]
            placed = [(each, self.where[stream, each.value]) for each in own if (stream, each.value) in self.where]
            acknowledged = sorted((pair for pair in placed if pair[0].ended != NEVER), key=lambda pair: pair[0].ended)
            furthest: tuple[Published, Seen] | None = None
            at = 0
            for later, its in sorted(placed, key=lambda pair: pair[0].begun):
                while at < len(acknowledged) and acknowledged[at][0].ended < later.begun:
                    if furthest is None or acknowledged[at][1].offset > furthest[1].offset:
                        furthest = acknowledged[at]
                    at += 1
                if furthest is not None and its.offset < furthest[1].offset:
                    yield self._out_of_order(furthest, later, its)

    def _out_of_order(self, first: tuple[Published, Seen], later: Published, its: Seen) -> Finding:
        before, at = first
        return Finding(
            "order",
            f"Out of order: {self._named(before)} was acknowledged by {answer(self.table, before.ended)}, before "
            f"{later.value} was published at {moment(self.table, later.begun)}, but {later.value} is at offset "
            f"{its.offset} (by {answer(self.table, its.row)}), and {before.value} behind it, at {at.offset} (by "
            f"{answer(self.table, at.row)}).",
            _rows(before.ended, later.begun, its.row, at.row),
        )

    def _unexpected(self) -> Iterator[Finding]:
        for (stream, value), first in self.where.items():
            message = self.reading.published.get((stream, value))
            said = f"Unexpected: {value} of {_stream(stream)} was read by {answer(self.table, first.row)}"
            if message is None:
                yield Finding("unexpected", f"{said}, and no client published it.", (first.row,))
            elif first.row < message.begun:
                when = moment(self.table, message.begun)
                yield Finding(
                    "unexpected", f"{said}, before it was published at {when}.", _rows(first.row, message.begun)
                )
            elif message.failed != NEVER:
                refused = answer(self.table, message.failed)
                yield Finding(
                    "unexpected",
                    f"{said}, although {refused} certainly did not publish it.",
                    _rows(first.row, message.failed),
                )

    # --- what was read in the end -----------------------------------------------------------------------------

    def _late(self) -> dict[str | None, list[Fetch]]:
        """By stream the fetches that began after its last message was acknowledged."""
        last: dict[str | None, int] = {}
        for each in self.reading.published.values():
            if each.ended != NEVER:
                last[each.stream] = max(each.ended, last.get(each.stream, -1))
        late: dict[str | None, list[Fetch]] = {stream: [] for stream in last}
        for fetch in self.reading.fetches:
            if fetch.begun > last.get(fetch.stream, NEVER):
                late[fetch.stream].append(fetch)
        return late

    def _behind(self) -> dict[str | None, tuple[int, Fetch]]:
        """By stream of which a node knew more in the end than any gave: when the newest that was read was published."""
        found: dict[str | None, tuple[int, Fetch]] = {}
        for stream, late in self.late.items():
            most = max(late, key=lambda each: each.end, default=None)
            if most is not None and most.end > self.ends.get(stream, 0):
                read = (each.begun for each in self.published[stream] if (stream, each.value) in self.read)
                found[stream] = max(read, default=-1), most
        return found

    def _may_be_behind(self, message: Published) -> bool:
        """Whether an acknowledged message may be behind all that was read: no later one was read, and there is more."""
        return message.stream in self.behind and self.behind[message.stream][0] < message.ended

    def _unread(self, stream: str | None) -> Reason | None:
        """Why it is not known what is in a stream in the end; None if each node that was asked read it whole."""
        if stream not in self.late:
            return None
        late: dict[str | None, list[Fetch]] = {}
        for fetch in self.late[stream]:
            late.setdefault(fetch.node, []).append(fetch)
        asked = self.reading.asked.get(stream, set())
        if not asked:
            said = f"No node was asked for {_stream(stream)}: nothing could be missing."
            return Reason(Code.NOT_EXERCISED, said)
        end = self.ends.get(stream, 0)
        missing = sorted(str(node) for node in asked if _covered(late.get(node, [])) < max(end, 1))
        if not missing:
            return None
        last = max(each.ended for each in self.published[stream] if each.ended != NEVER)
        return Reason(
            Code.NEVER_OK,
            f"{', '.join(missing)} did not give {_stream(stream)} up to offset {end} when asked after "
            f"{moment(self.table, last)}, when the last message was acknowledged: what is not given may be there.",
        )

    def _ungiven(self) -> Iterator[Reason]:
        """Streams that were read whole, as far as is known, while a node knew of more that may be what is missing."""
        for stream, (_, most) in self.behind.items():
            own = (each for each in self.published[stream] if each.ended != NEVER and each.offset is None)
            missing = [each for each in own if (stream, each.value) not in self.read and self._may_be_behind(each)]
            if missing and stream not in self.unread:
                yield Reason(
                    Code.NEVER_OK,
                    f"No node gave what is behind offset {self.ends.get(stream, 0)} of {_stream(stream)}, although "
                    f"{answer(self.table, most.ended)} knew of messages up to {most.end}: {missing[0].value} may be "
                    "there.",
                )

    # --- words ------------------------------------------------------------------------------------------------

    def _named(self, message: Published) -> str:
        return f"{message.value} of {_stream(message.stream)}"

    def _figures(self) -> dict[str, Any]:
        published = self.reading.published.values()
        acknowledged = [each for each in published if each.ended != NEVER]
        return {
            "streams": len(self.streams),
            "attempted": len(published),
            "acknowledged": len(acknowledged),
            "failed": sum(each.failed != NEVER for each in published),
            "unknown": sum(each.ended == each.failed == NEVER for each in published),
            "repeated": self.reading.repeated,
            "read": len(self.read),
            "unread": sum((each.stream, each.value) not in self.read for each in acknowledged),
            "dropped": len(self.dropped),
            "nodes": len({node for nodes in self.reading.asked.values() for node in nodes}),
        }

    def _too_little(self, figures: Mapping[str, Any]) -> list[Reason]:
        """What was not tested."""
        if not figures["attempted"]:
            return [Reason(Code.NOT_EXERCISED, "Nothing was published to a stream: nothing could be lost.")]
        if not figures["acknowledged"]:
            count = counted(figures["attempted"], "message")
            return [Reason(Code.NEVER_OK, f"None of {count} was acknowledged: nothing could be lost.")]
        found = [*self.unread.values(), *self._ungiven()]
        if not figures["read"]:
            found.append(Reason(Code.READS_SAW_NOTHING, "No message was read: what readers see was not tested."))
        return found

    def _praise(self, figures: Mapping[str, Any]) -> str:
        streams, nodes = counted(figures["streams"], "stream"), counted(figures["nodes"], "node")
        return (
            f"Nothing was lost: all of {counted(figures['acknowledged'], 'acknowledged message')} of {streams} stand "
            f"where they were acknowledged, once and in order, as {nodes} read them in the end."
        )


def _covered(fetches: Sequence[Fetch]) -> int:
    """The offset up to which these gave everything from the first message on, or from the first that there still is."""
    covered = 0
    for fetch in sorted(fetches, key=lambda each: each.wanted):
        if fetch.wanted <= covered:
            covered = max(covered, fetch.first + len(fetch.values))
    return covered


def _stream(name: str | None) -> str:
    return "the stream" if name is None else f"stream {name!r}"


def _rows(*rows: int) -> tuple[int, ...]:
    return tuple(sorted(dict.fromkeys(rows)))
