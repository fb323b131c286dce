"""The experiment with guided hunts: fair to both arms, repeatable, and its changed tests can be composed."""

from __future__ import annotations

import pytest

from benchmarks.guidance import Consecutive, Guided, Ran, by_chance, compared
from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.swarm import asked_for, draw
from splitbrain.harness.generators.script import ScriptedFault

ASKED = asked_for(workload=None, nemesis=None, nodes=None, system="metadata", bug="", world="swarm")


def ran(options: RunOptions, place: int) -> Ran:
    """A run with a round of faults that reached a state which every third run reaches, and now and then a rare one."""
    at_ns = 1_000_000_000
    faults = (
        ScriptedFault(at_ns=at_ns, f="kill", value={"fault": "kill", "action": "start", "spec": "leader"}),
        ScriptedFault(at_ns=2 * at_ns, f="start", value={"fault": "kill", "action": "stop"}),
    )
    states = (f"mark {place % 3}", *([f"pair {place}"] if place % 5 == 0 else []))
    return Ran(options, states, faults if place % 2 else (), 1.0, Outcome.PASS, "")


def drawn(first: int, count: int) -> list[RunOptions]:
    guided, found = Guided(first, ASKED), list[RunOptions]()
    for place in range(count):
        found.append(guided.next())
        guided.learn(ran(found[-1], place))
    return found


def test_the_guided_arm_draws_the_same_from_the_same_start_and_what_it_changes_can_be_composed() -> None:
    one = drawn(5, 60)
    assert one == drawn(5, 60)
    changed = [options for options in one if options != draw(options.seed, ASKED)]
    assert 15 < len(changed) < 45, "half of the runs are new seeds"
    assert any(options.scheduled for options in changed)
    for options in changed:
        compose(options)


def test_both_arms_draw_the_same_new_seeds() -> None:
    consecutive = Consecutive(5, ASKED)
    seeds = [options.seed for options in drawn(5, 60) if options == draw(options.seed, ASKED)]
    assert seeds == [consecutive.next().seed for _ in seeds]


@pytest.mark.parametrize(
    ("differences", "p"), [([1, 1, 1, 1], 2 / 16), ([1, -1], 1.0), ([3, 1], 0.5), ([0, 0], 1.0), ([5], 1.0)]
)
def test_the_probability_is_that_of_all_signs(differences: list[float], p: float) -> None:
    assert by_chance(differences) == p


def test_a_mutant_that_was_not_found_counts_as_the_whole_time_and_more_states_are_better() -> None:
    def arm(name: str, start: int, **of: object) -> dict[str, object]:
        return {"arm": name, "start": start, "found": "", "cpu_s": 60.0, "reached": 0, **of}

    found = compared(
        [
            arm("consecutive", 1, mutant="m"),
            arm("guided", 1, mutant="m", found="linearizable", cpu_s=20.0),
            arm("consecutive", 2, mutant="m", found="linearizable", cpu_s=5.0),
            arm("guided", 2, mutant="m"),
        ],
        50.0,
    )
    assert found == {"pairs": 2, "better": 1, "worse": 1, "mean_difference": -7.5, "p": 1.0}
    states = compared([arm("consecutive", 1, reached=10), arm("guided", 1, reached=14)], 50.0)
    assert (states["better"], states["mean_difference"]) == (1, 4.0)
