"""A broker in memory as simple as can be: sets of tuples, written from DB-1 to DB-6 alone.

After each operation it removes, again and again, whatever lacks something that it needs. An answer is what the
operation gives, or the first word of the error that it raises.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

STANDARD = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}

Arguments: TypeAlias = tuple[tuple[str, Any], ...]
Bound: TypeAlias = tuple[str, str, str, str, str, Any]
"""Virtual host, source, kind, destination, key, and arguments with the names of their types."""


def typed(arguments: Any) -> Any:
    """Arguments that differ where types do: to Python 1 and True are equal."""
    return tuple(sorted((name, type(value).__name__, value) for name, value in dict(arguments).items()))


@dataclass
class Broker:
    vhosts: set[str] = field(default_factory=set[str])
    users: set[str] = field(default_factory=set[str])
    permissions: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    topic_permissions: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    exchanges: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict[tuple[str, str], tuple[str, bool]])
    queues: dict[tuple[str, str], tuple[bool, str | None, str, Any]] = field(
        default_factory=dict[tuple[str, str], tuple[bool, "str | None", str, Any]]
    )
    bindings: set[Bound] = field(default_factory=set[Bound])
    policies: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    bound_once: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def settle(self) -> None:
        while True:
            before = self.shape()
            self.permissions = {(v, u) for v, u in self.permissions if v in self.vhosts and u in self.users}
            self.policies = {(v, name) for v, name in self.policies if v in self.vhosts}
            self.topic_permissions = {
                (v, u, x) for v, u, x in self.topic_permissions if u in self.users and (v, x) in self.exchanges
            }
            self.queues = {(v, q): found for (v, q), found in self.queues.items() if v in self.vhosts}
            self.exchanges = {(v, x): found for (v, x), found in self.exchanges.items() if self.is_kept(v, x)}
            self.bound_once = {end for end in self.bound_once if end in self.exchanges}
            self.bindings = {
                each
                for each in self.bindings
                if (each[0], each[1]) in self.exchanges and (each[0], each[3]) in self.ends(each[2])
            }
            if self.shape() == before:
                return

    def is_kept(self, v: str, x: str) -> bool:
        if v not in self.vhosts:
            return False
        deletes_itself = self.exchanges[v, x][1] and (v, x) in self.bound_once
        return not deletes_itself or any(each[:2] == (v, x) for each in self.bindings)

    def ends(self, kind: str) -> Any:
        return self.queues if kind == "queue" else self.exchanges

    def shape(self) -> Any:
        return {
            "vhosts": sorted(self.vhosts),
            "users": sorted(self.users),
            "permissions": sorted(self.permissions),
            "topic_permissions": sorted(self.topic_permissions),
            "exchanges": sorted((*end, *found) for end, found in self.exchanges.items()),
            "queues": sorted((*end, *map(repr, found)) for end, found in self.queues.items()),
            "bindings": sorted(self.bindings, key=repr),
            "policies": sorted(self.policies),
        }

    # --- operations ---------------------------------------------------------------------------------------------------

    def declare_vhost(self, v: str) -> Any:
        if v not in self.vhosts:
            self.vhosts.add(v)
            self.exchanges.update({(v, x): (kind, False) for x, kind in STANDARD.items()})

    def delete_vhost(self, v: str) -> Any:
        if v not in self.vhosts:
            return "not_found"
        self.vhosts.remove(v)
        return None

    def add_user(self, u: str) -> Any:
        if u in self.users:
            return "exists"
        self.users.add(u)
        return None

    def delete_user(self, u: str) -> Any:
        if u not in self.users:
            return "not_found"
        self.users.remove(u)
        return None

    def grant(self, v: str, u: str) -> Any:
        if v not in self.vhosts or u not in self.users:
            return "not_found"
        self.permissions.add((v, u))
        return None

    def revoke(self, v: str, u: str) -> Any:
        was_there = (v, u) in self.permissions
        self.permissions.discard((v, u))
        return was_there

    def grant_topic(self, v: str, u: str, x: str) -> Any:
        if u not in self.users or (v, x) not in self.exchanges:
            return "not_found"
        self.topic_permissions.add((v, u, x))
        return None

    def set_policy(self, v: str, name: str) -> Any:
        if v not in self.vhosts:
            return "not_found"
        self.policies.add((v, name))
        return None

    def declare_exchange(self, v: str, x: str, kind: str, *, auto_delete: bool) -> Any:
        if v not in self.vhosts:
            return "not_found"
        if self.exchanges.setdefault((v, x), (kind, auto_delete)) != (kind, auto_delete):
            return "precondition_failed"
        return None

    def delete_exchange(self, v: str, x: str, *, if_unused: bool) -> Any:
        if (v, x) not in self.exchanges:
            return False
        if if_unused and any(each[:2] == (v, x) for each in self.bindings):
            return "precondition_failed"
        del self.exchanges[v, x]
        return True

    def declare_queue(
        self, v: str, q: str, *, durable: bool, owner: str | None, node: str, arguments: Arguments
    ) -> Any:
        if v not in self.vhosts:
            return "not_found"
        there = self.queues.setdefault((v, q), (durable, owner, node, typed(arguments)))
        if there[1] != owner:
            return "precondition_failed" if there[1] is None else "resource_locked"
        return None if (there[0], there[3]) == (durable, typed(arguments)) else "precondition_failed"

    def delete_queue(self, v: str, q: str, owner: str | None) -> Any:
        if (v, q) not in self.queues:
            return False
        if self.queues[v, q][1] not in (None, owner):
            return "resource_locked"
        del self.queues[v, q]
        return True

    def delete_exclusive(self, owner: str) -> Any:
        return self.delete_queues([end for end, found in self.queues.items() if found[1] == owner])

    def delete_transient(self, node: str) -> Any:
        return self.delete_queues([end for end, found in self.queues.items() if not found[0] and found[2] == node])

    def delete_queues(self, ending: list[tuple[str, str]]) -> int:
        for end in ending:
            del self.queues[end]
        return len(ending)

    def bind(self, v: str, x: str, kind: str, end: str, key: str, arguments: Arguments, owner: str | None) -> Any:
        if (v, x) not in self.exchanges or (v, end) not in self.ends(kind):
            return "not_found"
        if kind == "queue" and self.queues[v, end][1] not in (None, owner):
            return "resource_locked"
        bound = (v, x, kind, end, key, typed(arguments))
        is_new = bound not in self.bindings
        if is_new:
            self.bindings.add(bound)
            self.bound_once.add((v, x))
        return is_new

    def unbind(self, v: str, x: str, kind: str, end: str, key: str, arguments: Arguments) -> Any:
        wanted = (v, x, kind, end, key, typed(arguments))
        was_there = wanted in self.bindings
        self.bindings.discard(wanted)
        return was_there

    # --- routing ------------------------------------------------------------------------------------------------------

    def route(self, v: str, x: str, key: str, headers: dict[str, Any], seen: tuple[str, ...] = ()) -> set[str]:
        if x == "":
            return {key} if (v, key) in self.queues else set()
        if (v, x) not in self.exchanges or x in seen:
            return set()
        found: set[str] = set()
        for _, _, kind, end, bound, arguments in (each for each in self.bindings if each[:2] == (v, x)):
            if not leads(self.exchanges[v, x][0], bound, arguments, key, headers):
                continue
            found |= {end} if kind == "queue" else self.route(v, end, key, headers, (*seen, x))
        return found


def leads(kind: str, bound: str, arguments: Any, key: str, headers: dict[str, Any]) -> bool:
    """Whether a binding of an exchange of this type leads a message on."""
    if kind == "direct":
        return bound == key
    if kind == "topic":
        return matches_words(bound.split(".") if bound else [], key.split(".") if key else [])
    return kind == "fanout" or matches_headers({name: value for name, _, value in arguments}, headers)


def matches_words(pattern: list[str], words: list[str]) -> bool:
    """`*` is one word, `#` any number of them."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(matches_words(pattern[1:], words[taken:]) for taken in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and matches_words(pattern[1:], words[1:])


def matches_headers(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
    """All, or any, of the arguments but `x-match`; those that begin with `x-` only if it says so."""
    how = arguments.pop("x-match", "all")
    if not how.endswith("-with-x"):
        arguments = {name: value for name, value in arguments.items() if not name.startswith("x-")}
    hits = [
        name in headers and (value is None or (type(value), value) == (type(headers[name]), headers[name]))
        for name, value in arguments.items()
    ]
    return any(hits) if how.startswith("any") else all(hits)
