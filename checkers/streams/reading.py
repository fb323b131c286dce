"""A history of streams: what was published, and what was seen at which offset.

A `publish` has the value, a whole number that is published to its stream once; it is answered with the offset, or with
null where the system does not say it. A `repeat` publishes such a value once more, and is answered likewise: the
message is in the stream once, at the offset that it had first. It is there too if only a repeat published it.

A `fetch` has the offset of the first message that is wanted, and is answered by `{"values": [...], "end": 7}`: the
values from that offset on without a gap, and the offset behind the last message that the node knew to be there. `first`
in it is the offset of the first value, where that is a later one than was wanted: the node says that it has dropped
what was before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.results.calls import Calls, cell, client_calls
from splitbrain.results.errors import HistoryFormatError

NEVER = 2**62
"""Later than every row."""


class Fetched(msgspec.Struct, frozen=True):
    """The answer of a fetch."""

    values: list[int]
    end: int
    first: int | None = None


class Published(msgspec.Struct):
    """One message, or one op that published it; times are rows.

    Attributes:
        stream: its name, None where ops have no key.
        value: what was published.
        begun, ended: of the op that published it; `ended` is NEVER if it was not acknowledged. Of several ops the first
            beginning of one that may have published it, and the first acknowledgement.
        offset: as the acknowledgement said it, None if it did not.
        failed: row at which the op failed for certain, NEVER if it did not, or another op may have published it.
    """

    stream: str | None
    value: int
    begun: int
    ended: int = NEVER
    offset: int | None = None
    failed: int = NEVER


class Fetch(msgspec.Struct, frozen=True):
    """One answered fetch; times are rows.

    Attributes:
        stream: its name.
        node: that answered.
        begun, ended: of the op.
        wanted: the offset from which on it was asked for.
        first: offset of the first value.
        values: what was read.
        end: see the module.
    """

    stream: str | None
    node: str | None
    begun: int
    ended: int
    wanted: int
    first: int
    values: list[int]
    end: int


class Seen(msgspec.Struct, frozen=True):
    """A value at an offset, as the row says."""

    stream: str | None
    offset: int
    value: int
    row: int


class Reading(msgspec.Struct, frozen=True):
    """A history of streams.

    Attributes:
        table: the rows.
        published: messages by stream and value, in the order of invocations.
        acknowledged: ops that published one and were acknowledged, repeats behind the others.
        repeated: how many of them are repeats.
        fetches: those that were answered, in the order of answers.
        asked: nodes by stream that were asked by any fetch.
    """

    table: pa.Table
    published: dict[tuple[str | None, int], Published]
    acknowledged: list[Published]
    repeated: int
    fetches: list[Fetch]
    asked: dict[str | None, set[str | None]]

    def seen(self) -> list[Seen]:
        """What was seen at which offset, in the order of answers."""
        acknowledged = (
            Seen(each.stream, each.offset, each.value, each.ended)
            for each in self.acknowledged
            if each.offset is not None
        )
        return sorted([*acknowledged, *self._fetched()], key=lambda each: (each.row, each.offset))

    def _fetched(self) -> Iterator[Seen]:
        for fetch in self.fetches:
            for offset, value in enumerate(fetch.values, fetch.first):
                yield Seen(fetch.stream, offset, value, fetch.ended)


def read(history: pa.Table, publish: str, fetch: str, repeat: str = "repeat") -> Reading:
    """What a history says.

    Args:
        history: of clients.
        publish: name of the function.
        fetch: likewise.
        repeat: likewise.

    Raises:
        HistoryFormatError: a value or an answer makes no sense, or a value was published to one stream twice.
    """
    calls = client_calls(history)
    fetches, asked = _fetches(calls, fetch)
    first = {(each.stream, each.value): each for each in _publishes(calls, publish)}
    again = [each for each in _publishes(calls, repeat, once=False) if each.failed == NEVER]
    acknowledged = [each for each in (*first.values(), *again) if each.ended != NEVER]
    repeated = sum(each.ended != NEVER for each in again)
    return Reading(calls.table, _messages([*first.values(), *again]), acknowledged, repeated, fetches, asked)


def _publishes(calls: Calls, f: str, *, once: bool = True) -> Iterator[Published]:
    """The ops of a function that publishes, in the order of their invocations."""
    table, known = calls.table, set[tuple[str | None, int]]()
    oks, fails = calls.ended("ok"), calls.ended("fail")
    for number in np.flatnonzero(calls.are(f)).tolist():
        begun, ended = int(calls.invoke[number]), int(calls.complete[number])
        found = Published(cell(table, "key", begun), _whole(table, begun, cell(table, "value", begun)), begun)
        if once and (found.stream, found.value) in known:
            raise HistoryFormatError("history", f"{_op(table, begun)} publishes a value to its stream again.")
        known.add((found.stream, found.value))
        if oks[number]:
            said = cell(table, "value", ended)
            found.ended, found.offset = ended, None if said is None else _whole(table, ended, said)
        elif fails[number]:
            found.failed = ended
        yield found


def _messages(ops: Iterable[Published]) -> dict[tuple[str | None, int], Published]:
    """What became of each message, whichever of these ops published it."""
    found: dict[tuple[str | None, int], Published] = {}
    for op in sorted(ops, key=lambda each: each.begun):
        known = found.setdefault((op.stream, op.value), msgspec.structs.replace(op))
        if op.failed != NEVER:
            continue
        if known.failed != NEVER:
            known.begun, known.failed = op.begun, NEVER
        if op.ended < known.ended:
            known.ended = op.ended
        known.offset = op.offset if known.offset is None else known.offset
    return found


def _fetches(calls: Calls, f: str) -> tuple[list[Fetch], dict[str | None, set[str | None]]]:
    """The answered fetches, and the nodes that were asked, by stream."""
    table, fetches, asked = calls.table, list[Fetch](), dict[str | None, set[str | None]]()
    oks = calls.ended("ok")
    for number in np.flatnonzero(calls.are(f)).tolist():
        begun, ended = int(calls.invoke[number]), int(calls.complete[number])
        stream, node = cell(table, "key", begun), cell(table, "node", begun)
        asked.setdefault(stream, set()).add(node)
        if oks[number]:
            wanted = _whole(table, begun, cell(table, "value", begun))
            found = _fetched(table, ended)
            first = wanted if found.first is None else found.first
            fetches.append(Fetch(stream, node, begun, ended, wanted, first, found.values, found.end))
    return sorted(fetches, key=lambda each: each.ended), asked


def _fetched(table: pa.Table, row: int) -> Fetched:
    try:
        return msgspec.convert(cell(table, "value", row), Fetched)
    except msgspec.ValidationError as error:
        raise HistoryFormatError(
            "history", f"{_op(table, row)}: a fetch answers values and an end ({error})."
        ) from None


def _whole(table: pa.Table, row: int, said: Any) -> int:
    if isinstance(said, bool) or not isinstance(said, int):
        raise HistoryFormatError("history", f"{_op(table, row)}: {said!r} is no whole number.")
    return said


def _op(table: pa.Table, row: int) -> str:
    return f"op {table['index'][row].as_py()}"
