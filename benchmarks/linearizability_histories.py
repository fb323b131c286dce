"""Synthetic histories with known verdicts, for `benchmarks/linearizability.py`.

Every client is always busy. Each op takes effect at a random moment between its call and its return, so the history is
linearizable by construction; a crashed op took effect with a probability of one half. A bad history is a good one in
which one answer was changed to one that cannot have been given.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

NEVER_WRITTEN: Final = 10**6


class Event(msgspec.Struct):
    """A row of a history, as its JSON line has it."""

    process: int
    type: str
    f: str
    value: Any = None
    key: str | None = None


class Thing(Protocol):
    """What clients use."""

    def draw(self, rng: random.Random) -> Event:
        """The next call; its process is filled in by the caller."""
        ...

    def apply(self, call: Event) -> Any:
        """Let a call take effect; its answer."""
        ...


class Registers:
    """Cas-registers of `values` values under `keys` keys: 50 % reads, 25 % writes, 25 % compare-and-set."""

    def __init__(self, values: int, keys: int = 1) -> None:
        self._values = values
        self._keys = keys
        self._held: dict[str | None, int | None] = {}

    def draw(self, rng: random.Random) -> Event:
        """A read, a write or a cas of one register."""
        key = None if self._keys == 1 else str(rng.randrange(self._keys))
        kind = rng.random()
        if kind < 0.5:
            return Event(0, "invoke", "read", None, key)
        if kind < 0.75:
            return Event(0, "invoke", "write", rng.randrange(self._values), key)
        return Event(0, "invoke", "cas", [rng.randrange(self._values), rng.randrange(self._values)], key)

    def apply(self, call: Event) -> Any:
        """A cas that does not match answers False."""
        if call.f == "read":
            return self._held.get(call.key)
        if call.f == "cas":
            if self._held.get(call.key) != call.value[0]:
                return False
            self._held[call.key] = call.value[1]
            return call.value
        self._held[call.key] = call.value
        return call.value


class Strings:
    """Strings under keys: half of the calls read one, half append a text that no other call appends."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._held: dict[str | None, str] = {}
        self._made = 0

    def draw(self, rng: random.Random) -> Event:
        """A get or an append."""
        key = str(rng.randrange(self._keys))
        if rng.random() < 0.5:
            return Event(0, "invoke", "get", None, key)
        self._made += 1
        return Event(0, "invoke", "append", f"x {self._made} y", key)

    def apply(self, call: Event) -> Any:
        """A get answers the whole string."""
        if call.f == "append":
            self._held[call.key] = self._held.get(call.key, "") + call.value
            return call.value
        return self._held.get(call.key, "")


class Container:
    """A FIFO queue or a stack; `values` different values, or all different (None)."""

    def __init__(self, values: int | None, *, stack: bool = False) -> None:
        self._values = values
        self._stack = stack
        self._held: list[int] = []
        self._made = 0

    def draw(self, rng: random.Random) -> Event:
        """Something goes in, or comes out."""
        if rng.random() < 0.5:
            return Event(0, "invoke", "pop" if self._stack else "dequeue")
        self._made += 1
        value = self._made if self._values is None else rng.randrange(self._values)
        return Event(0, "invoke", "push" if self._stack else "enqueue", value)

    def apply(self, call: Event) -> Any:
        """Taking from an empty one answers null."""
        if call.f in ("push", "enqueue"):
            self._held.append(call.value)
            return call.value
        if not self._held:
            return None
        return self._held.pop(-1 if self._stack else 0)


def history(thing: Thing, *, clients: int, ops: int, seed: int, crashes: float = 0.0) -> list[Event]:
    """A valid history of `ops` ops by `clients` clients; a crashed client is replaced by a new one."""
    rng = random.Random(seed)
    made: list[Event] = []
    process = list(range(clients))
    called: dict[int, Event] = {}
    answered: dict[int, Event] = {}
    invoked = 0
    while invoked < ops or called or answered:
        client = rng.randrange(clients)
        if client in answered:
            event = answered.pop(client)
            made.append(event)
            if event.type == "info":
                process[client] += clients
        elif client in called:
            answered[client] = _ended(thing, called.pop(client), crashed=rng.random() < crashes, rng=rng)
        elif invoked < ops:
            call = called[client] = msgspec.structs.replace(thing.draw(rng), process=process[client])
            made.append(call)
            invoked += 1
    return made


def _ended(thing: Thing, call: Event, *, crashed: bool, rng: random.Random) -> Event:
    if not crashed:
        return msgspec.structs.replace(call, type="ok", value=thing.apply(call))
    if rng.random() < 0.5:
        thing.apply(call)
    return msgspec.structs.replace(call, type="info")


def never_written(made: Sequence[Event]) -> list[Event]:
    """A read at 90 % answers what no op wrote."""
    return _changed(made, "read", lambda _: NEVER_WRITTEN)


def swapped_texts(made: Sequence[Event]) -> list[Event]:
    """A get at 90 % answers with the first two of the appended texts in the other order."""

    def swap(answer: str) -> str:
        first, second, *rest = answer.removesuffix("y").split("y")
        return "y".join([second, first, *rest, ""])

    return _changed(made, "get", swap, lambda answer: answer.count("y") >= 2)


def swapped_answers(made: Sequence[Event], f: str, apart: int) -> list[Event]:
    """Two answers of `f`, from 60 % on and `apart` completions from each other, are exchanged; they differ."""
    places = [at for at, event in enumerate(made) if event.type == "ok" and event.f == f]
    for first, second in zip(places[len(places) * 6 // 10 :], places[len(places) * 6 // 10 + apart :], strict=False):
        one, other = made[first].value, made[second].value
        if None not in (one, other) and one != other:
            changed = list(made)
            changed[first] = msgspec.structs.replace(made[first], value=other)
            changed[second] = msgspec.structs.replace(made[second], value=one)
            return changed
    raise ValueError(f"no two answers of {f} differ")


def _changed(
    made: Sequence[Event], f: str, change: Callable[[Any], Any], fits: Callable[[Any], bool] = lambda _: True
) -> list[Event]:
    at = next(
        at
        for at in range(int(len(made) * 0.9), len(made))
        if made[at].f == f and made[at].type == "ok" and fits(made[at].value)
    )
    changed = list(made)
    changed[at] = msgspec.structs.replace(made[at], value=change(made[at].value))
    return changed


def lines(made: Sequence[Event]) -> bytes:
    """As JSON lines, which both engines read."""
    return msgspec.json.Encoder().encode_lines([_without_nothing(event) for event in made])


def _without_nothing(event: Event) -> dict[str, Any]:
    found = msgspec.structs.asdict(event)
    return {name: value for name, value in found.items() if name != "key" or value is not None}
