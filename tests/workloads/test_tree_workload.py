"""The workload `tree`: its model is the store's behaviour, what is not is refused, and it finds what is broken."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from splitbrain.checkers.models.catalogue import model
from splitbrain.checkers.models.model import IMPOSSIBLE, UNKNOWN, frozen
from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.tree import NEWEST_VERSION
from splitbrain.cluster.tree.patternindex import PatternIndex
from splitbrain.harness.generators import Context
from splitbrain.harness.systems import metadata_trees
from splitbrain.harness.systems.metadata_session import MetadataSession
from splitbrain.workloads import tree as workload
from tests.cluster.support import World, in_cluster

STEPS = 700


class Draws:
    """A stream of randomness for the makers of ops."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


def ops(seed: int, count: int) -> list[tuple[str, Any]]:
    draws = Draws(seed)
    ctx = cast(Context, type("Ctx", (), {"rng": draws})())
    makers = [workload._put] * 4 + [workload._delete, workload._transact, workload._transact, workload._get]  # pyright: ignore[reportPrivateUsage]
    made = [makers[draws.below(len(makers))](ctx) for _ in range(count)]
    return [(op.f, op.value) for op in made]


def mismatches(bugs: Bugs, seed: int, count: int = STEPS) -> list[str]:
    """Where the answers of one node differ from the model; it ends at the first."""
    found: list[str] = []

    async def check(world: World) -> None:
        await world.in_force(NEWEST_VERSION)
        session = MetadataSession(await world.client("n1"), 5000)
        known = model("tree")
        state = known.init()
        for number, (f, value) in enumerate(ops(seed, count)):
            for each, given in ((f, value), ("list", None)):
                result = (await session.in_tree("t", each, given)).value
                after = known.step(state, each, frozen(given), frozen(result))
                if after is IMPOSSIBLE:
                    found.append(f"{number}: {each} {given} -> {result} of {state}")
                    return
                state = after

    in_cluster(World(["n1"], bugs=bugs), check)
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_kh1_to_kh8_a_node_answers_every_op_as_the_model_says(seed: int) -> None:
    assert mismatches(NO_BUGS, seed) == []


RESULTS: list[tuple[str, Any, Any, Any]] = [
    ("put", ["a/b", 3, None, None], ["ok", [["a/b", None, 1, 1, None]]], ["ok", [["a/b", None, 2, 1, None]]]),
    ("put", ["a", 3, ["update"], None], ["node_not_found"], ["ok", [["a", None, 1, 1, None]]]),
    ("put", ["a", 3, None, ["b", True]], ["keep_while_conditions_not_met"], ["ok", [["a", None, 1, 1, None]]]),
    ("put", ["a", 3, None, ["b/*", True]], ["keep_while_conditions_not_met"], ["ok", [["a", None, 1, 1, None]]]),
    ("put", ["a", 3, None, ["b/*", False]], ["ok", [["a", None, 1, 1, None]]], ["keep_while_conditions_not_met"]),
    ("delete", ["a", None], ["ok", []], ["ok", [["a", 3, 1, 1, "explicit"]]]),
    ("get", "a", None, [3, 1, 1, 0]),
    ("list", None, [], [["a", 3, 1, 1, 0]]),
    ("txn", [["put", "a", 1], ["get", "a", None]], ["ok", [1]], ["ok", [None]]),
    ("txn", [["put", "a", 1], ["update", "b", 1]], ["aborted", 1], ["ok", []]),
]


@pytest.mark.parametrize(("f", "value", "good", "bad"), RESULTS)
def test_the_model_takes_the_right_result_of_the_empty_tree_and_no_other(
    f: str, value: Any, good: Any, bad: Any
) -> None:
    known = model("tree")
    after = known.step(known.init(), f, frozen(value), frozen(good))
    assert after is not IMPOSSIBLE
    assert known.step(known.init(), f, frozen(value), frozen(bad)) is IMPOSSIBLE
    assert known.step(known.init(), f, frozen(value), UNKNOWN) == after


def test_a_node_goes_with_the_last_child_that_its_condition_asks_for_and_not_before() -> None:
    known = model("tree")
    state = known.init()
    steps: list[tuple[str, Any, Any]] = [
        ("put", ["b/a", 1, None, None], ["ok", [["b/a", None, 1, 1, None]]]),
        ("put", ["b/b", 1, None, None], ["ok", [["b/b", None, 1, 1, None]]]),
        ("put", ["a", 2, None, ["b/*", True]], ["ok", [["a", None, 1, 1, None]]]),
        ("delete", ["b/a", None], ["ok", [["b/a", 1, 1, 1, "explicit"]]]),
        ("get", "a", [2, 1, 1, 0]),
        (
            "delete",
            ["b/b", None],
            ["ok", [["a", 2, 1, 1, "keep_while"], ["b", None, 1, 4, "keep_while"], ["b/b", 1, 1, 1, "explicit"]]],
        ),
        ("get", "a", None),
    ]
    for f, value, result in steps:
        state = known.step(state, f, frozen(value), frozen(result))
        assert state is not IMPOSSIBLE, (f, value)


def test_trees_have_conditions_on_one_node_and_on_the_children_of_one() -> None:
    kept = [value[3] for f, value in ops(1, 500) if f == "put" and value[3] is not None]
    kinds = {(path.endswith("*"), yes) for path, yes, *_ in kept}
    assert kinds == {(True, True), (True, False), (False, True), (False, False)}


def test_trees_have_conditions_on_the_version_of_the_node_and_of_those_above_it() -> None:
    kept = [value[3] for f, value in ops(1, 2000) if f == "put" and value[3] is not None and len(value[3]) > 2]
    places = {len(path.split("/")) - depth for path, _, depth, _ in kept}
    assert places == {0, 1, 2, 3}
    assert {version for _, _, _, version in kept} == {1, 2}


def test_a_node_goes_when_a_node_on_the_way_to_what_keeps_it_has_another_version() -> None:
    known = model("tree")
    state = known.init()
    steps: list[tuple[str, Any, Any]] = [
        ("put", ["b/a", 1, None, None], ["ok", [["b/a", None, 1, 1, None]]]),
        ("put", ["a", 2, None, ["b/a", True, 1, 2]], ["keep_while_conditions_not_met"]),
        ("put", ["a", 2, None, ["b/a", True, 1, 1]], ["ok", [["a", None, 1, 1, None]]]),
        ("put", ["b/a", 2, None, None], ["ok", [["b/a", 1, 2, 1, None]]]),
        ("get", "a", [2, 1, 1, 0]),
        ("put", ["b", 3, None, None], ["ok", [["a", 2, 1, 1, "keep_while"], ["b", None, 2, 1, None]]]),
    ]
    for f, value, result in steps:
        state = known.step(state, f, frozen(value), frozen(result))
        assert state is not IMPOSSIBLE, (f, value)


def test_a_tree_that_does_not_look_at_nodes_on_the_way_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    keys_alone: Any = PatternIndex[Any].matching
    monkeypatch.setattr(PatternIndex, "concerned", keys_alone)
    assert mismatches(NO_BUGS, 0) != []


def test_payloads_are_of_all_sizes_and_one_that_was_changed_on_the_way_is_known() -> None:
    sizes = [len(metadata_trees.payload_of(number)) for number in range(workload.PAYLOADS)]
    assert min(sizes) < 4
    assert max(sizes) > 64_000
    for number in range(workload.PAYLOADS):
        text = metadata_trees.payload_of(number)
        assert metadata_trees.number_of(text) == number
        assert metadata_trees.number_of(text + "y") == metadata_trees.number_of("z") == -1
    assert metadata_trees.number_of(None) is None
