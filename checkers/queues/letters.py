"""What became of each message of a queue that has dead letters, from a history."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Protocol, Self, TypeVar, cast

import msgspec
import pyarrow as pa

from splitbrain.checkers.durations import DAY_S, refuse_others
from splitbrain.results.calls import OPEN, cell, client_calls, ints
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.reasons import Code, Reason

NEVER: Final = 2**62
"""Later than every row."""

ACKNOWLEDGED, REJECTED, RETURNED = "ack", "reject", "return"


class Rules(msgspec.Struct, frozen=True):
    """The rules of a run, from a checker's options.

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
    def of(cls, checker: str, options: Mapping[str, Any]) -> Self:
        """As the options say.

        Raises:
            UsageError: one is wrong.
        """
        refuse_others(checker, options, ("settle_s",), most=DAY_S)
        try:
            rules = msgspec.convert({"limit": None, **options}, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"checker {checker}: its options make no sense: {error}.") from None
        if rules.limit < 0 or rules.slack < 0:
            raise UsageError(f"checker {checker}: 'limit' and 'slack' must be 0 or more.")
        return rules

    @property
    def allowed(self) -> int:
        """How often a message is delivered before it is a dead letter."""
        return self.limit + 1


class Taken(Protocol):
    """What the answer of a `consume` says, in the words of a checker."""

    @property
    def value(self) -> int:
        """Of the message."""
        ...

    @property
    def did(self) -> str:
        """What became of it: `ACKNOWLEDGED`, `REJECTED` or `RETURNED`."""
        ...


class Letter(msgspec.Struct, frozen=True):
    """The answer of a `collect`."""

    value: int
    reason: str | None = None


Answered = TypeVar("Answered")


class Delivery(msgspec.Struct, frozen=True):
    """One delivery of a message; times are rows.

    Attributes:
        begun, ended: invocation and completion of the op that was given it.
        did: what its consumer did.
    """

    begun: int
    ended: int
    did: str


class Fate(msgspec.Struct):
    """What became of one message; times are rows.

    Attributes:
        begun, acknowledged: of the op that put it in.
        failed: whether that op failed.
        deliveries: in the order of their ends.
        letters: completion of each op that read it as a dead letter, and the reason; in their order.
    """

    begun: int = NEVER
    acknowledged: int = NEVER
    failed: bool = False
    deliveries: list[Delivery] = []
    letters: list[tuple[int, str | None]] = []

    def did(self, what: str) -> bool:
        """Whether a consumer did that with it."""
        return any(each.did == what for each in self.deliveries)

    def begun_before(self, row: int) -> int:
        """How many of its deliveries began before that row."""
        return sum(each.begun < row for each in self.deliveries)

    @property
    def first_letter(self) -> int:
        """When it was first read as a dead letter; `NEVER` if it was not."""
        return min((row for row, _ in self.letters), default=NEVER)

    @property
    def limit_letter(self) -> int:
        """The same of one for the delivery limit."""
        return min((row for row, reason in self.letters if reason == "delivery_limit"), default=NEVER)


class Queue(msgspec.Struct):
    """What happened to one queue.

    Attributes:
        fates: of its messages, by value.
        unknown: invocations of takes of unknown outcome, in order.
        changed: the last row at which something was put in, taken out, or may have been.
        emptied: by node the last invocation of a take that found it empty.
        found_empty: invocation and completion of each such take.
        letters_changed, letters_emptied: the same of its dead letters.
        letters_unsure: the last row at which a read of a dead letter ended whose outcome is unknown: it may have one.
        attempted: how many messages were put in.
    """

    fates: dict[int, Fate] = {}
    unknown: list[int] = []
    changed: int = -1
    emptied: dict[str | None, int] = {}
    found_empty: list[tuple[int, int]] = []
    letters_changed: int = -1
    letters_emptied: dict[str | None, int] = {}
    letters_unsure: int = -1
    attempted: int = 0

    def fate(self, value: int) -> Fate:
        """Of a message."""
        return self.fates.setdefault(value, Fate())


def named(value: int, queue: str | None) -> str:
    """A message in words."""
    return f"message {value}" + ("" if queue is None else f" of queue {queue!r}")


