"""What is drawn for systems of other packages: worlds that they can elect in, and calm in which progress shows."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from functools import lru_cache
from typing import Any

import pytest

from examples.asyncio_kv_system import WriteBack
from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Verdict, reasons
from splitbrain.harness.campaigns.calm import ATTEMPTS, calm_s, faults_end_s
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.swarm import PACES_TO_ELECT, Asked, asked_for, draw
from splitbrain.harness.campaigns.themes import TIME_LIMITS_S
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.simulation import worlds
from splitbrain.harness.simulation.host import SimHost
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.nemesis.schedule import LONGEST
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
def asked(system: str, world: str = "swarm", workload: str = "register", **given: Any) -> Asked:
    return asked_for(
        workload=workload, nemesis=None, nodes=None, system=f"{__name__}:{system}", bug="", world=world, **given
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


class Hasty(Metadata):
    """Queues in a cluster that must elect quickly."""

    name = "hasty"
    election_timeout_s = 0.3

    def __init__(self, *functions: Any) -> None:
        super().__init__(*functions)
        self.capabilities = dataclasses.replace(self.capabilities, slow_worlds=False)


def test_no_world_in_place_of_one_that_is_too_slow_for_queues_is_too_slow_for_elections() -> None:
    drawn = [draw(seed, asked("Hasty", workload="queue")) for seed in range(300)]
    assert max(paces(drawn)) <= 0.3 / PACES_TO_ELECT


GIVEN: list[dict[str, float]] = [{}, {"rate": 1.0}, {"op_timeout": 10.0}, {"interval": 0.5}, {"interval": 5.0}]


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_a_drawn_test_has_a_window_in_which_progress_shows(given: dict[str, float]) -> None:
    calm = 0
    for seed in range(30):
        drawn = draw(seed, asked("Silent", **given))
        assert drawn.interval is not None
        test = compose(drawn)
        left_s = drawn.time_limit - faults_end_s(test, drawn.interval)
        judged_from_s = ELECTIONS.bound_s + test.longest_timeout_s
        if 1.5 * drawn.interval > judged_from_s:
            assert left_s == 0.0, "windows between faults are long enough"
            continue
        calm += 1
        ops = drawn.rate * (left_s - drawn.interval - judged_from_s)
        assert ops >= 0.99 * ATTEMPTS * len(test.nodes) or left_s == drawn.time_limit / 2
        assert left_s < drawn.time_limit / 2 or drawn.rate == 1.0 or drawn.op_timeout == 10.0
    assert calm > 10 or given.get("interval") == 5.0


def test_calm_lasts_as_long_as_is_judged() -> None:
    usual = compose(draw(0, asked("Silent", interval=1.0)))
    longer = dataclasses.replace(usual, quiet_s=30.0)
    assert calm_s(longer, 1.0) - calm_s(usual, 1.0) == 30.0 - ELECTIONS.bound_s
    assert calm_s(dataclasses.replace(usual, quiet_s=0.1), 10.0) == 0.0


def test_calm_lasts_longer_where_outages_or_settings_make_a_recovery_longer() -> None:
    usual = compose(draw(0, asked("Silent", interval=1.0)))

    def with_elections(elections: Elections, settings: dict[str, int]) -> float:
        class Other(Silent):
            capabilities = dataclasses.replace(Silent.capabilities, elections=elections)

        return calm_s(dataclasses.replace(usual, system=Other(), settings=settings), 1.0)

    before_s = with_elections(ELECTIONS, {})
    surviving = Elections(timeout_s=1.0, recovery_per_outage=2.0)
    assert with_elections(surviving, {}) == before_s + 2.0 * LONGEST
    scaled = Elections(timeout_s=1.0, scaled_by={"ticks": 1})
    assert with_elections(scaled, {"ticks": 3}) == before_s + 2 * ELECTIONS.bound_s


def test_a_test_without_faults_is_not_made_longer() -> None:
    system = f"{__name__}:Silent"
    calm = asked_for(workload="register", nemesis="none", nodes=None, system=system, bug="", world="swarm")
    assert all(draw(seed, calm).time_limit in TIME_LIMITS_S for seed in range(30))


def test_the_length_that_was_asked_for_stays_and_half_of_a_short_test_has_faults() -> None:
    for seed in range(30):
        drawn = draw(seed, asked("Silent", time_limit=10.0, interval=1.0))
        assert drawn.time_limit == 10.0
        assert faults_end_s(compose(drawn), 1.0) == 5.0


def test_where_nodes_write_telemetry_faults_last_to_the_end() -> None:
    drawn = draw(1, asked_for(workload="register", nemesis=None, nodes=None, system="metadata", bug="", world="swarm"))
    for interval_s in (0.5, 2.0, 14.0):
        assert faults_end_s(compose(drawn), interval_s) == drawn.time_limit


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


def test_nodes_whose_power_is_cut_together_lose_it_at_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[tuple[int, str]] = []
    before = SimHost.power_off

    def power_off(host: SimHost) -> dict[str, int]:
        cuts.append((asyncio.get_running_loop().now_ns, host.node))  # type: ignore[attr-defined]
        return before(host)

    monkeypatch.setattr(SimHost, "power_off", power_off)
    run = simulate(compose(options("power-all", 20.0, 30.0, 1)))
    windows = [window for window in run_events(run.history).windows if window.fault == "power"]
    assert len(windows) > 5
    assert Counter(Counter(at for at, _ in cuts).values()) == {3: len(windows)}
    assert any(window.bit for window in windows)
