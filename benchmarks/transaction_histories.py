"""Histories of a small database that clients use at the same time: simulated, seeded, and fast.

Each client is idle, in a transaction, or about to be answered; at each step a random client goes on. The database keeps
a list of committed appends for each key (a register has the last of them), at one of three levels:

    serial    a transaction takes effect at one moment between its invocation and its answer
    snapshot  it reads what was committed when it began, and aborts if a key that it writes was written since (snapshot
              isolation: write skew is possible)
    none      each micro-operation takes effect by itself, and failed transactions are not undone
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.results.arrow import HISTORY_SCHEMA, MOPS, PLAIN_MOPS
from splitbrain.results.listreads import with_summaries

LEVELS: Final = {"serial": 0, "snapshot": 1, "none": 2}
_arrow: Any = pa
_schema: Any = HISTORY_SCHEMA


@dataclass(frozen=True)
class Shape:
    """What clients do.

    Attributes:
        transactions: how many.
        clients: how many at the same time.
        keys: how many are in use at the same time.
        writes: to a key before another one takes its place.
        length: the largest number of micro-operations of a transaction.
        level: of the database.
        registers: whether keys are registers, each written only after it was read in the same transaction.
        seed: of the random choices.
    """

    transactions: int
    clients: int = 10
    keys: int = 10
    writes: int = 32
    length: int = 4
    level: str = "serial"
    registers: bool = False
    seed: int = 1


class _World(NamedTuple):
    random: Any
    lists: Any
    committed: Any
    slot_key: Any
    assigned: Any
    phase: Any
    at: Any
    size: Any
    outcome: Any
    kind: Any
    slot: Any
    key: Any
    value: Any
    found: Any
    snapshot: Any
    clash: Any


class _Rows(NamedTuple):
    process: Any
    type: Any
    start: Any
    kind: Any
    key: Any
    value: Any
    begin: Any
    length: Any
    elements: Any
    counts: Any


def history(shape: Shape) -> pa.Table:
    """The history as a table of the schema."""
    total, widest = shape.transactions, shape.length + (shape.length if shape.registers else 0)
    keys = shape.keys + 2 * total * widest // shape.writes + 1
    c = shape.clients
    world = _World(
        random=np.array([shape.seed * 2654435761 + 88172645463325252], np.uint64),
        lists=np.zeros((keys, shape.writes + 1), np.int64),
        committed=np.zeros(keys, np.int64),
        slot_key=np.arange(shape.keys, dtype=np.int64),
        assigned=np.zeros(keys + 1, np.int64),
        phase=np.zeros(c, np.int64),
        at=np.zeros(c, np.int64),
        size=np.zeros(c, np.int64),
        outcome=np.zeros(c, np.int64),
        kind=np.zeros((c, widest), np.int64),
        slot=np.zeros((c, widest), np.int64),
        key=np.zeros((c, widest), np.int64),
        value=np.zeros((c, widest), np.int64),
        found=np.zeros((c, widest, shape.writes + shape.length + 2), np.int64),
        snapshot=np.zeros((c, widest), np.int64),
        clash=np.zeros(c, np.int64),
    )
    world.assigned[keys] = shape.keys
    mops = 2 * total * widest
    room = 1 if shape.registers else total * shape.length * shape.writes // 2
    rows = _Rows(
        process=np.zeros(2 * total, np.int32),
        type=np.zeros(2 * total, np.int8),
        start=np.zeros(2 * total + 1, np.int32),
        kind=np.zeros(mops, np.int8),
        key=np.zeros(mops, np.int32),
        value=np.zeros(mops, np.int64),
        begin=np.zeros(mops, np.int64),
        length=np.full(mops, -1, np.int32),
        elements=np.zeros(room, np.int64),
        counts=np.zeros(4, np.int64),
    )
    simulate(world, rows, total, shape.keys, shape.writes, shape.length, LEVELS[shape.level], int(shape.registers))
    return _table(rows, shape)


def _table(rows: _Rows, shape: Shape) -> pa.Table:
    events, mops = int(rows.counts[0]), int(rows.counts[1])
    kinds = _arrow.array(["r", "w" if shape.registers else "append"])
    f = kinds.take(_arrow.array((rows.kind[:mops] != 0).astype(np.int8)))
    names = np.arange(int(rows.key[:mops].max()) + 1).astype(str)
    key = _arrow.array(names.tolist()).take(_arrow.array(rows.key[:mops]))
    no_value = rows.value[:mops] == 0
    value = _arrow.array(np.where(no_value, 0, rows.value[:mops]), mask=no_value)
    read = rows.length[:mops] >= 0
    ends = np.cumsum(np.where(read, rows.length[:mops], 0))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    elements: Any = _arrow.array(rows.elements[: int(offsets[-1])])
    known = _arrow.py_buffer(np.packbits(read, bitorder="little"))
    values = _arrow.Array.from_buffers(
        _arrow.list_(_arrow.int64()), mops, [known, _arrow.py_buffer(offsets)], children=[elements]
    )
    struct = _arrow.StructArray.from_arrays([f, key, value, values], fields=list(PLAIN_MOPS.value_type))
    column = _arrow.ListArray.from_arrays(_arrow.array(rows.start[: events + 1]), struct, type=PLAIN_MOPS)
    types = _arrow.array(["invoke", "ok", "fail", "info"]).take(_arrow.array(rows.type[:events]))
    order = np.arange(events)
    columns: dict[str, Any] = {
        "index": order,
        "time": order * 1_000_000,
        "process": rows.process[:events],
        "type": types,
        "f": _arrow.array(["txn"]).take(_arrow.array(np.zeros(events, np.int8))),
        "mops": with_summaries(column, MOPS),
    }
    found: list[Any] = [
        _arrow.array(columns[field.name]) if field.name in columns else pa.nulls(events, field.type)
        for field in _schema
    ]
    return pa.Table.from_arrays(found, schema=HISTORY_SCHEMA)


@inlined
def below(world: _World, limit: int) -> Any:
    """A random number below a limit (xorshift64)."""
    x = world.random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    world.random[0] = x
    return np.int64((x >> np.uint64(11)) % np.uint64(limit))


@kernel
def simulate(world: _World, rows: _Rows, total: int, keys: int, writes: int, length: int, level: int, rmw: int) -> None:
    """Let clients go on until all transactions were made."""
    begun, clients = 0, len(world.phase)
    processes = clients
    for client in range(clients):
        rows.counts[2] = processes
        world.outcome[client] = client
    open_clients = 0
    while begun < total or open_clients > 0:
        client = below(world, clients)
        if world.phase[client] == 0:
            if begun == total:
                continue
            begin(world, client, keys, writes, length, rmw)
            record(world, rows, client, 0)
            world.phase[client] = 1
            begun += 1
            open_clients += 1
        elif world.phase[client] == 1:
            if level == 2:
                step(world, client, world.at[client])
                world.at[client] += 1
                if world.at[client] == world.size[client]:
                    world.phase[client] = 2
            elif level == 0:
                for mop in range(world.size[client]):
                    step(world, client, mop)
                world.phase[client] = 2
            else:
                commit(world, client)
                world.phase[client] = 2
        else:
            draw = below(world, 200)
            ended = 2 if world.clash[client] or (level == 2 and draw < 2) else 3 if draw == 199 else 1
            record(world, rows, client, ended)
            if ended == 3:
                world.outcome[client] = rows.counts[2]
                rows.counts[2] += 1
            world.phase[client] = 0
            open_clients -= 1


@inlined
def begin(world: _World, client: int, keys: int, writes: int, length: int, rmw: int) -> None:
    """Draw what a client's next transaction does, and remember what was committed."""
    size, wanted = 0, 1 + below(world, length)
    limit = len(world.assigned) - 1
    for _ in range(wanted):
        slot = below(world, keys)
        key = world.slot_key[slot]
        kind = below(world, 2)
        if kind == 1:
            repeated = False
            for mop in range(size):
                repeated |= rmw == 1 and world.key[client, mop] == key
            if repeated:
                continue
            if world.assigned[key] >= writes:
                world.slot_key[slot] = world.assigned[limit]
                world.assigned[limit] += 1
                key = world.slot_key[slot]
            if rmw == 1:
                world.kind[client, size] = 0
                world.key[client, size] = key
                world.value[client, size] = 0
                size += 1
            world.assigned[key] += 1
            world.value[client, size] = world.assigned[key]
        else:
            world.value[client, size] = 0
        world.kind[client, size] = kind
        world.key[client, size] = key
        size += 1
    world.size[client] = size
    world.at[client] = 0
    world.clash[client] = 0
    for mop in range(size):
        world.snapshot[client, mop] = world.committed[world.key[client, mop]]


