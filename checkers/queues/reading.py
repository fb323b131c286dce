"""A history of queues as columns: one element for every value that was put in, and one for every delivery.

The op of a put has the value, a whole number that is put into its queue once. The answer of a take is a value, null
where the queue was empty, or an object where the system says that it has delivered the value before: `{"value": 7,
"redelivered": true}`. There, `"held": 3` says that the client acknowledges the value only when it begins an op and has
been given three more to hold since. The answer of a drain is a list of such, which is empty where the queue was.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitbrain.results.calls import OPEN, Bools, Calls, Ints, ints
from splitbrain.results.columns import array, codes, flags, numbers, ranked, valid
from splitbrain.results.columns import text as literal
from splitbrain.results.errors import HistoryFormatError

NEVER: Final = np.iinfo(np.int64).max
"""Later than every row."""


Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What fits into a column of whole numbers."""


class Redelivered(msgspec.Struct, frozen=True):
    """A value that the system says it has delivered before."""

    value: Whole
    redelivered: bool = True
    held: Whole | None = None


Delivered: TypeAlias = Whole | Redelivered

_LISTS: Final[msgspec.json.Decoder[list[Delivered]]] = msgspec.json.Decoder(list[Delivered])
_ONE: Final = msgspec.json.Decoder(Redelivered)


class Functions(msgspec.Struct, frozen=True):
    """The names of the functions in the history."""

    enqueue: str = "enqueue"
    dequeue: str = "dequeue"
    drain: str = "drain"


class Items(msgspec.Struct, frozen=True):
    """Every value of every queue that was put in or delivered; its number is its place here. Times are rows.

    Attributes:
        queue: the number of its queue.
        value: the value.
        begun: invocation of the op that put it in; NEVER if there is none.
        acknowledged: completion of that op, if it was ok; NEVER otherwise.
        failed: whether the op failed, so that it certainly did not put it in.
        publisher: process of the op; -1 if there is none.
    """

    queue: Ints
    value: Ints
    begun: Ints
    acknowledged: Ints
    failed: Bools
    publisher: Ints


class Deliveries(msgspec.Struct, frozen=True):
    """Every value that a client was given, in the order of the invocations of the ops.

    Attributes:
        item: which one.
        begin, end: rows of invocation and completion of the op that took it.
        place: in the answer of that op, from 0.
        flagged: whether the system said that it had delivered it before.
        held: how many the client is given to hold before it acknowledges it, -1 if it does so at once.
    """

    item: Ints
    begin: Ints
    end: Ints
    place: Ints
    flagged: Bools
    held: Ints


class Reading(msgspec.Struct, frozen=True):
    """A history of queues.

    Attributes:
        calls: all ops on queues.
        queues: names of the queues, None for ops without a key.
        queue: of each op the number of its queue.
        puts, drains: which ops put a value in, and which are drains.
        empty: which ops are drains that found their queue empty.
        items: what was put in or delivered.
        deliveries: what came out.
    """

    calls: Calls
    queues: list[str | None]
    queue: Ints
    puts: Bools
    drains: Bools
    empty: Bools
    items: Items
    deliveries: Deliveries


def read(calls: Calls, functions: Functions) -> Reading:
    """The columns of a history.

    Raises:
        HistoryFormatError: a value is no whole number, or was put into one queue twice.
    """
    of_row, queues = codes(calls.table["key"])
    queue = of_row[calls.invoke].astype(np.int64)
    puts, takes, drains = (calls.are(f) for f in (functions.enqueue, functions.dequeue, functions.drain))
    put_value = _whole(calls.table, calls.invoke[puts])
    single = _single(calls, np.flatnonzero(takes & calls.ended("ok")))
    many, empty = _listed(calls, np.flatnonzero(drains & calls.ended("ok")))
    columns = [np.concatenate(pair) for pair in zip(single, many, strict=True)]
    order = np.lexsort((columns[2], columns[0]))
    call, value, place, flagged, held = (column[order] for column in columns)

    every_queue, every_value = np.concatenate([queue[puts], queue[call]]), np.concatenate([put_value, value])
    names, number = ranked(every_value)
    together, item = ranked(every_queue * max(1, len(names)) + number)
    items = _items(calls, np.flatnonzero(puts), item[: len(put_value)].astype(np.int64), together, names)
    deliveries = Deliveries(
        item[len(put_value) :].astype(np.int64),
        calls.invoke[call],
        calls.complete[call],
        place,
        flagged.astype(bool),
        held,
    )
    is_empty = np.zeros(len(calls.invoke), np.bool_)
    is_empty[empty] = True
    return Reading(calls, queues, queue, puts, drains, is_empty, items, deliveries)


