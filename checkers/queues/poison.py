"""Messages that kill their consumers: each is delivered as often as the queue allows, and is then a dead letter.

    unexpected   a message came out, or was a dead letter, that no client had put in by then, or whose put had failed
    beyond       a message was delivered more often than the delivery limit allows, or once it was a dead letter
    early        a dead letter had not been delivered as often as the limit allows
    reason       a dead letter is one for another reason than `delivery_limit`
    vanished     a message was in the queue, and neither a consumer is done with it, nor was it a dead letter

With a limit of N a message is given back N times, and so is delivered 1 + N times (`slack` more, if the system says
so); with the next failure it is a dead letter. A consumer that was given up may have been given one message that it
never reported: those that a dead letter lacks are charged to such consumers, one each. As a dead letter that was read
at some time needs consumers that had begun by then, the earliest are charged first: that decides exactly whether there
are enough (Hall's condition, for sets that contain each other). Before that the message had all deliveries that it may
have, reported or not: so one that begins behind it is beyond the limit.

A message that was delivered once too often, dead-lettered twice, or settled and then a dead letter, may be all right:
an acknowledgement may be lost, and a queue that promises dead letters at least once may publish one again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding, answer
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import OPEN, cell, client_calls, ints
from splitbrain.results.columns import array
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

DELIVERY_LIMIT: Final = "delivery_limit"

_MOST_SEVERE_FIRST: Final = ("vanished", "beyond", "early", "reason", "unexpected")
_NEVER: Final = 2**62


class Poison(OfOneRun):
    """Judges ops that put whole numbers into queues (`enqueue`), take from them (`consume`), and read dead letters.

    The key of an op names the queue, also of one that reads its dead letters (`collect`). A `consume` answers null or
    `{"value": 7, "died": true}`, where `died` says that the consumer ended without settling the message; a `collect`
    answers null or `{"value": 7, "reason": "delivery_limit"}`. Options: `limit` (required), `slack` (default 0),
    `settle_s` (default 0): how long before the last questions nothing more may have happened; and the functions' names.
    """

    name = "poison"
    partition: Partition = "run"
    counts_ops = True

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is wrong.
            HistoryFormatError: a value or an answer makes no sense, or a value was put into one queue twice.
        """
        rules = Rules.of(self.name, options)
        start = time.process_time()
        table = history.filter(array(ints(history, "process") >= 0)).combine_chunks()
        verdict = _Judge(table, read(table, rules), rules).verdict(self.name)
        return msgspec.structs.replace(verdict, seconds=round(time.process_time() - start, 6))


class Rules(msgspec.Struct, frozen=True):
    """What is judged, and by what.

    Attributes:
        limit: how often a message may be given back.
        slack: how many deliveries more the system allows.
        settle_s: for how long nothing may have happened before a queue is found empty for good.
        enqueue, consume, collect: names of the functions.
    """

    limit: int
    slack: int = 0
    settle_s: float = 0.0
    enqueue: str = "enqueue"
    consume: str = "consume"
    collect: str = "collect"

    @classmethod
    def of(cls, checker: str, options: Mapping[str, Any]) -> Rules:
        """As the options say.

        Raises:
            UsageError: one is wrong.
        """
        names = (by_key.function_option(checker, options, name) for name in ("enqueue", "consume", "collect"))
        limit, slack = _count(checker, options, "limit", None), _count(checker, options, "slack", 0)
        settle: Any = options.get("settle_s", 0)
        if isinstance(settle, bool) or not isinstance(settle, int | float) or not 0 <= settle < 86_400:
            raise UsageError(f"checker {checker}: option 'settle_s' must be a number of seconds, not {settle!r}.")
        return cls(limit, slack, float(settle), *names)

    @property
    def allowed(self) -> int:
        """How often a message is delivered before it is a dead letter."""
        return self.limit + 1


def _count(checker: str, options: Mapping[str, Any], name: str, default: int | None) -> int:
    value: Any = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"checker {checker}: option {name!r} must be a whole number from 0 on, not {value!r}.")
    return value


# --- the history ------------------------------------------------------------------------------------------------------


class Taken(msgspec.Struct, frozen=True):
    """The answer of a `consume`."""

    value: int
    died: bool = False


class Letter(msgspec.Struct, frozen=True):
    """The answer of a `collect`."""

    value: int
    reason: str | None = None


Answered = TypeVar("Answered", Taken, Letter)