@inlined
def step(world: _World, client: Any, mop: Any) -> None:
    """One micro-operation takes effect."""
    key = world.key[client, mop]
    count = world.committed[key]
    if world.kind[client, mop] == 0:
        world.snapshot[client, mop] = count
        for place in range(count):
            world.found[client, mop, place] = world.lists[key, place]
    else:
        world.lists[key, count] = world.value[client, mop]
        world.committed[key] = count + 1


@inlined
def commit(world: _World, client: Any) -> None:
    """Commit under snapshot isolation: reads are of the snapshot and of own appends; the first one to commit wins."""
    for mop in range(world.size[client]):
        key = world.key[client, mop]
        if world.kind[client, mop] != 0:
            world.clash[client] |= world.committed[key] != world.snapshot[client, mop]
            continue
        count = world.snapshot[client, mop]
        for place in range(count):
            world.found[client, mop, place] = world.lists[key, place]
        for other in range(mop):
            if world.kind[client, other] != 0 and world.key[client, other] == key:
                world.found[client, mop, count] = world.value[client, other]
                count += 1
        world.snapshot[client, mop] = count
    if world.clash[client]:
        return
    for mop in range(world.size[client]):
        if world.kind[client, mop] != 0:
            key = world.key[client, mop]
            world.lists[key, world.committed[key]] = world.value[client, mop]
            world.committed[key] += 1


@inlined
def record(world: _World, rows: _Rows, client: int, type_: int) -> None:
    """Add an op to the history."""
    event, at, filled = rows.counts[0], rows.counts[1], rows.counts[3]
    rows.process[event] = world.outcome[client]
    rows.type[event] = type_
    for mop in range(world.size[client]):
        rows.kind[at] = world.kind[client, mop]
        rows.key[at] = world.key[client, mop]
        rows.value[at] = world.value[client, mop]
        if type_ == 1 and world.kind[client, mop] == 0:
            count = world.snapshot[client, mop]
            if len(rows.elements) == 1:
                if count > 0:
                    rows.value[at] = world.found[client, mop, count - 1]
            else:
                rows.length[at] = count
                for place in range(count):
                    rows.elements[filled + place] = world.found[client, mop, place]
                filled += count
        at += 1
    rows.counts[0] = event + 1
    rows.counts[1] = at
    rows.counts[3] = filled
    rows.start[event + 1] = at