def read(table: pa.Table, rules: Rules, taken: type[Taken]) -> dict[str | None, Queue]:
    """The queues of a history of client ops, by name.

    Args:
        table: of client ops.
        rules: name the functions.
        taken: a msgspec struct, the shape of what a `consume` answers.

    Raises:
        HistoryFormatError: a value or an answer makes no sense, or a value was put into one queue twice.
    """
    calls = client_calls(table)
    queues: dict[str | None, Queue] = {}
    fs, keys, types, nodes = (table[name].to_pylist() for name in ("f", "key", "type", "node"))
    readers = {rules.enqueue: _put, rules.consume: partial(_took, taken=taken), rules.collect: _collected}
    for begun, ended in zip(calls.invoke.tolist(), calls.complete.tolist(), strict=True):
        reader = readers.get(fs[begun])
        if reader is not None:
            how = "info" if ended == OPEN else types[ended]
            found = queues.setdefault(keys[begun], Queue())
            # A take that has not ended may be given something at any later time, and keep it.
            until = begun if fs[begun] == rules.enqueue else table.num_rows - 1
            reader(found, table, begun, until if ended == OPEN else ended, how, nodes[begun])
    for queue in queues.values():
        for fate in queue.fates.values():
            fate.deliveries.sort(key=lambda each: each.ended)
            fate.letters.sort(key=lambda each: each[0])
    return queues


def _put(queue: Queue, table: pa.Table, begun: int, ended: int, how: str, _: str | None) -> None:
    value: Any = cell(table, "value", begun)
    if isinstance(value, bool) or not isinstance(value, int):
        raise HistoryFormatError("history", f"a value that is put into a queue must be a whole number, not {value!r}.")
    fate = queue.fate(value)
    if fate.begun != NEVER:
        raise HistoryFormatError("history", f"value {value} was put into one queue twice.")
    queue.attempted += 1
    fate.begun, fate.failed = begun, how == "fail"
    if how == "ok":
        fate.acknowledged = ended
    if how != "fail":
        queue.changed = max(queue.changed, ended)


def _took(
    queue: Queue, table: pa.Table, begun: int, ended: int, how: str, node: str | None, *, taken: type[Taken]
) -> None:
    if how == "info":
        queue.unknown.append(begun)
        queue.changed = max(queue.changed, ended)
    if how != "ok":
        return
    found = _decoded(table, ended, taken)
    if found is None:
        queue.emptied[node] = max(begun, queue.emptied.get(node, -1))
        queue.found_empty.append((begun, ended))
    else:
        queue.fate(found.value).deliveries.append(Delivery(begun, ended, found.did))
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
    text = cast("str | None", table["value"][row].as_py())
    try:
        return None if text is None else msgspec.json.decode(text, type=kind | None)
    except (msgspec.DecodeError, OverflowError) as error:
        index = table["index"][row].as_py()
        raise HistoryFormatError("history", f"op {index}: this is no answer of a queue ({error}).") from None


def undrained(table: pa.Table, queues: Mapping[str | None, Queue], rules: Rules) -> dict[str | None, Reason]:
    """Why it is not known that nothing is left of a queue, by its name; without those of which it is known.

    What is in a queue may become a dead letter at any time, where messages expire. So what dead letters there are is
    known only where they were asked for once the queue was empty.
    """
    times = ints(table, "time")
    nodes = sorted({node for node in table["node"].to_pylist() if node is not None}) or [None]
    settle_ns = round(rules.settle_s * 1e9)

    def due(row: int) -> int:
        return int(times[row]) + settle_ns if row >= 0 else 0

    found: dict[str | None, Reason] = {}
    for name, queue in queues.items():
        from_ns = due(queue.changed)
        empty = (end for begun, end in queue.found_empty if begun > queue.changed and int(times[begun]) >= from_ns)
        first_empty = min(empty, default=-1)
        last = max(queue.changed, queue.letters_changed, first_empty)
        unsure = max(queue.changed, queue.letters_unsure, first_empty)
        for what, emptied, changed, settled_ns in (
            ("queue", queue.emptied, queue.changed, from_ns),
            ("the dead letters of queue", queue.letters_emptied, last, due(unsure)),
        ):
            asked = {node: emptied.get(node, -1) for node in nodes}
            missing = [node for node, row in asked.items() if row <= changed or int(times[row]) < settled_ns]
            if missing and name not in found:
                shown = ", ".join(str(node) for node in missing)
                found[name] = Reason(
                    Code.NEVER_OK,
                    f"{shown} did not find {what} {name!r} empty in the end: what did not come out may be there.",
                )
    return found
