"""The trie of topic bindings (DB-8): words of binding keys lead from node to node, and bindings hang on the last one.

    topic_edges_v1     [[V, X, NODE, WORD], CHILD, COUNT], a set
    topic_bindings_v1  [[V, X, NODE], KIND, DESTINATION, ARGUMENTS], a bag

A node's id is the words that lead to it, each with a dot behind it; the root's is empty. An edge counts the bindings
that lie behind it: an edge with none goes, so a branch that is empty goes up to where another one begins.
"""

# A projection is given values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.entities.route_index import arguments_of
from splitbrain.cluster.entities.store import Operation

EDGES: Final = "topic_edges_v1"
BINDINGS: Final = "topic_bindings_v1"
PROJECT: Final = Operation("project_topic_trie", 1)


def words_of(key: str) -> list[str]:
    """The words of a key, between dots; an empty key has none."""
    return key.split(".") if key else []


def project(tables: Any, path: Any, before: Any, after: Any) -> None:
    """Have the trie follow the node of a binding."""
    node = before if after is None else after
    if node["value"] is None or node["value"]["type"] != "topic":
        return
    vhost, source, kind, destination = path[2:6]
    words = words_of(node["value"]["key"])
    old, new = arguments_of(before), arguments_of(after)
    edges, bindings = tables
    last = "".join([word + "." for word in words])
    for arguments in old:
        if arguments not in new:
            _count(edges, vhost, source, words, -1)
            bindings.delete_record([[vhost, source, last], kind[1:], destination, arguments])
    for arguments in new:
        if arguments not in old:
            _count(edges, vhost, source, words, 1)
            bindings.insert([[vhost, source, last], kind[1:], destination, arguments])


def _count(edges: Any, vhost: Any, source: Any, words: Any, change: int) -> None:
    node = ""
    for word in words:
        key, child = [vhost, source, node, word], node + word + "."
        there = edges.lookup(key)
        count = change + (there[0][2] if there else 0)
        if count:
            edges.insert([key, child, count])
        else:
            edges.delete(key)
        node = child
