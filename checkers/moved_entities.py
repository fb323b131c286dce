"""Entities that are lost, return or change while they move: the part of the checker `migration` that judges them.

An answer says of some moment of its op that an entity is there, is there with a value, or is not there: a `Fact`. Two
facts that differ contradict each other if the first one's op ended before the second one's began, and nothing that may
have taken effect in between explains the second: for an entity that is gone something that removes it, for one that is
there a declaration of it, of the value that is shown. An entity of a kind in `FIXED` keeps the value that it was made
with, so that another value needs both.

An entity is a list of its kind and its names, and of its value, a dict, where it is declared or shown. One without a
value, as in older histories, is judged by whether it is there. O(n log n) for each entity.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from splitbrain.checkers.by_key import Finding

DECLARE: Final = "declare-entity"
DELETE: Final = "delete-entity"
LOOK: Final = "look-at-entities"

NEVER: Final = 2**62

Entity: TypeAlias = tuple[Any, ...]
State: TypeAlias = str
"""`ABSENT`, `THERE`, or the value that an entity is there with, encoded."""

ABSENT: Final = "absent"
THERE: Final = "there"
"""With any value."""

FIXED: Final = frozenset({"vhost", "exchange", "queue", "binding"})
"""Kinds of which one that is there is not declared with another value: it is removed first."""

_encoder: Final = msgspec.json.Encoder(order="deterministic")


class Call(NamedTuple):
    """An op of a client.

    Attributes:
        f: its function.
        invoke: row of its invocation.
        complete: row of its completion.
        until: the row up to which it may take effect: `NEVER` ends for one of unknown outcome.
        how: ok, fail or info.
        entity: that it is about, without its value; () for others.
        value: what was answered.
        declares: the state that a `declare-entity` makes.
    """

    f: str
    invoke: int
    complete: int
    until: int
    how: str
    entity: Entity
    value: Any
    declares: State = THERE


class Fact(NamedTuple):
    """An answer says, of some moment of its op, how an entity is."""

    call: Call
    state: State
    before: bool = False
    """Whether that is what a `delete-entity` found, and ended: it says nothing of what is after it."""


class Effects:
    """Calls that may do the same."""

    def __init__(self, calls: Collection[Call]) -> None:
        found = sorted(calls, key=lambda call: call.invoke)
        self._invokes = [call.invoke for call in found]
        self._untils = list(accumulate((call.until for call in found), max))

    def may_be_between(self, first: int, second: int) -> bool:
        """Whether one of them may have taken effect after the row `first` and before the row `second`."""
        at = bisect_left(self._invokes, second)
        return at > 0 and self._untils[at - 1] > first


class _Answers:
    """Facts of one state, the earliest answer first."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self._completes = [fact.call.complete for fact in facts]
        self._latest = list(accumulate(facts, lambda one, other: max(one, other, key=lambda fact: fact.call.invoke)))

    def last_before(self, row: int) -> Fact | None:
        """Of those that were answered before a row, the one that was asked for last."""
        at = bisect_left(self._completes, row)
        return self._latest[at - 1] if at else None


def split(entity: Sequence[Any]) -> tuple[Entity, State]:
    """An entity without its value, and the state that it is in with it."""
    *names, last = entity
    if isinstance(last, Mapping):
        return tuple(names), _encoder.encode(last).decode()
    return tuple(entity), THERE


