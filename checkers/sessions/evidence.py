"""What must come before what in the order of all writes, and why.

    monotonic reads      a session read version a, and later b: a is not after b
    read your writes     a session wrote a, and later read b: a is not after b
    monotonic writes     a session wrote a, and later b: a is before b
    writes follow reads  a session read a, and later wrote b: a is before b
    compare-and-set      one that replaced a by b: a is before b
    real time            a was acknowledged, or read, before b was invoked: a is before b, where writes are linearizable

Reads are of one key; writes of all keys are in one order. Only neighbours are linked, the rest follows: a write follows
the reads since the last write of its session, a read what its session saw and wrote since the last read of its kind.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from splitbrain.checkers.sessions.options import CAS, WRITE, Options
from splitbrain.checkers.sessions.reading import INITIAL, Reading
from splitbrain.checkers.weaker.calls import NOTHING
from splitbrain.results.calls import Ints
from splitbrain.results.columns import numbers


class Why(IntEnum):
    """Why one write comes before another."""

    MONOTONIC_READS = 0
    READ_YOUR_WRITES = 1
    MONOTONIC_WRITES = 2
    WRITES_FOLLOW_READS = 3
    COMPARE_AND_SET = 4
    REAL_TIME = 5


GUARANTEES = (Why.MONOTONIC_READS, Why.READ_YOUR_WRITES, Why.MONOTONIC_WRITES, Why.WRITES_FOLLOW_READS)


class Link(NamedTuple):
    """One write before another.

    Attributes:
        before, after: the writes; `after` may be INITIAL, which nothing can come before.
        why: what says so.
        first, second: the ops that show it; of real time the op that showed `before` (it was acknowledged, or read),
            and `after`.
    """

    before: int
    after: int
    why: Why
    first: int
    second: int


@dataclass
class Links:
    """All links but those of real time, in columns; and how much there was to compare."""

    flat: array[int] = field(default_factory=lambda: array("q"))
    compared: int = 0

    def columns(self) -> Ints:
        """One row per link: before, after, why, first, second."""
        return np.frombuffer(self.flat, np.int64).reshape(-1, 5) if self.flat else np.zeros((0, 5), np.int64)

    def link(self, number: int) -> Link:
        """One of them."""
        before, after, why, first, second = self.flat[5 * number : 5 * number + 5]
        return Link(before, after, Why(why), first, second)


@dataclass(slots=True)
class _OfKey:
    """What a session knows of one key: for each reader what it must not fall behind, by (op, version)."""

    waiting: dict[tuple[str, int | None], list[tuple[int, int]]] = field(
        default_factory=dict[tuple[str, int | None], list[tuple[int, int]]]
    )

    def add(self, reader: tuple[str, int | None], op: int, version: int) -> None:
        """A reader must not return an older version from now on."""
        known = self.waiting.setdefault(reader, [])
        if not known or known[-1][1] != version:
            known.append((op, version))


@dataclass(slots=True)
class _Session:
    """What a session did: its last write, what it read since, and what it knows of each key."""

    write: int = NOTHING
    read: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    keys: dict[int, _OfKey] = field(default_factory=dict[int, _OfKey])


def links(reading: Reading, options: Options) -> Links:
    """What the sessions of a run say of the order of its writes."""
    found = Links()
    work = _Linking(reading, options, found)
    for op in range(len(reading.f)):
        work.visit(op)
    return found


class _Linking:
    """Goes through the ops by invocation, which within a session is program order."""

    def __init__(self, reading: Reading, options: Options, found: Links) -> None:
        self._source, self._leaves, self._f = reading.source, reading.registers.leaves, reading.f
        self._key, self._session = reading.calls.key, reading.session
        self._sessions = [_Session() for _ in range(reading.sessions)]
        self._followers = options.followers(reading.fs)
        self._promising = frozenset(reader for each in self._followers.values() for reader in each)
        self._same_term = frozenset(options.same_term)
        self._terms = _terms(reading) if self._same_term else []
        self._in_sessions = not options.linearizable_writes  # else real time says as much
        self._found = found

    def visit(self, op: int) -> None:
        """Take one op into account."""
        session = self._sessions[self._session[op]]
        source = self._source[op]
        if source == INITIAL or source >= 0:
            self._read(session, op, source)
        if self._leaves[op] != NOTHING:
            self._wrote(session, op)

    def _read(self, session: _Session, op: int, source: int) -> None:
        f, links = self._f[op], self._found.flat
        known = session.keys.get(self._key[op])
        if known is None:
            known = session.keys[self._key[op]] = _OfKey()
        if f in self._promising:
            waiting = known.waiting.get(self._reader(f, op))
            if waiting:
                for first, version in waiting:
                    if version != source:
                        why = Why.READ_YOUR_WRITES if first == version else Why.MONOTONIC_READS
                        links.extend((version, source, why, first, op))
                self._found.compared += len(waiting)
                waiting.clear()
        if source == INITIAL:
            return
        if f == CAS:
            links.extend((source, op, Why.COMPARE_AND_SET, op, op))
            return
        if self._in_sessions:
            session.read.append((op, source))
        for reader in self._followers.get(f, ()):
            known.add(self._reader(reader, op), op, source)

    def _wrote(self, session: _Session, op: int) -> None:
        if self._in_sessions:
            if session.write != NOTHING:
                self._found.flat.extend((session.write, op, Why.MONOTONIC_WRITES, session.write, op))
                self._found.compared += 1
            for first, version in session.read:
                self._found.flat.extend((version, op, Why.WRITES_FOLLOW_READS, first, op))
                self._found.compared += 1
            session.read.clear()
            session.write = op
        followers = self._followers.get(WRITE, ())
        if followers:
            known = session.keys.get(self._key[op])
            if known is None:
                known = session.keys[self._key[op]] = _OfKey()
            for reader in followers:
                known.add(self._reader(reader, op), op, op)

    def _reader(self, f: str, op: int) -> tuple[str, int | None]:
        """A function that reads, in the term of an op if it follows only that."""
        return (f, self._terms[op]) if f in self._same_term else (f, None)


def _terms(reading: Reading) -> list[int | None]:
    """The term of its answer, by op; a different negative number where there is none, which no other op has."""
    column = numbers(reading.table.column("term"), null=-1)
    ends = reading.calls.end
    rows = len(column)
    return [int(column[end]) if end < rows and column[end] >= 0 else -1 - op for op, end in enumerate(ends)]


def shown(reading: Reading) -> Iterator[tuple[int, int, int]]:
    """For each write that certainly happened: the write, the first row by which that showed, and the op that showed it.

    Of several ops the one that ended first: its acknowledgement, or a read of it.
    """
    calls, rows = reading.calls, reading.table.num_rows
    first: dict[int, tuple[int, int]] = {}
    for op, write in enumerate(reading.source):
        end = calls.end[op]
        if write >= 0 and end < rows and (write not in first or end < first[write][0]):
            first[write] = (end, op)
    for write, value in enumerate(reading.registers.leaves):
        if value == NOTHING:
            continue
        end, op = calls.end[write], write
        if write in first and first[write][0] < end:
            end, op = first[write]
        if end < rows:
            yield write, end, op
