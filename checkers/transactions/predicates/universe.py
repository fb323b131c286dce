"""The objects of a history with predicate reads: what each transaction did, and which versions each object had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.transactions.columns import ABORTED, COMMITTED, NO_LIST, Pairs, Transactions, paired
from splitbrain.results.columns import array, numbers
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.values import canonical_json

INIT: Final = "init"
"""The function of the op that makes the universe, and of its micro-operations here: one for each object."""

WRITES: Final = (INIT, "insert", "w", "delete")
"""Functions of micro-operations that make a version."""

ABSENT: Final = "null"
"""The text of the version of an object that is not there, unborn or dead."""


class Step(NamedTuple):
    """A micro-operation.

    Attributes:
        f: r, rp, w, insert, delete or init.
        key: of the object; the predicate of an `rp`, as JSON.
        value: what was written or read; of an `rp` a mapping from keys to values. None for nil, and where the answer is
            not known.
    """

    f: str
    key: str
    value: Any = None


class Version(NamedTuple):
    """A version of an object.

    Attributes:
        text: its value as JSON; ABSENT if there is no object.
        writer: the transaction that made it, -1 for the one before all.
        at: the place of the write among the transaction's micro-operations.
    """

    text: str
    writer: int
    at: int


UNBORN: Final = Version(ABSENT, -1, -1)


@dataclass(frozen=True)
class Universe:
    """A history.

    Attributes:
        transactions: as columns; micro-operations have a place and a key, and nothing else.
        steps: of each transaction its micro-operations.
        init: the transaction that made the universe; -1 if there is none that is known to have committed.
        versions: of each key all versions that may have been committed, the first one first.
        writes: of each key and text all writes, those that were overwritten or aborted too.
        early: keys and texts that the universe was asked to begin with, whether or not it does.
    """

    transactions: Transactions
    steps: list[list[Step]]
    init: int
    versions: dict[str, list[Version]]
    writes: dict[tuple[str, str], list[Version]] = field(default_factory=dict[tuple[str, str], list[Version]])
    early: frozenset[tuple[str, str]] = frozenset()

    def open_keys(self) -> list[str]:
        """Keys of whose versions the order is not known: those that were changed more than once."""
        return [key for key, versions in self.versions.items() if len(versions) > 2]

    def is_initial(self, version: Version) -> bool:
        """Whether a version is the first of its object."""
        return version.writer in (-1, self.init)

    def before(self, transaction: int, at: int, key: str) -> str | None:
        """What a transaction itself last made of an object before one of its micro-operations; None for nothing."""
        own = [step for step in self.steps[transaction][:at] if step.f in WRITES and step.key == key]
        return text_of(own[-1]) if own else None

    def candidates(self, transaction: int, key: str) -> list[Version]:
        """The versions of an object that others than this transaction made."""
        return [each for each in self.versions.get(key, [UNBORN]) if each.writer != transaction]


def matches(predicate: str, text: str) -> bool:
    """Whether a version matches a predicate, both as JSON."""
    if text == ABSENT:
        return False
    asked: Any = msgspec.json.decode(predicate)
    if isinstance(asked, str):
        return True
    if asked[0] == "=":
        return canonical_json(asked[1]) == text
    value: Any = msgspec.json.decode(text)
    return type(value) is int and value % asked[1] == asked[2]


def text_of(step: Step) -> str:
    """The version that a write makes, or that a read found."""
    return ABSENT if step.f == "delete" else canonical_json(step.value)


def key_of(key: Any) -> str:
    """A key as text."""
    return key if isinstance(key, str) else canonical_json(key)


# --- reading ----------------------------------------------------------------------------------------------------------


def universe_of(history: pa.Table, source: str = "history") -> Universe:
    """The objects of a history.

    Args:
        history: rows of `splitbrain.results.arrow.HISTORY_SCHEMA`, sorted by index.
        source: names the history in errors.

    Raises:
        HistoryFormatError: ops do not pair, a micro-operation is of another form, or a transaction began before the
            universe was made.
    """
    pairs = paired(history, source, ("txn", INIT))
    functions = [str(f) for f in history.column("f").take(array(pairs.invoke)).to_pylist()]
    reader = _Reader(history, source)
    steps = [
        list(reader.steps(int(row), function, known=status == COMMITTED))
        for row, function, status in zip(pairs.rows, functions, pairs.status, strict=True)
    ]
    init = _init(pairs, functions, source)
    asked = [step for place, f in enumerate(functions) if f == INIT for step in reader.asked(int(pairs.invoke[place]))]
    universe = Universe(
        transactions=_columns(pairs, steps),
        steps=steps,
        init=init,
        versions={step.key: [Version(text_of(step), init, at)] for at, step in enumerate(steps[init])}
        if init >= 0
        else {},
        early=frozenset((step.key, text_of(step)) for step in asked),
    )
    for transaction, each in enumerate(steps):
        _add_versions(universe, transaction, each)
    return universe


def _add_versions(universe: Universe, transaction: int, steps: list[Step]) -> None:
    final = {step.key: at for at, step in enumerate(steps) if step.f in WRITES}
    for at, step in enumerate(steps):
        if step.f not in WRITES:
            continue
        version = Version(text_of(step), transaction, at)
        universe.writes.setdefault((step.key, version.text), []).append(version)
        if (
            universe.transactions.status[transaction] == ABORTED
            or final[step.key] != at
            or transaction == universe.init
        ):
            continue
        universe.versions.setdefault(step.key, [UNBORN]).append(version)


def _init(pairs: Pairs, functions: list[str], source: str) -> int:
    made = [place for place, f in enumerate(functions) if f == INIT]
    if len(made) > 1:
        row = int(pairs.invoke[made[1]])
        raise HistoryFormatError(source, f"op {row}: a second init; the universe is made once, before all else.")
    if not made or pairs.status[made[0]] != COMMITTED:
        return -1
    early = np.flatnonzero(pairs.invoke < pairs.complete[made[0]])
    if len(early) > 1 or (len(early) and int(early[0]) != made[0]):
        row = int(pairs.invoke[next(place for place in early.tolist() if place != made[0])])
        raise HistoryFormatError(source, f"op {row}: a transaction that began before the init op had completed.")
    return made[0]


def _columns(pairs: Pairs, steps: list[list[Step]]) -> Transactions:
    keys: dict[str, int] = {}
    places = [keys.setdefault(step.key, len(keys)) for each in steps for step in each]
    for each in steps:
        for key in [key for step in each if step.f == "rp" for key in step.value or ()]:
            keys.setdefault(key, len(keys))
    count = len(places)
    return Transactions(
        process=pairs.process[pairs.invoke],
        invoked=pairs.invoke,
        completed=pairs.complete,
        status=pairs.status,
        mop_start=np.cumsum([0, *map(len, steps)]),
        mop_kind=np.zeros(count, np.uint8),
        mop_key=np.array(places, np.int32),
        mop_value=np.zeros(count, np.int64),
        list_start=np.zeros(count, np.int64),
        list_length=np.full(count, NO_LIST, np.int32),
        elements=np.zeros(0, np.int64),
        key_names=tuple(keys),
    )


class _Reader:
    """Reads micro-operations, from typed columns or from text."""

    def __init__(self, history: pa.Table, source: str) -> None:
        self._values = history.column("value")
        self._mops = history.column("mops")
        self._index = numbers(history.column("index"))
        self._source = source
        self._is_string: dict[str, bool] = {}

    def asked(self, row: int) -> Iterator[Step]:
        """What an init op was asked to make."""
        return self.steps(row, INIT, known=True)

    def steps(self, row: int, function: str, *, known: bool) -> Iterator[Step]:
        """The micro-operations of an op; reads of one whose outcome is not `known` found nothing that counts."""
        typed: Any = self._mops[row].as_py()
        if typed is not None:
            for mop in typed:
                yield self._step(row, [mop["f"], mop["key"], mop["value"]], known)
            return
        text: Any = self._values[row].as_py()
        value: Any = None if text is None else msgspec.json.decode(text)
        if function == INIT:
            if not isinstance(value, dict):
                raise self._wrong(row, "an object that maps keys to values", value)
            for key, first in cast("dict[str, Any]", value).items():
                yield Step(INIT, key, first)
            return
        if not isinstance(value, list):
            raise self._wrong(row, "a list of micro-operations", value)
        for mop in cast("list[Any]", value):
            yield self._step(row, mop, known)

    def _step(self, row: int, mop: Any, known: bool) -> Step:
        if not isinstance(mop, list) or len(cast("list[Any]", mop)) not in (2, 3):
            raise self._wrong(row, "[f, key, value]", mop)
        f, key, value = [*cast("list[Any]", mop), None][:3]
        if f == "rp":
            if not _is_predicate(key):
                raise self._wrong(row, 'a predicate: "true", ["=", value] or ["mod", divisor, rest]', key)
            if known and not isinstance(value, dict):
                raise self._wrong(row, "what a predicate read found, as an object", value)
            return Step(f, canonical_json("true" if key is True else key), value if known else None)
        if f not in ("r", "w", "insert", "delete"):
            raise self._wrong(row, "micro-operations r, rp, w, insert and delete", f)
        if f in ("w", "insert") and value is None:
            raise self._wrong(row, f"[{f}, key, value] with a value", mop)
        return Step(f, self._key(row, key), value if known or f != "r" else None)

    def _key(self, row: int, key: Any) -> str:
        """A key as text; a predicate read has its objects by text, in which 1 and "1" are one."""
        text = key_of(key)
        if isinstance(key, str) != self._is_string.setdefault(text, isinstance(key, str)):
            raise self._wrong(row, f"keys that differ as text (one was {text} without, one with, quotation marks)", key)
        return text

    def _wrong(self, row: int, expected: str, found: Any) -> HistoryFormatError:
        return HistoryFormatError(self._source, f"op {self._index[row]}: expected {expected}, found {found!r:.60}.")


def _is_predicate(predicate: Any) -> bool:
    if predicate is True or predicate == "true":
        return True
    if not isinstance(predicate, list):
        return False
    parts = cast("list[Any]", predicate)
    if len(parts) == 2:
        return parts[0] == "="
    return len(parts) == 3 and parts[0] == "mod" and all(type(each) is int for each in parts[1:]) and parts[1] != 0
