"""Bindings in tables, with the tables that follow from them: by destination, by routing key, and the trie of topics.

In the tree these are projections; here the transaction of the binding keeps them (DB-7).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from splitbrain.cluster.entities.topic_trie import words_of
from splitbrain.cluster.tables.entities.layout import INDEX_ROUTE, REVERSE_ROUTE, ROUTE, TRIE_BINDING, TRIE_EDGE, key
from splitbrain.cluster.tables.entities.transaction import TableTransaction


def link(tx: TableTransaction, route: str, binding: Any) -> None:
    """Add a binding that is not there.

    Args:
        tx: of the operation.
        route: the key in `rabbit_route`.
        binding: the record, with the type of its exchange.
    """
    vhost, _, kind, end, _ = route.split("/")
    tx.insert(ROUTE, route, binding)
    tx.insert(REVERSE_ROUTE, key(vhost, kind, end), route)
    _follow(tx, route, binding, 1)


def unlink(tx: TableTransaction, route: str, binding: Any) -> None:
    """Take a binding away that is there."""
    vhost, _, kind, end, _ = route.split("/")
    tx.remove(ROUTE, route, binding)
    if not tx.values(ROUTE, route):
        tx.remove(REVERSE_ROUTE, key(vhost, kind, end), route)
    _follow(tx, route, binding, -1)


def edge_of(found: str) -> tuple[str, str, str, str]:
    """Virtual host, exchange, node and word of a key of the trie's edges."""
    vhost, exchange, words = found.split("/", 2)
    node, dot, word = words.rpartition(".")
    return vhost, exchange, node + dot, word


def _follow(tx: TableTransaction, route: str, binding: Any, change: int) -> None:
    vhost, source, kind, end, encoded_key = route.split("/")
    record = [kind, end, binding["arguments"]]
    change_bag = tx.insert if change > 0 else tx.remove
    if binding["type"] == "topic":
        words = words_of(binding["key"])
        _count(tx, key(vhost, source, ""), words, change)
        change_bag(TRIE_BINDING, key(vhost, source, "".join(f"{word}." for word in words)), record)
    elif binding["type"] != "headers":
        change_bag(INDEX_ROUTE, key(vhost, source, encoded_key), record)


def _count(tx: TableTransaction, trie: str, words: Sequence[str], change: int) -> None:
    """Count a binding on the way to its node; an edge that leads to none goes."""
    node = ""
    for word in words:
        edge, child = trie + node + word, f"{node}{word}."
        there = tx.get(TRIE_EDGE, edge)
        count = change + (there[1] if there else 0)
        if count:
            tx.put(TRIE_EDGE, edge, [child, count])
        else:
            tx.delete(TRIE_EDGE, edge)
        node = child
