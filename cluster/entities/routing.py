"""Where a message goes: through exchanges of every type, from the projections of one member alone (DB-9).

`route` is pure: it yields what it has to look up, a table and a key, and is sent the records. So the same code routes
within a member (`routed`) and from outside (`routed_by`), and a second store needs nothing but tables of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from splitbrain.cluster.entities import bindings, exchanges, queues, route_index, topic_trie
from splitbrain.cluster.entities.headers import matches
from splitbrain.cluster.entities.names import EMPTY, decoded_arguments, node_name
from splitbrain.cluster.entities.store import MetadataStore

Records: TypeAlias = Sequence[Sequence[Any]]
LookUps: TypeAlias = Generator[tuple[str, Any], Records, "list[str]"]
"""Yields a table and a key, is sent the records of it, and gives the names of queues at the end."""

Ends: TypeAlias = Generator[tuple[str, Any], Records, "list[tuple[str, str]]"]
"""The same, of kinds and names of destinations."""

TABLES: Final = (
    *(exchanges.TABLE, queues.TABLE, bindings.BY_SOURCE, route_index.TABLE, topic_trie.EDGES, topic_trie.BINDINGS),
)
"""What is looked into."""

ALTERNATE: Final = "alternate-exchange"
"""The argument of an exchange that names another one: for messages that it routes nowhere."""


def route(vhost: str, exchange: str, key: str, headers: Mapping[str, Any] | None = None) -> LookUps:
    """The queues that a message goes to, sorted by name; no queue twice. An exchange that is not there leads nowhere.

    The default exchange, "", leads to the queue that has the routing key for a name.
    """
    host = node_name(vhost)
    found: dict[str, None] = {}
    pending = [node_name(exchange)]
    visited = dict.fromkeys(pending)
    while pending:
        name = pending.pop()
        ends, alternate = yield from _ends_of(host, name, key, headers or {})
        for kind, destination in ends:
            if kind == "queue":
                found[destination] = None
            elif destination not in visited:
                visited[destination] = None
                pending.append(destination)
        if not ends and alternate is not None and alternate not in visited:
            visited[alternate] = None
            pending.append(alternate)
    names: list[str] = []
    for destination in found:
        records = yield queues.TABLE, [host, destination]
        names.extend(record[1]["name"] for record in records)
    return sorted(names)


def _ends_of(
    host: str, exchange: str, key: str, headers: Mapping[str, Any]
) -> Generator[tuple[str, Any], Records, tuple[list[tuple[str, str]], str | None]]:
    """The destinations that an exchange leads to, and its alternate."""
    if exchange == EMPTY:
        return [("queue", node_name(key))], None
    there = yield exchanges.TABLE, [host, exchange]
    if not there:
        return [], None
    value = there[0][1]
    match value["type"]:
        case "fanout":
            ends = yield from _all_bound(host, exchange)
        case "topic":
            ends = yield from _by_topic(host, exchange, key)
        case "headers":
            ends = yield from _by_headers(host, exchange, headers)
        case _:
            ends = yield from _by_key(host, exchange, key)
    alternate = decoded_arguments(value["arguments"]).get(ALTERNATE)
    return ends, node_name(alternate) if isinstance(alternate, str) and alternate else None


def _by_key(host: str, exchange: str, key: str) -> Ends:
    records = yield route_index.TABLE, [host, exchange, node_name(key)]
    return [(record[1], record[2]) for record in records]


def _all_bound(host: str, exchange: str) -> Ends:
    records = yield bindings.BY_SOURCE, [host, exchange]
    return [(record[1]["kind"], node_name(record[1]["destination"])) for record in records]


def _by_headers(host: str, exchange: str, headers: Mapping[str, Any]) -> Ends:
    records = yield bindings.BY_SOURCE, [host, exchange]
    return [
        (value["kind"], node_name(value["destination"]))
        for _, value in records
        if matches(decoded_arguments(value["arguments"]), headers)
    ]


def _by_topic(host: str, exchange: str, key: str) -> Ends:
    """Walk the trie along the words: `*` stands for one word, `#` for any number of them.

    What is reached twice, by another choice of what `#` stands for, is walked once.
    """
    words = topic_trie.words_of(key)
    ends: dict[tuple[str, str], None] = {}
    pending: list[tuple[str, int]] = [("", 0)]
    reached = dict.fromkeys(pending)
    while pending:
        node, at = pending.pop()
        following: list[tuple[str, int]] = []
        if at == len(words):
            for record in (yield topic_trie.BINDINGS, [host, exchange, node]):
                ends[record[1], record[2]] = None
        else:
            for word in dict.fromkeys((words[at], "*")):
                edges = yield topic_trie.EDGES, [host, exchange, node, word]
                following.extend((edge[1], at + 1) for edge in edges)
        edges = yield topic_trie.EDGES, [host, exchange, node, "#"]
        following.extend((edge[1], end) for edge in edges for end in range(at, len(words) + 1))
        for step in following:
            if step not in reached:
                reached[step] = None
                pending.append(step)
    return list(ends)


def routed(looking_up: LookUps, records: Callable[[str, Any], Records]) -> list[str]:
    """Where a message goes, by what `records` finds: within a member."""
    try:
        wanted = next(looking_up)
        while True:
            wanted = looking_up.send(records(*wanted))
    except StopIteration as end:
        return end.value


async def routed_by(store: MetadataStore, looking_up: LookUps) -> list[str]:
    """The same from outside, by what the member that is asked holds at each look-up.

    Raises:
        UnavailableError: the member does not know yet.
    """
    try:
        wanted = next(looking_up)
        while True:
            wanted = looking_up.send(await store.records(*wanted))
    except StopIteration as end:
        return end.value