class Fate(msgspec.Struct):
    """What became of one message; times are rows.

    Attributes:
        begun, acknowledged: of the op that put it in.
        failed: whether that op failed.
        deliveries: invocation and completion of each op that was given it, and whether its consumer died.
        letters: completion of each op that read it as a dead letter, and the reason.
    """

    begun: int = _NEVER
    acknowledged: int = _NEVER
    failed: bool = False
    deliveries: list[tuple[int, int, bool]] = []
    letters: list[tuple[int, str | None]] = []

    @property
    def is_settled(self) -> bool:
        """Whether a consumer was done with it."""
        return any(not died for _, _, died in self.deliveries)

    @property
    def read_at(self) -> int:
        """When it was first read as a dead letter of the delivery limit; `_NEVER` if it was not."""
        return min((row for row, reason in self.letters if reason == DELIVERY_LIMIT), default=_NEVER)

    def lacks(self, allowed: int) -> int:
        """How many deliveries are not known that must have been before it was a dead letter."""
        return allowed - sum(begun < self.read_at for begun, _, _ in self.deliveries)

    def certain(self, allowed: int) -> int:
        """How often it was delivered at least, with what is not known but must have been."""
        lacking = max(0, self.lacks(allowed)) if self.read_at != _NEVER else 0
        return len(self.deliveries) + lacking


class Queue(msgspec.Struct):
    """What happened to one queue.

    Attributes:
        fates: of its messages, by value.
        unknown: invocations of takes of unknown outcome, in order.
        changed: the last row at which something was put in, taken out, or may have been.
        emptied: by node the last invocation of a take that found it empty.
        letters_changed, letters_emptied: the same of its dead letters.
        letters_unsure: the last row at which a read of a dead letter ended whose outcome is unknown: it may have one.
        attempted: how many messages were put in.
    """

    fates: dict[int, Fate] = {}
    unknown: list[int] = []
    changed: int = -1
    emptied: dict[str | None, int] = {}
    letters_changed: int = -1
    letters_unsure: int = -1
    letters_emptied: dict[str | None, int] = {}
    attempted: int = 0

    def fate(self, value: int) -> Fate:
        """Of a message."""
        return self.fates.setdefault(value, Fate())


def read(table: pa.Table, rules: Rules) -> dict[str | None, Queue]:
    """The queues of a history, by name.

    Raises:
        HistoryFormatError: a value or an answer makes no sense, or a value was put into one queue twice.
    """
    calls = client_calls(table)
    queues: dict[str | None, Queue] = {}
    fs, keys, types, nodes = (table[name].to_pylist() for name in ("f", "key", "type", "node"))
    readers = {rules.enqueue: _put, rules.consume: _took, rules.collect: _collected}
    for begun, ended in zip(calls.invoke.tolist(), calls.complete.tolist(), strict=True):
        reader = readers.get(fs[begun])
        if reader is not None:
            how = "info" if ended == OPEN else types[ended]
            found = queues.setdefault(keys[begun], Queue())
            # A take that has not ended may be given something at any later time, and keep it.
            until = begun if reader is _put else table.num_rows - 1
            reader(found, table, begun, until if ended == OPEN else ended, how, nodes[begun])
    return queues


def _put(queue: Queue, table: pa.Table, begun: int, ended: int, how: str, _: str | None) -> None:
    value: Any = cell(table, "value", begun)
    if isinstance(value, bool) or not isinstance(value, int):
        raise HistoryFormatError("history", f"a value that is put into a queue must be a whole number, not {value!r}.")
    fate = queue.fate(value)
    if fate.begun != _NEVER:
        raise HistoryFormatError("history", f"value {value} was put into one queue twice.")
    queue.attempted += 1
    fate.begun, fate.failed = begun, how == "fail"
    if how == "ok":
        fate.acknowledged = ended
    if how != "fail":
        queue.changed = max(queue.changed, ended)


def _took(queue: Queue, table: pa.Table, begun: int, ended: int, how: str, node: str | None) -> None:
    if how == "info":
        queue.unknown.append(begun)
        queue.changed = max(queue.changed, ended)
    if how != "ok":
        return
    found = _decoded(table, ended, Taken)
    if found is None:
        queue.emptied[node] = max(begun, queue.emptied.get(node, -1))
    else:
        queue.fate(found.value).deliveries.append((begun, ended, found.died))
        queue.changed = max(queue.changed, ended)


