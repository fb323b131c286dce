"""Items of the tree that Khepri's cases show among much else, by themselves: conditions, and D15 to D17."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.tree import (
    NEWEST_VERSION,
    AskNode,
    ClearNodes,
    Compare,
    Component,
    DeleteNodes,
    GetNodes,
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
    Nodes,
    Put,
    PutNodes,
    Refused,
    Tree,
    Value,
    parse_pattern,
)

ONE, TWO = encode_value(1), encode_value(2)


def tree_of(**values: int) -> Tree:
    tree = Tree(version=NEWEST_VERSION)
    for path, value in values.items():
        tree.execute(Put(tuple(path.split("_")), encode_value(value)))
    return tree


def at(path: str, condition: Component | None = None) -> Any:
    """The pattern of a node, which has to meet a condition."""
    *above, last = parse_pattern(path)
    return (*above, last if condition is None else IfAll((last, condition)))


HOLDS: list[tuple[Component, bool]] = [
    (IfHasPayload(True), True),
    (IfHasPayload(False), False),
    (IfHasData(True), True),
    (IfHasProcedure(True), False),
    (IfHasProcedure(False), True),
    (IfDataMatches(ONE), True),
    (IfDataMatches(encode_value(1.0)), False),
    (IfNodeExists(True), True),
    (IfNodeExists(False), False),
    (IfPayloadVersion(1), True),
    (IfPayloadVersion(Compare("gt", 1)), False),
    (IfPayloadVersion(Compare("ge", 1)), True),
    (IfChildListVersion(Compare("ne", 2)), False),
    (IfChildListLength(1), True),
    (IfChildListLength(Compare("lt", 1)), False),
    (IfNameMatches("^a"), True),
    (IfNameMatches("^b"), False),
    (IfPathMatches("^a"), True),
    (IfNot(IfPayloadVersion(1)), False),
    (IfAll(()), True),
    (IfAny(()), False),
    (IfAny((IfPayloadVersion(9), IfHasData(True))), True),
    (IfAll((IfPayloadVersion(1), IfHasData(False))), False),
]


@pytest.mark.parametrize(("condition", "holds"), HOLDS, ids=str)
def test_kh_3_a_condition_holds_of_a_node_or_not(condition: Component, holds: bool) -> None:
    tree = tree_of(a=1)
    tree.execute(Put(("a", "b"), TWO))
    found = tree.query(GetNodes((condition,), many=True))
    assert isinstance(found, Nodes)
    names = [node.path for node in found.nodes if len(node.path) == 1]
    assert names == ([("a",)] if holds else [])


def test_kh_3_a_negation_never_names_one_node() -> None:
    for condition in (IfNot("b"), IfAny(("a", "b"))):
        refused = tree_of(a=1).execute(PutNodes((condition,), TWO))
        assert isinstance(refused, Refused)
        assert refused.reason == "possibly_matching_many_nodes_denied"


WRONG = IfPayloadVersion(9)


def test_d15_a_condition_that_does_not_hold_is_an_error_for_writes_alone() -> None:
    tree = tree_of(a_b=1)
    before = tree.state_hash
    assert tree.execute(DeleteNodes(at("/a/b", WRONG))) == Nodes((), 0)
    assert tree.query(GetNodes(at("/a/b", WRONG))) == Nodes((), 0)
    assert tree.query(AskNode(at("/a/b", WRONG), "exists")) == Value(encode_value(True))
    for refused in (
        tree.query(AskNode(at("/a/b", WRONG), "has_data")),
        tree.execute(PutNodes(at("/a/b", WRONG), TWO)),
        tree.execute(ClearNodes(at("/a/b", WRONG))),
    ):
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.path, refused.condition) == ("mismatching_node", ("a", "b"), WRONG)
    assert tree.state_hash == before


def test_d16_what_keeps_nodes_never_takes_back_that_a_list_of_children_changed() -> None:
    """The command removes one child; what it kept goes in the same command, from the same list: that counts once."""
    tree = tree_of(p_a=1)
    tree.execute(PutNodes(at("/p/b"), ONE, False, (KeepWhile(at("/p/a"), IfNodeExists(True)),)))
    tree.execute(PutNodes(at("/p/c"), ONE, False, (KeepWhile(at("/p/b"), IfNodeExists(True)),)))
    tree.execute(Put(("p", "d"), ONE))
    before = tree.properties(("p",))
    assert before is not None
    tree.execute(DeleteNodes(at("/p/a")))
    after = tree.properties(("p",))
    assert after is not None
    assert [path for path, _ in tree.contents()] == [(), ("p",), ("p", "d")]
    assert (after.child_list_version, after.child_list_length) == (before.child_list_version + 1, 1)


def test_d16_a_child_that_comes_and_goes_in_one_command_counts() -> None:
    tree = tree_of(p_a=1)
    kept = (KeepWhile(at("/p"), IfChildListLength(Compare("le", 2))),)
    assert isinstance(tree.execute(PutNodes(at("/p/b"), ONE, False, kept)), Nodes)
    before = tree.properties(("p",))
    assert before is not None
    tree.execute(Put(("p", "c"), ONE))
    after = tree.properties(("p",))
    assert after is not None
    assert tree.properties(("p", "b")) is None, "with a third child nothing keeps it"
    assert (after.child_list_version, after.child_list_length) == (before.child_list_version + 1, 2)


@pytest.mark.parametrize("command", ["create", "update", "swap", "clear"])
def test_d17_what_needs_a_name_says_so_of_the_root(command: str) -> None:
    tree = tree_of(a=1)
    before = tree.state_hash
    condition = {"create": IfNodeExists(False), "update": IfNodeExists(True), "swap": IfDataMatches(ONE)}.get(command)
    wanted = ClearNodes(()) if condition is None else PutNodes((condition,), TWO)
    refused = tree.execute(wanted)
    assert isinstance(refused, Refused)
    assert refused.reason in ("invalid_path", "possibly_matching_many_nodes_denied")
    assert tree.state_hash == before
