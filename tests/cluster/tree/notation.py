"""The notation of the conformance cases: values, paths, conditions, and what the store gives, from and to JSON.

A value of the cases is stored as the JSON that stands for it, in msgpack: so symbols, byte strings and tuples, which
msgpack does not have, stay different. In patterns `$any` and `$var` become the store's wildcards.
"""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final

import msgspec

from splitbrain.cluster.tree import (
    ANY,
    DEFAULT_PROPERTIES,
    Compare,
    Component,
    FoundNode,
    IfAll,
    IfAny,
    IfChildListLength,
    IfChildListVersion,
    IfDataMatches,
    IfHasData,
    IfHasPayload,
    IfHasProcedure,
    IfNameMatches,
    IfNodeExists,
    IfNot,
    IfPathMatches,
    IfPayloadVersion,
    KeepWhile,
    Path,
    Pattern,
    Payload,
    Procedure,
    Properties,
    is_symbol,
    name_text,
    parse_pattern,
    symbol,
    text_name,
    variable,
)

Json = Any

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")

SPECIALS: Final = {"root": "/", "this": ".", "parent": ".."}
_NAMES_OF_SPECIALS: Final = {component: name for name, component in SPECIALS.items()}

_YES: Final = {
    "if_has_payload": IfHasPayload,
    "if_has_data": IfHasData,
    "if_has_sproc": IfHasProcedure,
    "if_node_exists": IfNodeExists,
}
_NUMBERS: Final = {
    "if_payload_version": IfPayloadVersion,
    "if_child_list_version": IfChildListVersion,
    "if_child_list_length": IfChildListLength,
}
_REGEXES: Final = {"if_name_matches": IfNameMatches, "if_path_matches": IfPathMatches}
_LISTS: Final = {"if_all": IfAll, "if_any": IfAny}


class NotInNotationError(Exception):
    """What a case has is no path or condition at all."""


# --- values -------------------------------------------------------------------------------------------------------


def encoded(value: Json) -> bytes:
    """A value as it is stored."""
    return _encoder.encode(stored(value))


def plain(value: bytes) -> Json:
    """The value that is stored."""
    return shown(msgspec.msgpack.decode(value))


def stored(value: Json) -> Json:
    """A value in the form in which it is stored: a tuple is a list, and a list a map."""
    if isinstance(value, list):
        return {"$list": [stored(inner) for inner in value]}
    if isinstance(value, dict):
        if "$tuple" in value:
            return [stored(inner) for inner in value["$tuple"]]
        return {key: stored(inner) for key, inner in value.items()}
    return value


def shown(value: Json) -> Json:
    """The inverse."""
    if isinstance(value, list):
        return {"$tuple": [shown(inner) for inner in value]}
    if isinstance(value, dict):
        return (
            [shown(inner) for inner in value["$list"]] if "$list" in value else {k: shown(v) for k, v in value.items()}
        )
    return value


def data_pattern(value: Json) -> Json:
    """A pattern of data, with the store's wildcards."""
    if isinstance(value, dict):
        if value == {"$any": True}:
            return ANY
        if "$var" in value:
            return variable(str(value["$var"]))
        return {key: data_pattern(inner) for key, inner in value.items()}
    return [data_pattern(inner) for inner in value] if isinstance(value, list) else value


def payload_of(payload: Json) -> Payload:
    """The payload of an operation."""
    if "data" in payload:
        return encoded(payload["data"])
    if "none" in payload:
        return None
    return Procedure("conformance.stored", 1, _encoder.encode(procedure_data(payload["sproc"])))


def procedure_data(procedure: Json) -> Json:
    """What a stored procedure is to do, as its function reads it."""
    if "tx" in procedure:
        return {"tx": transaction_data(procedure["tx"], procedure.get("return", "last"))}
    return stored(procedure)


def transaction_data(ops: Json, returns: Json) -> Json:
    """Operations of a transaction, as its function reads them."""
    return {"ops": list(map(_op_data, ops)), "returns": returns if returns == "last" else stored(returns)}


def _op_data(op: Json) -> Json:
    data: dict[str, Json] = {key: op[key] for key in ("op", "adv") if key in op}
    options = op.get("options", {})
    if "path" in op:
        data["path"] = pattern_of(op["path"])
    if "payload" in op:
        payload = op["payload"]
        data["payload"] = {"data": stored(payload["data"])} if "data" in payload else {"is": payload_of(payload)}
    if "pattern" in op:
        data["pattern"] = stored(data_pattern(op["pattern"]))
    for key in ("default", "reason", "fun"):
        if key in op:
            data[key] = stored(op[key])
    data["one_only"] = options.get("expect_specific_node", False)
    data["include_root"] = options.get("include_root_props", False)
    data["returns"] = options.get("props_to_return", DEFAULT_PROPERTIES)
    keep_while = keep_while_of(options.get("keep_while"))
    data["keep_while"] = None if keep_while is None else [[each.path, each.condition] for each in keep_while]
    return data


