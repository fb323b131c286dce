"""What the store gives, in the notation of the cases."""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from splitbrain.cluster.tree import (
    Aborted,
    InvalidCommand,
    KeepWhile,
    Nodes,
    Pattern,
    Refused,
    Result,
    Value,
    compiled,
)
from splitbrain.cluster.tree.nodes import Node
from splitbrain.cluster.tree.payloads import Payload
from splitbrain.cluster.tree.transfer import Record
from tests.cluster.tree.notation import (
    Json,
    component_json,
    keep_while_of,
    node_json,
    path_json,
    pattern_of,
    payload_json,
    payload_of,
    plain,
    shown,
)


def refusal_json(result: Result) -> Json:
    """An answer that is none of success."""
    match result:
        case Refused("possibly_matching_many_nodes_denied", path):
            return {"error": {"name": result.reason, "info": {"path": path_json(path)}}}
        case Refused(reason, path):
            info: dict[str, Json] = {}
            if reason in ("node_not_found", "mismatching_node", "denied_execution_of_non_sproc_node"):
                info = _node_info(path) | {"node_is_target": result.is_target}
            if reason == "keep_while_conditions_not_met":
                failed = result.condition if result.matches_nothing is None else result.matches_nothing
                assert failed is not None, "one of them is there"
                info = _node_info(path) | {"keep_while_reason": reason_json(failed)}
            elif result.condition is not None:
                info["condition"] = component_json(result.condition)
            if result.found is not None:
                info["node_props"] = {"payload_version": result.found.payload_version} | _payload_info(
                    result.found.payload
                )
            if reason == "denied_execution_of_non_sproc_node":
                info.pop("node_is_target")
            return {"error": {"name": reason, "info": info}}
        case Aborted(reason):
            return {"error": {"aborted": plain(reason)}}
        case InvalidCommand(problem):
            return {"error": {"name": "invalid_command", "info": {"problem": problem}}}
        case _:
            return {"error": {"name": type(result).__name__, "info": {}}}


def _node_info(path: Pattern) -> dict[str, Json]:
    name = component_json(path[-1]) if path else {"special": "root"}
    return {"node_name": name, "node_path": path_json(path)}


def _payload_info(payload: Payload) -> dict[str, Json]:
    return {} if payload is None else payload_json(payload)


def reason_json(problem: Any) -> Json:
    """Why a node is kept no more."""
    if isinstance(problem, tuple):
        return {"pattern_matches_no_nodes": path_json(problem)}  # pyright: ignore[reportUnknownArgumentType]
    return component_json(problem)


def got(op: Json, result: Result) -> Json:
    """The answer to a query of one node."""
    if not isinstance(result, Nodes):
        return refusal_json(result)
    if op.get("adv"):
        return {"ok": {"nodes": list(map(node_json, result.nodes))}}
    if not result.nodes:
        return {"error": {"name": "mismatching_node", "info": {}}}
    return {"ok": payload_json(result.nodes[0].payload)}


def many(op: Json, result: Result) -> Json:
    """The answer to a query of many nodes."""
    if not isinstance(result, Nodes):
        return refusal_json(result)
    if op.get("adv"):
        return {"ok": {"nodes": list(map(node_json, result.nodes))}}
    nodes: list[Json] = []
    for node in result.nodes:
        payload = payload_json(node.payload)
        if "default" in op and payload == {"none": True}:
            payload = {"data": op["default"]}
        nodes.append({"path": path_json(node.path)} | payload)
    return {"ok": {"nodes": nodes}}


def fold(name: str, fun: Json, result: Result) -> Json:
    """The answer to a fold, a map or a filter."""
    if not isinstance(result, Nodes):
        return refusal_json(result)
    if isinstance(fun, dict) and result.nodes:
        return {"throw": fun["throw"]} if "throw" in fun else {"error": {"aborted": fun["abort"]}}
    if name == "fold":
        return {"ok": {"paths": sorted((path_json(node.path) for node in result.nodes), key=str)}}
    if name == "filter":
        kept = [node for node in result.nodes if node.path[-1:] == (":baz",)]
        return {"ok": {"nodes": [{"path": path_json(node.path)} | payload_json(node.payload) for node in kept]}}
    values: list[Json] = []
    for node in result.nodes:
        payload = payload_json(node.payload)
        value = {"$tuple": ["data", payload["data"]]} if "data" in payload else "nodata"
        values.append({"path": path_json(node.path), "value": value})
    return {"ok": {"values": values}}


def transacted(result: Result, ops: Json) -> Json:
    """The answer to a transaction."""
    if not isinstance(result, Value):
        return refusal_json(result)
    value = msgspec.msgpack.decode(result.data)
    if not (isinstance(value, list) and len(value) == 2 and value[0] in ("last", "given")):
        return {"ok": {"value": shown(value)}}
    return {"ok": {"value": shown(value[1])} if value[0] == "given" else _last(value[1], ops[-1] if ops else {})}


def _last(value: Json, op: Json) -> Json:
    """The result of the last operation of a transaction."""
    match value:
        case ["value", given]:
            return {"ok": given}
        case ["default", given]:
            return {"ok": {"data": shown(given)}}
        case ["done"]:
            return {"ok": True}
        case ["folded", name, nodes]:
            return fold(name, op["fun"], msgspec.convert(nodes, Nodes))
        case ["nodes", *_]:
            nodes = msgspec.convert(value, Nodes)
            if op["op"] == "get":
                return got(op, nodes)
            if op["op"].startswith("get_many"):
                return many(op, nodes)
            return {"ok": {"nodes": list(map(node_json, nodes.nodes))}} if op.get("adv") else {"ok": True}
        case ["refused", *_]:
            return refusal_json(msgspec.convert(value, Refused))
        case [[*_], payload, *_]:
            payload = None if payload is None else msgspec.convert(payload, Payload)
            return {"ok": payload_json(payload)}
        case _:
            raise AssertionError(f"no operation gives {value!r}")


def subtree(node: Node) -> Json:
    """A node with all below it."""
    children = [[component_json(name), subtree(child)] for name, child in sorted(node.children.items())]
    return {
        "payload_version": node.payload_version,
        "child_list_version": node.child_list_version,
        "payload": payload_json(node.payload),
        "children": children,
    }


def kept_json(keep_while: Iterable[KeepWhile]) -> Json:
    """What keeps a node."""
    return [{"path": path_json(kept.path), "condition": component_json(kept.condition)} for kept in keep_while]


def record_json(record: Record) -> Json:
    """A record of an export."""
    found = {"path": path_json(record.path), "payload": payload_json(record.payload)}
    return found | ({"keep_while": kept_json(record.keep_while)} if record.keep_while else {})


def record_of(record: Json) -> Record:
    """The record that a case has."""
    path = tuple(name for name in compiled(pattern_of(record["path"])) if isinstance(name, str))
    return Record(path, payload_of(record["payload"]), keep_while_of(record.get("keep_while")) or ())


def replaced(value: Json, words: dict[str, str]) -> Json:
    """The same with words replaced."""
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(word, text)
        return value
    if isinstance(value, list):
        return [replaced(inner, words) for inner in value]
    if isinstance(value, dict):
        return {key: replaced(inner, words) for key, inner in value.items()}
    return value
