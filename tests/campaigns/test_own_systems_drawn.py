"""What is drawn for systems of other packages: worlds that they can elect in, and calm in which progress shows."""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import pytest

from examples.asyncio_kv_system import WriteBack
from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Verdict, reasons
from splitbrain.harness.campaigns.calm import ATTEMPTS, calm_s, faults_end_s
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.swarm import PACES_TO_ELECT, Asked, asked_for, draw
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.simulation import worlds
from splitbrain.results.faults import run_events
from splitbrain.results.reasons import Code

ELECTIONS = Elections(timeout_s=1.0)


class Silent(WriteBack):
    """Its nodes say nothing of themselves."""

    name = "silent"
    capabilities = dataclasses.replace(WriteBack.capabilities, elections=ELECTIONS)


class Patient(Silent):
    """It elects leaders wherever it is."""

    name = "patient"
    capabilities = dataclasses.replace(Silent.capabilities, slow_worlds=True)


@lru_cache
def asked(system: str, world: str = "swarm", **given: float | str) -> Asked:
    return asked_for(
        workload="register", nemesis=None, nodes=None, system=f"{__name__}:{system}", bug="", world=world, **given
    )


def paces(drawn: list[RunOptions]) -> list[float]:
    streams = [(each, Streams(each.seed)["world"]) for each in drawn]
    return [worlds.pace_s_of(worlds.world(each.world, rng)) for each, rng in streams]


def test_no_world_is_drawn_in_which_a_system_may_elect_no_leader_unless_it_says_that_it_can() -> None:
    slowest_s = Silent.election_timeout_s / PACES_TO_ELECT
    quick, any_pace = (paces([draw(seed, asked(name)) for seed in range(120)]) for name in ("Silent", "Patient"))
    assert max(quick) <= slowest_s
    assert sum(pace > slowest_s for pace in any_pace) > 10
    assert sum(pace > slowest_s / 4 for pace in quick) > 5, "not only the quickest are left"


def test_a_world_that_was_asked_for_stays() -> None:
    assert {draw(seed, asked("Silent", "slow-disks")).world for seed in range(10)} == {"slow-disks"}


@pytest.mark.parametrize("drawn", [draw(seed, asked("Silent")) for seed in range(60)], ids=lambda drawn: drawn.seed)
def test_a_drawn_test_has_a_window_in_which_progress_shows(drawn: RunOptions) -> None:
    assert drawn.interval is not None
    test = compose(drawn)
    needed_s = calm_s(ELECTIONS, drawn.interval, test.longest_timeout_s, len(test.nodes), drawn.rate)
    end_s = faults_end_s(test, drawn.interval)
    assert end_s >= drawn.time_limit / 2
    if needed_s:
        assert end_s + drawn.interval + needed_s <= drawn.time_limit or end_s == drawn.time_limit / 2
    else:
        assert end_s == drawn.time_limit


def test_the_length_that_was_asked_for_stays_and_half_of_a_short_test_has_faults() -> None:
    for seed in range(30):
        drawn = draw(seed, asked("Silent", time_limit=10.0, interval=1.0))
        assert drawn.time_limit == 10.0
        assert faults_end_s(compose(drawn), 1.0) == 5.0


def test_where_nodes_write_telemetry_faults_last_to_the_end() -> None:
    drawn = draw(1, asked_for(workload="register", nemesis=None, nodes=None, system="metadata", bug="", world="swarm"))
    for interval_s in (0.5, 2.0, 14.0):
        assert faults_end_s(compose(drawn), interval_s) == drawn.time_limit


def test_long_windows_need_no_calm_and_slow_clients_need_more() -> None:
    assert calm_s(ELECTIONS, 14.0, 2.0, 3, 50.0) == 0.0
    assert calm_s(ELECTIONS, 1.0, 2.0, 5, 10.0) == ELECTIONS.bound_s + 2.0 + ATTEMPTS * 5 / 10.0


def options(nemesis: str, rate: float, limit_s: float, seed: int) -> RunOptions:
    return RunOptions(
        workload="register",
        nemesis=nemesis,
        system=f"{__name__}:Silent",
        backend="sim",
        bug="",
        nodes="3",
        concurrency="2n",
        rate=rate,
        time_limit=limit_s,
        interval=1.0,
        op_timeout=1.0,
        recovery=20.0,
        seed=seed,
    )


def judged(limit_s: float, seed: int) -> Verdict:
    test = compose(options("kill-one,clock", 50.0, limit_s, seed))
    run = simulate(test)
    assert run.failure is None
    (verdict,) = engine.judge(
        run.history, [each for each in test.workload.checkers if each.name == "quorum-progress"], run.telemetry
    )
    return verdict


def test_with_calm_at_its_end_a_test_of_quick_faults_proves_progress() -> None:
    assert all(not reasons([judged(18.0, seed)]) for seed in range(3))
    assert {reason.code for seed in range(3) for reason in reasons([judged(6.0, seed)])} == {Code.NO_OCCASION}


def test_a_loss_of_power_finds_syncs_of_a_program_that_syncs_whatever_it_writes_at_once() -> None:
    """At moments that nothing chose it lost something in 2 of 33."""
    bit: list[bool | None] = []
    for seed in range(3):
        run = simulate(compose(options("power-one", 20.0, 30.0, seed)))
        bit += [window.bit for window in run_events(run.history).windows]
    assert sum(map(bool, bit)) > len(bit) / 4
    assert sum(map(bool, bit)) < 3 * len(bit) / 4, "some find none, as in any moment"
