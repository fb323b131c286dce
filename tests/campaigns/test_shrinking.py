"""What shrinking does with a whole finding: a plan of many nodes in a drawn world."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.planned import Guilt, Played
from splitbrain.harness.campaigns.shrinking import Failure, Smallest, failure_of, smallest
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.running.plan import Plan, encode, plan_of
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.simulation.worlds import WORLDS, pinned, world
from splitbrain.results.arrow import from_table
from splitbrain.results.errors import UnknownNameError

SEED: Final = 1
BUDGET_S: Final = 6.0
"""Enough for what is shown here, not for the smallest plan."""


def recorded() -> Plan:
    """What seven nodes did in a drawn world: a leader that was cut off answers reads (M17)."""
    options = RunOptions.of(
        workload="register",
        nemesis="partition-one-way",
        system="metadata",
        backend="sim",
        bug="M17",
        nodes="7",
        rate=50.0,
        time_limit=30.0,
        concurrency="2n",
        interval=8.0,
        op_timeout=2.0,
        recovery=20.0,
        world="swarm",
        seed=SEED,
    )
    test = compose(options)
    left = simulate(test, world=options.world)
    plan = plan_of(from_table(left.history, "history"), test, versions={})
    return msgspec.structs.replace(plan, options=msgspec.to_builtins(options))


@pytest.fixture(scope="module")
def failure(tmp_path_factory: pytest.TempPathFactory) -> Failure:
    path = tmp_path_factory.mktemp("plan") / "seven.json"
    path.write_bytes(encode(recorded()))
    return failure_of(str(path), path.parent)


@pytest.fixture(scope="module")
def shrunk(failure: Failure) -> Smallest:
    return smallest(failure, jobs=1, budget_s=BUDGET_S, go_on=lambda: True, show=lambda _: None)


@pytest.mark.slow
def test_seven_nodes_come_down_to_three_or_fewer(shrunk: Smallest) -> None:
    assert len(shrunk.before.nodes) == 7
    assert len(shrunk.after.nodes) <= 3
    assert set(shrunk.after.placement) <= set(shrunk.after.nodes)
    assert len(shrunk.after.ops) < len(shrunk.before.ops) / 4


def test_what_is_sought_never_becomes_another_type_of_anomaly() -> None:
    first = Guilt("list-append", ("G1a", "lost-update"), None)
    later = Played(
        number=0,
        outcome=Outcome.VIOLATION,
        guilt=(Guilt("stats", ("slow",), None), Guilt("list-append", ("G2-item", "lost-update"), "k", 7)),
    )
    assert later.found(first)
    sought = later.as_sought(first)
    assert sought == Guilt("list-append", ("lost-update",), "k", 7)
    assert not Played(number=1, outcome=Outcome.VIOLATION, guilt=(Guilt("list-append", ("G2-item",), None),)).found(
        sought
    )


@pytest.mark.slow
def test_with_other_delays_the_world_stays_the_one_that_was_drawn(shrunk: Smallest) -> None:
    assert shrunk.after.options["world"] == f"swarm:{SEED}"


def test_a_pinned_world_is_the_one_that_its_seed_draws_in_runs_of_every_seed() -> None:
    assert pinned("lan", 7) == "lan"
    assert pinned("swarm", 7) == "swarm:7"
    assert pinned("swarm:7", 8) == "swarm:7"
    drawn = world("swarm", Streams(7)["world"])
    assert world("swarm:7", Streams(8)["world"]) == drawn
    assert world("swarm", Streams(8)["world"]) != drawn


def test_a_drawn_world_is_none_of_those_in_which_messages_are_late_or_computing_takes_time() -> None:
    drawn = [world("swarm", Streams(seed)["world"]) for seed in range(50)]
    assert all(each.stalls is None and each.costs is None for each in drawn)
    assert "any of these" not in WORLDS["swarm"]


@pytest.mark.parametrize(
    "name", ["swarm:", "swarm:x", "swarm:-1", "lan:1", "swarm:1:2", ":1", "swarm:²", f"swarm:{5000 * '9'}"]
)
def test_a_name_of_no_world_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match="world"):
        world(name, Streams(1)["world"])