def store_of(call: Call) -> str | None:
    """The store that answered."""
    return call.value.get("store") if isinstance(call.value, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def of_entities(calls: Sequence[Call]) -> Iterator[Finding]:
    """Entities that are lost, return or change; the first finding of each."""
    looks = [call for call in calls if call.f == LOOK and call.how == "ok"]
    seen = [dict(map(split, look.value["entities"])) for look in looks]
    passing = _passing(calls)
    own: dict[Entity, list[Call]] = {}
    removing: dict[Entity, list[Call]] = {}
    for call in calls:
        if call.entity:
            own.setdefault(call.entity, []).append(call)
            if _may_remove(call):
                removing.setdefault(call.entity, []).append(call)
    for entity, about in own.items():
        shown = (Fact(look, there.get(entity, ABSENT)) for look, there in zip(looks, seen, strict=True))
        facts = sorted([*_facts(about), *shown], key=lambda fact: fact.call.complete)
        makes = [call for call in about if call.f == DECLARE and call.how != "fail"]
        removes = [call for deleted, some in removing.items() if removes_too(deleted, entity, passing) for call in some]
        found = _OfEntity(entity, facts, makes, removes).contradiction()
        if found is not None:
            yield found


def _passing(calls: Sequence[Call]) -> frozenset[Entity]:
    """Virtual host and name of exchanges that may have been declared to go with their last binding."""
    return frozenset(
        call.entity[1:3]
        for call in calls
        if call.entity[:1] == ("exchange",) and (call.entity[-1] is True or _says(call.declares, "auto_delete"))
    )


def _says(declares: State, what: str) -> bool:
    """Whether a value is declared in which that is so."""
    return declares != THERE and bool(msgspec.json.decode(declares).get(what))


def _facts(about: Sequence[Call]) -> Iterator[Fact]:
    for call in about:
        if call.how != "ok":
            continue
        if call.f == DECLARE:
            yield Fact(call, call.declares)
        else:
            yield Fact(call, THERE if call.value["was_there"] else ABSENT, before=True)
            yield Fact(call, ABSENT)


def _may_remove(call: Call) -> bool:
    return call.f == DELETE and (call.how == "info" or (call.how == "ok" and bool(call.value["was_there"])))


class _OfEntity:
    """What is known of one entity.

    Args:
        entity: without its value.
        facts: in the order of answers.
        makes: declarations of it that may have taken effect.
        removes: deletions that may have removed it.
    """

    def __init__(self, entity: Entity, facts: Sequence[Fact], makes: Sequence[Call], removes: Sequence[Call]) -> None:
        self._entity = entity
        self._facts = facts
        self._makes = makes
        self._removes = Effects(removes)
        states = dict.fromkeys(fact.state for fact in facts)
        lasting = [fact for fact in facts if not fact.before]
        self._answers = {state: _Answers([fact for fact in lasting if fact.state == state]) for state in states}
        self._made = {
            state: Effects([call for call in makes if _agree(call.declares, state)]) for state in (*states, THERE)
        }

    def contradiction(self) -> Finding | None:
        """The first answer that cannot be right."""
        for later in self._facts:
            if later.state == ABSENT and later.call.f == DELETE and not later.before:
                continue  # that it is not there then is its own doing
            found = self._of_start(later) or self._of_earlier(later)
            if found is not None:
                return found
        return None

    def _of_start(self, later: Fact) -> Finding | None:
        """It is there, and nothing can have made it so since the run began."""
        call = later.call
        if later.state == ABSENT or self._made[later.state].may_be_between(-1, call.complete):
            return None
        rows = (call.invoke, call.complete)
        if not self._made[THERE].may_be_between(-1, call.complete):
            said = f"Returned: an answer of the {store_of(call)} shows {self._name}, and nothing can have made it."
            return Finding("returned", said, rows)
        said = (
            f"Changed: {self._name} was declared as {self._declared(-1, call.complete)} only, and an answer of the "
            f"{store_of(call)} shows it as {later.state}."
        )
        return Finding("changed", said, rows)

    def _of_earlier(self, later: Fact) -> Finding | None:
        """It differs from an earlier answer, and nothing can have come between that explains it."""
        for state, answers in self._answers.items():
            if _agree(state, later.state):
                continue
            earlier = answers.last_before(later.call.invoke)
            if earlier is not None and not self._explained(earlier, later):
                return self._finding(earlier, later)
        return None

    def _explained(self, earlier: Fact, later: Fact) -> bool:
        between = (earlier.call.invoke, later.call.complete)
        is_removed = self._removes.may_be_between(*between)
        if later.state == ABSENT:
            return is_removed
        if earlier.state != ABSENT and self._entity[0] in FIXED and not is_removed:
            return False
        return later.call.f == DECLARE or self._made[later.state].may_be_between(*between)

    def _finding(self, earlier: Fact, later: Fact) -> Finding:
        name, store = self._name, store_of(later.call)
        rows = (earlier.call.complete, later.call.invoke, later.call.complete)
        was = f"by an answer of the {store_of(earlier.call)}"
        between = (earlier.call.invoke, later.call.complete)
        if later.state == ABSENT:
            said = f"{name} was there, {was}, nothing can have removed it since, and an answer of the {store} lacks it."
            return Finding("lost", f"Lost: {said}", rows)
        if earlier.state == ABSENT and not self._made[THERE].may_be_between(*between):
            said = (
                f"{name} was not there, {was}, nothing can have made it since, and an answer of the {store} shows it."
            )
            return Finding("returned", f"Returned: {said}", rows)
        if earlier.state == ABSENT:
            can = f"since then it can have been declared as {self._declared(*between)} only"
            said = f"{name} was not there, {was}, {can}, and an answer of the {store} shows it as {later.state}."
        else:
            done = "took a declaration of it" if later.call.f == DECLARE else "shows it"
            can = "nothing can have changed that since"
            said = f"{name} was {earlier.state}, {was}, {can}, and an answer of the {store} {done} as {later.state}."
        return Finding("changed", f"Changed: {said}", rows)

    @property
    def _name(self) -> str:
        return " ".join(map(str, self._entity))

    def _declared(self, first: int, second: int) -> str:
        """The values of declarations that may have taken effect between two rows."""
        some = (call.declares for call in self._makes if call.invoke < second and call.until > first)
        return " or ".join(dict.fromkeys(some))


def _agree(one: State, other: State) -> bool:
    """Whether two facts may be of the same state."""
    return one == other or (THERE in (one, other) and ABSENT not in (one, other))


def removes_too(deleted: Entity, entity: Entity, passing: Collection[Entity] = ()) -> bool:
    """Whether what is deleted may take an entity with it, or is it.

    Args:
        deleted: it was there.
        entity: another one, or the same.
        passing: virtual host and name of exchanges that go with their last binding. What may take a binding may take
            one of these, and what needs it.
    """
    if deleted == entity:
        return True
    match deleted, entity:
        case ("vhost", v), (kind, w, *_):
            return kind not in OF_ALL_VHOSTS and v == w
        case ("user", u), ("permission" | "topic_permission", _, w, *_):
            return u == w
        case ("queue", v, q), ("binding", w, _, "queue", end, *_) if (v, q) == (w, end):
            return True
        case ("exchange", v, x, *_), _ if needs_exchange(entity, (v, x)):
            return True
        case ("queue" | "exchange" | "binding", v, *_), _:
            return any(v == exchange[0] and needs_exchange(entity, exchange, bound=False) for exchange in passing)
        case _:
            return False


OF_ALL_VHOSTS: Final = frozenset({"vhost", "user", "global_parameter", "maintenance"})
"""Kinds that are in no virtual host."""


def needs_exchange(entity: Entity, exchange: Entity, *, bound: bool = True) -> bool:
    """Whether an entity goes with an exchange, given by its virtual host and name, or is it.

    Args:
        entity: which.
        exchange: that goes.
        bound: whether it may still have bindings from it when it goes.
    """
    match entity:
        case ("exchange", v, x, *_) | ("topic_permission", v, _, x):
            return exchange == (v, x)
        case ("binding", v, source, kind, end, *_):
            return (bound and exchange == (v, source)) or (kind == "exchange" and exchange == (v, end))
        case _:
            return False
