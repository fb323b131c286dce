"""Registers: a value, or several by name, that is read and replaced."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final, cast

import msgspec

from splitbrain.checkers.models.model import (
    IMPOSSIBLE,
    UNKNOWN,
    Assignment,
    AssignmentModel,
    Facts,
    JsonObject,
    Special,
    State,
)
from splitbrain.results.errors import UsageError

_READS: Final = frozenset({"r", "read"})
_WRITES: Final = frozenset({"w", "write"})
_NOTHING: Final = JsonObject(())


def _read(result: Any) -> Assignment:
    return Assignment() if result is UNKNOWN else Assignment(requires=result)


class Register(AssignmentModel):
    """A value that is read and written.

    It is null at first, or the parameter.
    """

    name = "register"
    fs = frozenset({"read", "write"})
    opaque = frozenset({"read"})
    parameter = "initial"

    def __init__(self, initial: Hashable = Special.ANY) -> None:
        if initial is not Special.ANY:
            self.initial = initial

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """A read requires what it returned; a write is always possible."""
        return _read(result) if f == "read" else Assignment(becomes=value)


class CasRegister(AssignmentModel):
    """A register with compare-and-set, cas [expected, new].

    It is null at first, or the parameter. The result False of a cas says that it was seen not to match. Only formats
    that record such an answer have it (Porcupine's, compact); elsewhere a cas that did not match is a `fail`, and
    is gone.
    """

    name = "cas-register"
    fs = frozenset({"read", "write", "cas"})
    opaque = frozenset({"read"})
    parameter = "initial"

    def __init__(self, initial: Hashable = Special.ANY) -> None:
        if initial is not Special.ANY:
            self.initial = initial

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """As a register; a cas requires the expected value, a cas that was seen not to match refuses it.

        A cas that crashed and did not match changed nothing: as if it had not happened, which is allowed anyway.
        """
        if f == "read":
            return _read(result)
        if f == "write":
            return Assignment(becomes=value)
        if not isinstance(value, tuple) or len(cast("tuple[Hashable, ...]", value)) != 2:
            raise TypeError("the value of a cas is a list of two, [expected, new]")
        expected, new = cast("tuple[Hashable, Hashable]", value)
        return Assignment(refuses=expected) if result is False else Assignment(requires=expected, becomes=new)


class ReadModes(CasRegister):
    """A register, by modes.

    A `read` must be linearizable with all changes. One in another mode (`read-leader`, `read-local`, `read-after`,
    `read-fenced`) says nothing, except in the modes of the parameter, a list. It is null at first.
    """

    name = "read-modes"
    fs = CasRegister.fs | {"read-leader", "read-local", "read-after", "read-fenced"}
    opaque = frozenset({"read", "read-leader", "read-local", "read-after", "read-fenced"})
    parameter = "modes"

    def __init__(self, modes: Hashable = ()) -> None:
        known = self.fs - CasRegister.fs
        if not isinstance(modes, tuple) or not known.issuperset(cast("tuple[Hashable, ...]", modes)):
            raise UsageError(f"model 'read-modes' takes a list of {', '.join(sorted(known))}; not {modes!r}.")
        super().__init__()
        self._modes = frozenset(cast("tuple[str, ...]", modes))

    def plain(self, f: str) -> str | None:
        """The function of a register with compare-and-set that this is; None for a read that says nothing."""
        if f in CasRegister.fs:
            return f
        return "read" if f in self._modes else None

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """As a register with compare-and-set, as far as the mode says anything."""
        known = self.plain(f)
        return Assignment() if known is None else super().assignment(known, value, result)


class CreateOnce(AssignmentModel):
    """A name that is declared once.

    Exactly one create succeeds, and every later read returns its value. The loser's create is a `fail`. A read before
    any create returns null.
    """

    name = "create-once"
    fs = frozenset({"read", "create"})
    opaque = frozenset({"read"})

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """A create requires that there is nothing yet."""
        if f == "read":
            return _read(result)
        if value is None:
            raise TypeError("null cannot be created: it stands for nothing")
        return Assignment(requires=None, becomes=value)


class MultiRegister:
    """Registers by name, read and written together.

    They are null at first, or as in the parameter, a map. `write {"x": 1, "y": 2}` replaces those and leaves the
    others; `read -> {"x": 1}` saw what it lists, at one moment. `txn [[f, name, value], ...]` reads (`r`, `read`)
    and writes (`w`, `write`) in that order, all at one moment; its result is the same list with the values read.
    `cas [{"x": 1}, {"y": 2}]` replaces the latter if all of the former are held; a mismatch is a `fail`.
    Names that are no strings count as their JSON text.
    """

    name = "multi-register"
    fs = frozenset({"read", "write", "cas", "txn"})
    opaque = frozenset({"read", "txn"})
    parameter = "initial"

    def __init__(self, initial: Hashable = _NOTHING) -> None:
        if not isinstance(initial, JsonObject):
            raise UsageError(
                f"model 'multi-register' takes the values at the beginning, a map as in "
                f'multi-register({{"x":0}}); not {initial!r}.'
            )
        self._initial = _registers(dict(initial.items))

    def init(self) -> State:
        """Only what is not null."""
        return self._initial

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """A read requires each value that it returned, a write is always possible, a txn does both in its order."""
        held = dict(cast(JsonObject, state).items)
        if f == "txn":
            return _transact(held, value, None if result is UNKNOWN else result)
        if f == "write":
            return _registers(held | dict(_items(value)))
        if f == "cas":
            expected, new = _compared(value)
            return _registers(held | new) if all(held.get(each) == expected[each] for each in expected) else IMPOSSIBLE
        if result is not UNKNOWN and any(held.get(name) != seen for name, seen in _items(result)):
            return IMPOSSIBLE
        return state

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A read does, and a txn that only reads."""
        return f == "read" or (f == "txn" and all(kind in _READS for kind, _, _ in _micro_ops(value)))

    def facts(self, f: str, value: Any, result: Any) -> Facts:
        """Register by register; of a txn, what it read before it wrote there, and what it wrote last."""
        if f == "write":
            return Facts(leaves=dict(_items(value)))
        if f == "cas":
            expected, new = _compared(value)
            return Facts(sees={**expected}, leaves={**new})
        if f == "read":
            return Facts() if result is UNKNOWN else Facts(sees=dict(_items(result)))
        asked = _micro_ops(value)
        answered = asked if result is UNKNOWN or result is None else _micro_ops(result)
        sees: dict[Hashable, Hashable] = {}
        leaves: dict[Hashable, Hashable] = {}
        for (kind, register, new), (_, _, seen) in zip(asked, answered, strict=True):
            if kind in _WRITES:
                leaves[register] = new
            elif answered is not asked and register not in leaves:
                sees[register] = seen
        return Facts(sees=sees, leaves=leaves)

    def at_first(self, place: Hashable) -> Hashable:
        """What is in the register at the beginning."""
        return dict(self._initial.items).get(cast(str, place))


def _compared(value: Any) -> tuple[dict[str, Hashable], dict[str, Hashable]]:
    """What a compare-and-set demands, and what it leaves."""
    if not isinstance(value, tuple) or len(cast("tuple[Any, ...]", value)) != 2:
        raise TypeError("a cas is two maps, what must be held and what replaces it")
    expected, new = cast("tuple[Any, Any]", value)
    return dict(_items(expected)), dict(_items(new))


def _transact(held: dict[str, Hashable], asked: Any, answered: Any) -> State | Special:
    """The registers after a txn; where there is no answer, its reads say nothing."""
    ops = _micro_ops(asked)
    seen = None if answered is None else _micro_ops(answered)
    if seen is not None and [op[:2] for op in seen] != [op[:2] for op in ops]:
        raise TypeError("the result of a txn repeats its reads and writes, in their order")
    for position, (f, name, value) in enumerate(ops):
        if f in _WRITES:
            held[name] = value
        elif seen is not None and held.get(name) != seen[position][2]:
            return IMPOSSIBLE
    return _registers(held)


def _micro_ops(txn: Any) -> list[tuple[str, str, Hashable]]:
    if not isinstance(txn, tuple):
        raise TypeError("a txn is a list of [f, name, value]")
    ops: list[tuple[str, str, Hashable]] = []
    for op in cast("tuple[Any, ...]", txn):
        if not isinstance(op, tuple) or len(cast("tuple[Any, ...]", op)) != 3:
            raise TypeError("a txn is a list of [f, name, value]")
        f, name, value = cast("tuple[Any, Any, Any]", op)
        if f not in _READS | _WRITES:
            raise TypeError(f"a txn reads (r, read) and writes (w, write); it cannot {f!r}")
        ops.append((f, _name(name), value))
    return ops


def _items(registers: Any) -> Iterable[tuple[str, Hashable]]:
    if not isinstance(registers, JsonObject):
        raise TypeError("several registers are read and written as a map from names to values")
    return registers.items


def _registers(held: dict[str, Hashable]) -> JsonObject:
    return JsonObject(tuple(sorted((name, value) for name, value in held.items() if value is not None)))


def _name(name: Any) -> str:
    return name if isinstance(name, str) else msgspec.json.encode(name).decode()