def _collected(queue: Queue, table: pa.Table, begun: int, ended: int, how: str, node: str | None) -> None:
    found = _decoded(table, ended, Letter) if how == "ok" else None
    if found is not None:
        queue.fate(found.value).letters.append((ended, found.reason))
    if how == "info":
        queue.letters_unsure = max(queue.letters_unsure, ended)
    if found is not None or how == "info":
        queue.letters_changed = max(queue.letters_changed, ended)
    elif how == "ok":
        queue.letters_emptied[node] = max(begun, queue.letters_emptied.get(node, -1))


def _decoded(table: pa.Table, row: int, kind: type[Answered]) -> Answered | None:
    text: str | None = table["value"][row].as_py()
    try:
        return None if text is None else msgspec.json.decode(text, type=kind | None)
    except (msgspec.DecodeError, OverflowError) as error:
        index = table["index"][row].as_py()
        raise HistoryFormatError("history", f"op {index}: this is no answer of a queue ({error}).") from None


# --- the rules --------------------------------------------------------------------------------------------------------


class _Judge:
    """One run, in rows of its table: row order is real-time order."""

    def __init__(self, table: pa.Table, queues: Mapping[str | None, Queue], rules: Rules) -> None:
        self.table = table
        self.queues = queues
        self.rules = rules
        self.time = ints(table, "time")
        self.nodes = sorted({node for node in table["node"].to_pylist() if node is not None}) or [None]
        self.undrained = {name: why for name in queues for why in self._undrained(name)}

    def verdict(self, checker: str) -> Verdict:
        """What there is to say."""
        found = {
            name: list(rule)
            for name, rule in zip(
                _MOST_SEVERE_FIRST,
                (self._vanished(), self._beyond(), self._early(), self._reason(), self._unexpected()),
                strict=True,
            )
        }
        findings = [finding for each in found.values() for finding in each]
        figures = {**self._figures(), **{name: len(each) for name, each in found.items()}}
        reasons = self._too_little(figures)
        sentence = findings[0].sentence if findings else reasons[0].sentence if reasons else self._praise(figures)
        return Verdict(
            checker=checker,
            valid="false" if findings else "unknown" if reasons else "true",
            algorithm="counts of deliveries",
            sentence=sentence,
            anomalies=tuple(name for name in _MOST_SEVERE_FIRST if found[name]),
            inconclusive=tuple(reasons),
            evidence=by_key.evidence_of(self.table, findings),
            figures=figures,
        )

    def _each(self) -> Iterator[tuple[str | None, Queue, int, Fate]]:
        for name, queue in self.queues.items():
            for value, fate in queue.fates.items():
                yield name, queue, value, fate

    def _unexpected(self) -> Iterator[Finding]:
        for name, _, value, fate in self._each():
            seen = [*(ended for _, ended, _ in fate.deliveries), *(row for row, _ in fate.letters)]
            first = min(seen, default=None)
            if first is not None and (fate.failed or first < fate.begun):
                why = "although its put had failed" if fate.failed else "and no client had put it in"
                said = f"{_named(value, name)} came out at {answer(self.table, first)}"
                yield Finding("unexpected", f"Unexpected: {said}, {why}.", (first,))

    def _beyond(self) -> Iterator[Finding]:
        allowed = self.rules.allowed + self.rules.slack
        for name, _, value, fate in self._each():
            ends = sorted(ended for _, ended, _ in fate.deliveries)
            if not ends or fate.certain(self.rules.allowed) <= allowed:
                continue
            if len(ends) > allowed:
                first, how = ends[0], f"was delivered {len(ends)} times"
            else:
                first = fate.read_at
                how = f"was a dead letter at {answer(self.table, first)}, and was delivered again"
            yield Finding(
                "beyond",
                f"Beyond the limit: {_named(value, name)} {how}, the last time to {answer(self.table, ends[-1])}. A "
                f"delivery limit of {self.rules.limit} allows {allowed} deliveries.",
                (first, ends[-1]),
            )

    def _early(self) -> Iterator[Finding]:
        for name, queue in self.queues.items():
            lacking = [
                (fate.read_at, lacks, value)
                for value, fate in queue.fates.items()
                if fate.read_at != _NEVER and (lacks := fate.lacks(self.rules.allowed)) > 0
            ]
            charged = 0
            for read_at, lacks, value in sorted(lacking):
                unknown = sum(begun < read_at for begun in queue.unknown)
                charged += lacks
                if charged > unknown:
                    known = self.rules.allowed - lacks
                    yield Finding(
                        "early",
                        f"Early: {_named(value, name)} was a dead letter at {answer(self.table, read_at)}, and had "
                        f"been delivered {known} times. A delivery limit of {self.rules.limit} has it delivered "
                        f"{self.rules.allowed} times before, and {counted(unknown, 'consumer')} of unknown outcome "
                        f"cannot have had all that dead letters lack.",
                        (read_at,),
                    )
                    charged -= lacks  # the others are judged without it

    def _reason(self) -> Iterator[Finding]:
        for name, _, value, fate in self._each():
            for row, reason in fate.letters:
                if reason != DELIVERY_LIMIT:
                    said = f"{_named(value, name)} is a dead letter for the reason {reason!r}"
                    said += f", not {DELIVERY_LIMIT!r}, says {answer(self.table, row)}"
                    yield Finding("reason", f"Wrong reason: {said}.", (row,))

    def _vanished(self) -> Iterator[Finding]:
        for name, _, value, fate in self._each():
            was_there = fate.acknowledged != _NEVER or fate.deliveries
            if name in self.undrained or not was_there or fate.is_settled or fate.letters:
                continue
            rows = sorted(ended for _, ended, _ in fate.deliveries)
            last = rows[-1] if rows else fate.acknowledged
            how = f"was delivered {len(rows)} times, the last time to" if rows else "was acknowledged by"
            yield Finding(
                "vanished",
                f"Vanished: {_named(value, name)} {how} {answer(self.table, last)}. No consumer was done with it, it "
                "was no dead letter, and every node found queue and dead letters empty in the end.",
                (last,),
            )

    # --- what was tested --------------------------------------------------------------------------------------

    def _undrained(self, name: str | None) -> Iterator[Reason]:
        """Why it is not known that nothing is left of a queue; nothing where it is."""
        queue = self.queues[name]
        settle_ns = round(self.rules.settle_s * 1e9)
        last = max(queue.changed, queue.letters_changed)
        for what, emptied, changed, unsure in (
            ("queue", queue.emptied, queue.changed, queue.changed),
            ("the dead letters of queue", queue.letters_emptied, last, max(queue.changed, queue.letters_unsure)),
        ):
            due = int(self.time[unsure]) + settle_ns if unsure >= 0 else 0
            missing = [
                node for node in self.nodes if emptied.get(node, -1) <= changed or int(self.time[emptied[node]]) < due
            ]
            if missing:
                shown = ", ".join(str(node) for node in missing)
                yield Reason(
                    Code.NEVER_OK,
                    f"{shown} did not find {what} {name!r} empty in the end: what did not come out may be there.",
                )
                return

    def _figures(self) -> dict[str, Any]:
        fates = [fate for _, _, _, fate in self._each()]
        return {
            "queues": len(self.queues),
            "drained": len(self.queues) - len(self.undrained),
            "attempted": sum(queue.attempted for queue in self.queues.values()),
            "acknowledged": sum(fate.acknowledged != _NEVER for fate in fates),
            "delivered": sum(len(fate.deliveries) for fate in fates),
            "deaths": sum(died for fate in fates for _, _, died in fate.deliveries),
            "settled": sum(fate.is_settled for fate in fates),
            "dead_letters": sum(bool(fate.letters) for fate in fates),
            "letters_again": sum(max(0, len(fate.letters) - 1) for fate in fates),
            "unknown": sum(len(queue.unknown) for queue in self.queues.values()),
            "most_deliveries": max((len(fate.deliveries) for fate in fates), default=0),
        }

    def _too_little(self, figures: Mapping[str, Any]) -> list[Reason]:
        if not figures["acknowledged"]:
            return [Reason(Code.NEVER_OK, "No message was acknowledged: nothing could vanish.")]
        if not figures["deaths"]:
            return [Reason(Code.NO_OCCASION, "No consumer died of a message: delivery limits were not tested.")]
        found = list(self.undrained.values())
        if not figures["dead_letters"]:
            found.append(Reason(Code.READS_SAW_NOTHING, "No dead letter was read: what is given up was not tested."))
        return found

    def _praise(self, figures: Mapping[str, Any]) -> str:
        return (
            f"{counted(figures['deaths'], 'consumer')} died of what they were given, "
            f"{counted(figures['most_deliveries'], 'time')} at most of one message, as a delivery limit of "
            f"{self.rules.limit} allows: {counted(figures['dead_letters'], 'message')} came out as dead letters, and "
            f"{figures['settled']} were settled; none vanished."
        )


def _named(value: int, queue: str | None) -> str:
    return f"message {value}" + ("" if queue is None else f" of queue {queue!r}")