def _items(calls: Calls, puts: Ints, item: Ints, together: npt.NDArray[Any], names: npt.NDArray[Any]) -> Items:
    count = len(together)
    if len(item):
        times = np.bincount(item, minlength=count)
        if times.max() > 1:
            first, second = calls.invoke[puts[np.flatnonzero(item == int(times.argmax()))[:2]]].tolist()
            index = ints(calls.table, "index")
            raise HistoryFormatError(
                "history",
                f"ops {index[first]} and {index[second]} put the same value into one queue: each value "
                "must be put in once, or what comes out cannot be attributed.",
            )
    begun, acknowledged = np.full(count, NEVER), np.full(count, NEVER)
    failed, publisher = np.zeros(count, np.bool_), np.full(count, -1)
    begun[item] = calls.invoke[puts]
    ok = calls.ended("ok")[puts]
    acknowledged[item[ok]] = calls.complete[puts[ok]]
    failed[item] = calls.ended("fail")[puts]
    publisher[item] = numbers(calls.table["process"]).astype(np.int64)[calls.invoke[puts]]
    width = max(1, len(names))
    queue, value = together // width, names[together % width] if len(names) else together
    return Items(queue.astype(np.int64), value.astype(np.int64), begun, acknowledged, failed, publisher)


def _whole(table: pa.Table, rows: Ints) -> Ints:
    try:
        return numbers(table["value"].take(array(rows)).cast(pa.int64())).astype(np.int64, copy=False)
    except (pa.ArrowInvalid, ValueError) as error:
        raise HistoryFormatError(
            "history", f"a value that is put into a queue must be a whole number ({error})."
        ) from None


_Columns: TypeAlias = tuple[Ints, Ints, Ints, Ints, Ints]
"""Of deliveries: op, value, place in the answer, 1 where it is said to be delivered again, and how it is held."""


def _single(calls: Calls, chosen: Ints) -> _Columns:
    """What single takes were given."""
    column = calls.table["value"].take(array(calls.complete[chosen]))
    there = valid(column) & ~flags(pc.equal(column, literal("null")))
    chosen, column = chosen[there], column.filter(array(there))
    again = flags(pc.starts_with(column, "{"))
    value, held = np.zeros(len(chosen), np.int64), np.full(len(chosen), -1)
    try:
        value[~again] = numbers(column.filter(array(~again)).cast(pa.int64()))
        for at in np.flatnonzero(again).tolist():
            found = _ONE.decode(column[at].as_py())
            value[at], again[at], held[at] = found.value, found.redelivered, _held(found)
    except (pa.ArrowInvalid, msgspec.DecodeError, ValueError, OverflowError) as error:
        raise HistoryFormatError(
            "history", f"a take from a queue answers a whole number, null, or a value delivered again ({error})."
        ) from None
    return chosen, value, np.zeros(len(chosen), np.int64), again.astype(np.int64), held


def _listed(calls: Calls, chosen: Ints) -> tuple[_Columns, Ints]:
    """What drains were given, and which of them found the queue empty."""
    call, value, place, again, held = (list[int]() for _ in range(5))
    empty: list[int] = []
    texts = calls.table["value"].take(array(calls.complete[chosen])).to_pylist()
    for number, text in zip(chosen.tolist(), texts, strict=True):
        try:
            listed = _LISTS.decode(text or "null")
        except (msgspec.DecodeError, OverflowError) as error:
            index = calls.table["index"][int(calls.complete[number])].as_py()
            raise HistoryFormatError(
                "history", f"op {index}: a drain of a queue answers a list of values ({error})."
            ) from None
        if not listed:
            empty.append(number)
        call += [number] * len(listed)
        value += [each if isinstance(each, int) else each.value for each in listed]
        place += range(len(listed))
        again += [0 if isinstance(each, int) else int(each.redelivered) for each in listed]
        held += [-1 if isinstance(each, int) else _held(each) for each in listed]
    columns = tuple(np.array(column, np.int64) for column in (call, value, place, again, held))
    return (columns[0], columns[1], columns[2], columns[3], columns[4]), np.array(empty, np.int64)


def _held(found: Redelivered) -> int:
    return -1 if found.held is None else found.held


def last_row(calls: Calls, call: Ints) -> Ints:
    """The row at which each op ended; that of its invocation if it never did."""
    ended = calls.complete[call]
    return np.where(ended == OPEN, calls.invoke[call], ended)
