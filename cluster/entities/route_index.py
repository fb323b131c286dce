"""The index of bindings by routing key, for exchanges that compare keys as a whole: not headers and topic (DB-8).

    route_index_v1   [[V, X, KEY], KIND, DESTINATION, ARGUMENTS], a bag

Two bindings that differ in arguments alone are two records: without the arguments in it, the end of one would take the
other away as well (rabbitmq-server #14533).
"""

# A projection is given values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.entities.store import Operation

TABLE: Final = "route_index_v1"
PROJECT: Final = Operation("project_route_index", 1)


def arguments_of(node: Any) -> Any:
    """The arguments of the bindings that a node holds."""
    return [] if node is None or node["value"] is None else node["value"]["arguments"]


def project(table: Any, path: Any, before: Any, after: Any) -> None:
    """Have the table follow the node of a binding."""
    if _is_indexed(before, after):
        vhost, source, kind, destination, key = path[2:]
        old, new = arguments_of(before), arguments_of(after)
        for arguments in old:
            if arguments not in new:
                table.delete_record([[vhost, source, key], kind[1:], destination, arguments])
        for arguments in new:
            if arguments not in old:
                table.insert([[vhost, source, key], kind[1:], destination, arguments])


def project_ends_alone(table: Any, path: Any, before: Any, after: Any) -> None:
    """With M57: the same without the arguments, so that several bindings share a record."""
    if _is_indexed(before, after):
        vhost, source, kind, destination, key = path[2:]
        record = [[vhost, source, key], kind[1:], destination, b""]
        old, new = arguments_of(before), arguments_of(after)
        if any(arguments not in old for arguments in new):
            table.insert(record)
        if any(arguments not in new for arguments in old):
            table.delete_record(record)


def _is_indexed(before: Any, after: Any) -> bool:
    node = before if after is None else after
    return node["value"] is not None and node["value"]["type"] not in ("headers", "topic")
