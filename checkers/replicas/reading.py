"""A history of maintained replicas: what was seen of each queue, and which nodes were drained and revived."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.results.calls import OPEN, client_calls
from splitbrain.results.errors import HistoryFormatError

NEVER: Final = 2**62


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A change of members, as the system says it.

    Attributes:
        number: 1 for the first of the queue.
        kind: "grow" or "shrink".
        member: who joins or leaves.
        by: "automation" or "operator".
        outcome: "done", another word, or None while it is under way.
    """

    number: int
    kind: str
    member: str
    by: str
    outcome: str | None = None

    @property
    def node(self) -> str:
        """Of the member."""
        return self.member.partition("#")[0]


class Seen(msgspec.Struct, frozen=True):
    """The answer of a look.

    Attributes:
        members: of the queue.
        cluster: members of the cluster.
        last: the number of the change that began last.
        change: the one that is under way.
        changes: some that have ended, in their order.
    """

    members: tuple[str, ...]
    cluster: tuple[str, ...]
    last: int
    change: Change | None = None
    changes: tuple[Change, ...] = ()

    @property
    def named(self) -> tuple[Change, ...]:
        """All changes that it names."""
        return self.changes if self.change is None else (*self.changes, self.change)


class Look(msgspec.Struct, frozen=True):
    """A look that was answered; `begun` and `ended` are rows."""

    begun: int
    ended: int
    seen: Seen


class Put(msgspec.Struct, frozen=True):
    """A message that was put into a queue, or was to be, by a client; `begun` and `ended` are rows."""

    begun: int
    ended: int
    process: int
    is_ok: bool


class Drained(msgspec.Struct, frozen=True):
    """A node that was drained, or revived: rows of the op, and whether it certainly happened.

    Without an answer that says so it has no end (`NEVER`).
    """

    node: str
    begun: int
    ended: int
    is_certain: bool
    may_be: bool


class Reading(msgspec.Struct, frozen=True):
    """What a history says.

    Attributes:
        looks: by queue, in the order in which they began.
        drains, revivals: in the order in which they began.
        attempts: how many looks there were.
        puts: by queue, those that have an end.
    """

    looks: dict[str | None, list[Look]]
    drains: list[Drained]
    revivals: list[Drained]
    attempts: int
    puts: dict[str | None, list[Put]]


def read(table: pa.Table) -> Reading:
    """A history of clients.

    Raises:
        HistoryFormatError: an answer is none of a look.
    """
    calls = client_calls(table)
    fs, keys, types, values = (table[name].to_pylist() for name in ("f", "key", "type", "value"))
    processes = table["process"].to_pylist()
    found = Reading({}, [], [], int(calls.are("look").sum()), {})
    for begun, ended in zip(calls.invoke.tolist(), calls.complete.tolist(), strict=True):
        how = "info" if ended == OPEN else types[ended]
        if fs[begun] == "look" and how == "ok":
            look = Look(begun, ended, _seen(values[ended], table, ended))
            found.looks.setdefault(keys[begun], []).append(look)
        elif fs[begun] == "enqueue" and ended != OPEN:
            put = Put(begun, ended, processes[begun], how == "ok")
            found.puts.setdefault(keys[begun], []).append(put)
        elif fs[begun] in ("drain", "revive"):
            into = found.drains if fs[begun] == "drain" else found.revivals
            node: Any = msgspec.json.decode(values[begun] or "null")
            # What timed out may still happen, at any time.
            into.append(Drained(str(node), begun, NEVER if how == "info" else ended, how == "ok", how != "fail"))
    return found


def _seen(text: str | None, table: pa.Table, row: int) -> Seen:
    try:
        return msgspec.json.decode(text or "null", type=Seen)
    except (msgspec.DecodeError, OverflowError) as error:
        index = table["index"][row].as_py()
        raise HistoryFormatError("history", f"op {index}: this is no answer of a look at replicas ({error}).") from None
