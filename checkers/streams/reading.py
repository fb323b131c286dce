"""A history of streams: what was published, and what was seen at which offset.

A `publish` has the value, a whole number that is published to its stream once; it is answered with the offset, or with
null where the system does not say it. A `repeat` publishes such a value once more, and is answered likewise: the
message is in the stream once, at the offset that it had first. A `fetch` has the offset of the first message that is
wanted, and is answered by `{"values": [...], "end": 7}`: the values from that offset on without a gap, and the offset
behind the last message that the node knew to be there. `first` in it is the offset of the first value, where that is a
later one than was wanted: the node says that it has dropped what was before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from splitbrain.results.calls import OPEN, cell, client_calls
from splitbrain.results.errors import HistoryFormatError

NEVER = 2**62
"""Later than every row."""


class Fetched(msgspec.Struct, frozen=True):
    """The answer of a fetch."""

    values: list[int]
    end: int
    first: int | None = None


class Published(msgspec.Struct):
    """One message; times are rows.

    Attributes:
        stream: its name, None where ops have no key.
        value: what was published.
        begun, ended: of the op that published it; `ended` is NEVER if it was not acknowledged.
        offset: as the acknowledgement said it, None if it did not.
        failed: row at which the op failed for certain, NEVER if it did not.
    """

    stream: str | None
    value: int
    begun: int
    ended: int = NEVER
    offset: int | None = None
    failed: int = NEVER


class Repeat(msgspec.Struct, frozen=True):
    """A message that was published once more, or for the first time, and was acknowledged at this offset; a row."""

    stream: str | None
    value: int
    ended: int
    offset: int | None


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
        published: by stream and value, in the order of invocations.
        fetches: those that were answered, in the order of answers.
        repeats: those that were acknowledged.
        asked: nodes by stream that were asked by any fetch.
    """

    table: pa.Table
    published: dict[tuple[str | None, int], Published]
    fetches: list[Fetch]
    repeats: list[Repeat]
    asked: dict[str | None, set[str | None]]

    def seen(self) -> list[Seen]:
        """What was seen at which offset, in the order of answers."""
        acknowledged = (
            Seen(each.stream, each.offset, each.value, each.ended)
            for each in (*self.published.values(), *self.repeats)
            if each.ended != NEVER and each.offset is not None
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
    table = calls.table
    reading = Reading(table, {}, [], [], {})
    publishes, fetches, repeats = calls.are(publish), calls.are(fetch), calls.are(repeat)
    oks, fails = calls.ended("ok"), calls.ended("fail")
    for number in range(len(calls.invoke)):
        begun, ended = int(calls.invoke[number]), int(calls.complete[number])
        stream = cell(table, "key", begun)
        if publishes[number]:
            message = Published(stream, _whole(table, begun, cell(table, "value", begun)), begun)
            if (stream, message.value) in reading.published:
                raise HistoryFormatError("history", f"{_op(table, begun)} publishes a value to its stream again.")
            reading.published[stream, message.value] = message
            if oks[number]:
                message.ended = ended
                said = cell(table, "value", ended)
                message.offset = None if said is None else _whole(table, ended, said)
            elif fails[number]:
                message.failed = ended
        elif repeats[number]:
            if oks[number]:
                value, said = _whole(table, begun, cell(table, "value", begun)), cell(table, "value", ended)
                offset = None if said is None else _whole(table, ended, said)
                reading.repeats.append(Repeat(stream, value, ended, offset))
        elif fetches[number]:
            node = cell(table, "node", begun)
            reading.asked.setdefault(stream, set()).add(node)
            if oks[number] and ended != OPEN:
                wanted = _whole(table, begun, cell(table, "value", begun))
                found = _fetched(table, ended)
                first = wanted if found.first is None else found.first
                reading.fetches.append(Fetch(stream, node, begun, ended, wanted, first, found.values, found.end))
    reading.fetches.sort(key=lambda each: each.ended)
    return reading


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