# --- paths and conditions -----------------------------------------------------------------------------------------


def pattern_of(path: Json) -> Pattern:
    """A path of a case."""
    if isinstance(path, str):
        return parse_pattern(path)
    if not isinstance(path, list):
        raise NotInNotationError(f"{path!r} is no path")
    return tuple(map(component_of, path))


def component_of(component: Json) -> Component:
    """A component of a path, or a condition."""
    if isinstance(component, str):
        return symbol(component)
    (kind, value), *_ = component.items()
    if kind == "$bin":
        return text_name(value)
    if kind == "special":
        return SPECIALS[value]
    if kind in _YES:
        return _YES[kind](value)
    if kind in _NUMBERS:
        return _NUMBERS[kind](Compare(*next(iter(value.items()))) if isinstance(value, dict) else value)
    if kind in _REGEXES:
        return _REGEXES[kind](value.get("regex"))
    if kind == "if_not":
        return IfNot(component_of(value))
    if kind in _LISTS:
        return _LISTS[kind](tuple(map(component_of, value)))
    if kind == "if_data_matches":
        guards = [[name, *map(data_pattern, arguments)] for name, *arguments in value.get("guards", ())]
        return IfDataMatches(encoded(data_pattern(value["pattern"])), encoded(guards) if guards else b"")
    raise NotInNotationError(f"{component!r} is no component")


def keep_while_of(conditions: Json) -> tuple[KeepWhile, ...] | None:
    """What keeps a node."""
    if conditions is None:
        return None
    return tuple(KeepWhile(pattern_of(each["path"]), component_of(each["condition"])) for each in conditions)


def component_json(component: Component) -> Json:
    """A component, or a condition, as the cases write it."""
    match component:
        case str():
            if component in _NAMES_OF_SPECIALS:
                return {"special": _NAMES_OF_SPECIALS[component]}
            return name_text(component) if is_symbol(component) else {"$bin": name_text(component)}
        case IfNameMatches(regex) | IfPathMatches(regex):
            kind = "if_name_matches" if isinstance(component, IfNameMatches) else "if_path_matches"
            return {kind: {"any": True} if regex is None else {"regex": regex}}
        case IfNot(condition):
            return {"if_not": component_json(condition)}
        case IfAll(conditions) | IfAny(conditions):
            return {"if_all" if isinstance(component, IfAll) else "if_any": list(map(component_json, conditions))}
        case IfDataMatches(pattern):
            return {"if_data_matches": {"pattern": plain(pattern)}}
        case IfPayloadVersion(number) | IfChildListVersion(number) | IfChildListLength(number):
            kind = next(name for name, made in _NUMBERS.items() if isinstance(component, made))  # pyright: ignore[reportUnnecessaryIsInstance]
            return {kind: {number.relation: number.number} if isinstance(number, Compare) else number}
        case IfHasPayload(yes) | IfHasData(yes) | IfHasProcedure(yes) | IfNodeExists(yes):
            return {next(name for name, made in _YES.items() if isinstance(component, made)): yes}  # pyright: ignore[reportUnnecessaryIsInstance]


def path_json(path: Pattern | Path) -> Json:
    """A path as the cases write it."""
    return [component_json(component) for component in path]


# --- nodes --------------------------------------------------------------------------------------------------------


def payload_json(payload: Payload) -> Json:
    """A payload that a query gave."""
    if payload is None:
        return {"none": True}
    return {"data": plain(payload)} if isinstance(payload, bytes) else {"sproc": True}


def node_json(node: FoundNode) -> Json:
    """A node of a detailed answer."""
    shown: dict[str, Json] = {"path": path_json(node.path)}
    if node.payload is not None:
        shown |= payload_json(node.payload)
    for name in ("payload_version", "child_list_version", "child_list_length", "delete_reason"):
        if getattr(node, name) is not None:
            shown[name] = getattr(node, name)
    if node.child_names is not None:
        shown["child_names"] = list(map(component_json, node.child_names))
    return shown


def properties_of(node: Json) -> Properties:
    """The node of `condition_is_met`."""
    return Properties(
        payload_of(node["payload"]),
        node.get("payload_version", 1),
        node.get("child_list_version", 1),
        node.get("child_list_length", 0),
    )
