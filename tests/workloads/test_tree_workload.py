"""The workload `tree`: its model is the store's behaviour, what is not is refused, and it finds what is broken."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from splitbrain.checkers.models.catalogue import model
from splitbrain.checkers.models.model import IMPOSSIBLE, UNKNOWN, frozen
from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.tree import NEWEST_VERSION
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


def test_payloads_are_of_all_sizes_and_one_that_was_changed_on_the_way_is_known() -> None:
    sizes = [len(metadata_trees.payload_of(number)) for number in range(workload.PAYLOADS)]
    assert min(sizes) < 4
    assert max(sizes) > 64_000
    for number in range(workload.PAYLOADS):
        text = metadata_trees.payload_of(number)
        assert metadata_trees.number_of(text) == number
        assert metadata_trees.number_of(text + "y") == metadata_trees.number_of("z") == -1
    assert metadata_trees.number_of(None) is None
