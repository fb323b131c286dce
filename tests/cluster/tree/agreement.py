"""Whether a result is as a case expects it."""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import msgspec

from tests.cluster.tree.notation import Json


def agrees(expected: Json, got: Json) -> bool:
    """Whether a result is as a case expects it."""
    if "tree" in expected:
        return "tree" in got and _same_tree(expected["tree"], got["tree"])
    if "ok" in expected:
        if "ok" not in got or not _ok_agrees(expected["ok"], got["ok"]):
            return False
        return "failed" not in expected or _unordered(expected["failed"]) == _unordered(got.get("failed"))
    if "throw" in expected and "value" in expected["throw"]:
        return got.get("throw") == expected["throw"]["value"]
    wanted = expected.get("error", expected.get("exception", expected.get("throw")))
    return "error" in got and _error_agrees(wanted, got["error"])


def _ok_agrees(expected: Json, got: Json) -> bool:
    if isinstance(expected, dict) and isinstance(got, dict):
        if "ok" in expected or "error" in expected:  # of a transaction
            return agrees(expected, got)
        if "nodes_count" in expected:
            return got.get("count") == expected["nodes_count"]
        if "nodes" in expected:
            return _nodes_agree(expected, got.get("nodes"))
        if "executed" in expected:
            return all(got.get(key) == value for key, value in expected.items())
        if expected == {}:
            return True
    return _unordered(expected) == _unordered(got)


def _nodes_agree(expected: Json, got: Json) -> bool:
    if got is None:
        return False
    if not expected.get("partial"):
        return _unordered(expected["nodes"]) == _unordered(got)
    by_path = {str(node["path"]): node for node in got}
    return all(node.items() <= by_path.get(str(node["path"]), {}).items() for node in expected["nodes"])


def _error_agrees(expected: Json, got: Json) -> bool:
    if "aborted" in expected or "aborted" in got:
        return expected.get("aborted") == got.get("aborted")
    if "name" in expected and expected["name"] != got["name"]:
        return False
    wanted, info = expected.get("info", {}), got["info"]
    if expected.get("exact") and sorted(wanted) != sorted(info):
        return False
    return all(_info_agrees(key, value, info.get(key)) for key, value in wanted.items())


def _info_agrees(key: str, expected: Json, got: Json) -> bool:
    if expected == {"invalid": True}:
        return True
    if key == "node_props":
        return isinstance(got, dict) and all(got.get(name) == value for name, value in expected.items())
    return _unordered(expected) == _unordered(got)


def _same_tree(expected: Json, got: Json) -> bool:
    if any(expected[key] != got[key] for key in ("payload_version", "child_list_version")):
        return False
    payloads_agree = expected["payload"] == got["payload"] or (
        "sproc" in expected["payload"] and "sproc" in got["payload"]
    )
    wanted, found = ({str(name): child for name, child in tree["children"]} for tree in (expected, got))
    return payloads_agree and wanted.keys() == found.keys() and all(_same_tree(wanted[n], found[n]) for n in wanted)


def _unordered(value: Json) -> Json:
    """The same value with lists in one order: that of lists in the cases counts in paths only, which stay alike."""
    if isinstance(value, list):
        return sorted(
            (_unordered(inner) for inner in value), key=lambda inner: msgspec.json.encode(inner, order="sorted")
        )
    if isinstance(value, dict):
        return {
            key: inner if key in ("path", "node_path", "pattern") else _unordered(inner) for key, inner in value.items()
        }
    return value
