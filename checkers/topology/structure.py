"""Entities of a message broker as lists: what each needs, and where messages go.

["vhost", v]   ["user", u]   ["permission", v, u]   ["policy", v, p]   ["queue", v, q]   ["exclusive", v, q, owner]
["exchange", v, x, type]   ["exchange", v, x, type, true], which goes with its last binding
["binding", v, x, kind, destination, key, number]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Entity: TypeAlias = Sequence[Any]
Id: TypeAlias = tuple[Any, ...]
"""Which entity it is: kind and names, without what else is said of it."""


def id_of(entity: Entity) -> Id:
    """Which entity it is; the type of an exchange does not count."""
    return tuple(entity[:3]) if entity[0] == "exchange" else tuple(entity)


def needs(entity: Id) -> tuple[Id, ...]:
    """What has to be there for it, directly."""
    match entity:
        case ("permission", v, u):
            return (("vhost", v), ("user", u))
        case ("exchange" | "queue" | "policy", v, _) | ("exclusive", v, _, _):
            return (("vhost", v),)
        case ("binding", v, x, kind, end, _, _):
            return (("exchange", v, x), (kind, v, end))
        case _:
            return ()


def all_needs(entity: Id) -> tuple[Id, ...]:
    """The same with what these need."""
    found: dict[Id, None] = {}
    pending = list(needs(entity))
    while pending:
        need = pending.pop()
        found[need] = None
        pending.extend(needs(need))
    return tuple(found)


def dangling(entities: Iterable[Entity]) -> list[tuple[Id, Id]]:
    """Entities whose needs are not there, each with the first that is missing."""
    there = {id_of(entity): None for entity in entities}
    return [(found, need) for found in there for need in needs(found) if need not in there]


def routes_of(entities: Iterable[Entity], asked: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The routes `[v, x, key, queues]` that these exchanges and bindings give, for v, x and key of those asked for."""
    types: dict[tuple[Any, Any], str] = {}
    bound: dict[tuple[Any, Any], list[Entity]] = {}
    queues: dict[tuple[Any, Any], None] = {}
    for entity in entities:
        if entity[0] == "exchange":
            types[entity[1], entity[2]] = entity[3]
        elif entity[0] == "queue":
            queues[entity[1], entity[2]] = None
        elif entity[0] == "binding":
            bound.setdefault((entity[1], entity[2]), []).append(entity)
    routes: list[list[Any]] = []
    for v, x, key, *_ in asked:
        reached: dict[Any, None] = {x: None}
        pending, found = [x], dict[Any, None]()
        while pending:
            exchange = pending.pop()
            for _, _, _, kind, end, pattern, number in bound.get((v, exchange), ()):
                if not leads(types.get((v, exchange), ""), pattern, key, number):
                    continue
                if kind == "exchange" and end not in reached:
                    reached[end] = None
                    pending.append(end)
                elif kind == "queue" and (v, end) in queues:
                    found[end] = None
        routes.append([v, x, key, sorted(found)])
    return routes


def source_of(binding: Entity) -> Id:
    """Which exchange a binding is from."""
    return ("exchange", *binding[1:3])


def goes_with_its_last_binding(entity: Entity) -> bool:
    """Whether it is an exchange that deletes itself."""
    return entity[0] == "exchange" and len(entity) > 4 and entity[4] is True


def leads(kind: str, pattern: str, key: str, number: Any) -> bool:
    """Whether a binding of an exchange of this type leads on a message with this key; an unknown type leads nowhere.

    Messages have the number 0 in their headers, and bindings their number in what they ask of these.
    """
    if kind == "headers":
        return bool(number == 0)
    if kind == "topic":
        return _matches(pattern.split(".") if pattern else [], key.split(".") if key else [])
    return kind == "fanout" or (kind == "direct" and pattern == key)


def _matches(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """`*` stands for one word, `#` for any number of them."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_matches(pattern[1:], words[taken:]) for taken in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _matches(pattern[1:], words[1:])


def words_for(entity: Id) -> str:
    """An entity in words."""
    match entity:
        case ("binding", v, x, kind, end, key, number):
            return f"binding {number} of exchange {x!r} to {kind} {end!r} by {key!r} in vhost {v!r}"
        case ("permission", v, u):
            return f"the permission of user {u!r} in vhost {v!r}"
        case ("exclusive", v, q, owner):
            return f"queue {q!r} of connection {owner!r} in vhost {v!r}"
        case (kind, v, name):
            return f"{kind} {name!r} in vhost {v!r}"
        case (kind, name):
            return f"{kind} {name!r}"
        case _:
            return repr(entity)
