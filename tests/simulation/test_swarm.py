"""Drawing tests from seeds: a function of seed and request, within what was asked for, reaching all of it."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers.coverage.judged import judges_of_ops
from splitbrain.checkers.coverage.options import PROMPT_S, PROMPT_SHARE, Load
from splitbrain.harness.backends.catalogue import build
from splitbrain.harness.campaigns import swarm
from splitbrain.harness.campaigns.compose import RunOptions, client_count, command_line, compose
from splitbrain.harness.campaigns.costs import OPS_MOST, affordable_nodes, affordable_ops
from splitbrain.harness.campaigns.loads import (
    CLIENTS_MAX,
    FEW_CLIENTS,
    FEW_OP_TIMEOUT_S,
    JUDGED_NODE_HZ,
    LEAST_RATES_HZ,
    LEAST_WORKLOAD_RATES_HZ,
    MOMENTARY,
    MORE_TURNS,
    OPS_FACTOR,
    OPS_MIN,
    PACES,
    PASSES_S,
    PATIENT_INTERVAL_S,
    PATIENT_LIMIT_S,
    PATIENT_OP_TIMEOUT_S,
    SILENCED_HZ,
    SILENCED_OP_TIMEOUT_S,
    TURN_INTERVALS,
    audible,
    judged_node_hz,
    kinds_at_most,
    least_interval_s,
)
from splitbrain.harness.campaigns.loads import drawn as figures
from splitbrain.harness.campaigns.overlaps import SILENCING, TOGETHER, WAITING, bearable, misses_members, nodes_of
from splitbrain.harness.campaigns.sharing import most_shared
from splitbrain.harness.campaigns.swarm import (
    ASKED_FOR,
    LASTING,
    MORE_OPERATIONS,
    MORE_SHARE,
    NODES,
    SELDOM,
    SYNCING,
    SYNCING_PACE_S,
    Asked,
    asked_for,
    draw,
    theme_of,
)
from splitbrain.harness.campaigns.themes import (
    BURSTS,
    INTERVALS_S,
    KINDS_MAX,
    OP_TIMEOUTS_S,
    OPEN,
    OVERLAPS,
    RATES_HZ,
    THEMES,
    TIME_LIMITS_S,
    Theme,
)
from splitbrain.harness.campaigns.themes import SELDOM as SELDOM_OVERLAP
from splitbrain.harness.cli import run
from splitbrain.harness.contract.listed import names
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.contract.settings import chosen as chosen_settings
from splitbrain.harness.running.lifecycle import check_support
from splitbrain.harness.simulation import worlds
from splitbrain.harness.simulation.worlds import WORLDS
from splitbrain.harness.systems import catalogue as systems
from splitbrain.nemesis.catalogue import KINDS, NEMESES, UNFAIR, kinds
from splitbrain.nemesis.schedule import LONGEST, OVERLAP
from splitbrain.results.errors import UnknownNameError, UsageError
from splitbrain.workloads.catalogue import able, needs

SIMULATED = able(systems.operations("metadata"))

EVERYTHING = Asked(workloads=SIMULATED, nemeses=tuple(NEMESES))
LOWER_OVERLAPS = (SELDOM_OVERLAP, OVERLAP, OVERLAPS[1])
"""What may take the place of a drawn overlap."""

SEEDS = st.integers(min_value=0, max_value=2**31)
ASKED = st.builds(
    Asked,
    workloads=st.lists(st.sampled_from(SIMULATED), min_size=1, unique=True).map(tuple),
    nemeses=st.lists(st.sampled_from(swarm.possible("metadata")), min_size=1, unique=True).map(tuple),
    # Nine nodes are enough for every nemesis: `check` refuses a request with which nothing can strike.
    nodes=st.lists(st.integers(min_value=3, max_value=9)).map(lambda found: (*found, 9)),
    concurrency=st.none() | st.sampled_from(["4", "1n", "2n"]),
    rate=st.none() | st.sampled_from([10.0, 62.5]),
    burst=st.none() | st.sampled_from([1, 7]),
    time_limit=st.none() | st.sampled_from([1.5, 10.0]),
    interval=st.none() | st.sampled_from([0.25, 3.0]),
    overlap=st.none() | st.sampled_from([0.0, 0.5]),
    op_timeout=st.none() | st.sampled_from([0.5, 2.5]),
    settings=st.none() | st.sampled_from(["", "snapshot-interval=7"]),
    recovery=st.sampled_from([0.0, swarm.RECOVERY_S, 45.0]),
)


@given(SEEDS, ASKED)
def test_a_draw_stays_within_what_was_asked_for(seed: int, asked: Asked) -> None:
    drawn = draw(seed, asked)
    assert drawn.seed == seed
    assert drawn.backend == "sim"
    assert drawn.workload in {*asked.workloads, *(swarm.VARIANTS.get(each) for each in asked.workloads)}
    assert int(drawn.nodes) in asked.nodes
    chosen = names("--nemesis", drawn.nemesis)
    assert chosen
    assert set(chosen) <= set(asked.nemeses)
    assert 1 <= len(kinds(chosen)) <= KINDS_MAX
    assert drawn.recovery == asked.recovery
    for name in ("concurrency", "rate", "burst", "time_limit", "interval", "overlap", "op_timeout", "settings"):
        if getattr(asked, name) is not None:
            assert getattr(drawn, name) == getattr(asked, name)


@given(SEEDS, ASKED)
def test_a_draw_is_a_function_of_seed_and_request(seed: int, asked: Asked) -> None:
    assert draw(seed, asked) == draw(seed, asked)


@given(SEEDS)
def test_what_is_fixed_does_not_change_the_rest_of_the_draw(seed: int) -> None:
    free = draw(seed, EVERYTHING)
    fixed = draw(seed, Asked(workloads=EVERYTHING.workloads, nemeses=EVERYTHING.nemeses, rate=33.0, op_timeout=1.5))
    assert (fixed.nodes, fixed.nemesis, fixed.time_limit) == (free.nodes, free.nemesis, free.time_limit)
    assert fixed.interval == free.interval


@pytest.mark.slow
@given(SEEDS, ASKED)
def test_every_draw_composes_and_the_command_line_gives_it_back(seed: int, asked: Asked) -> None:
    drawn = draw(seed, asked)
    test = compose(drawn)
    assert len(test.name) <= 120  # the longest that the store takes
    words = shlex.split(command_line(drawn))
    assert words[:2] == ["splitbrain", "run"]
    assert _parsed(words[2:]) == drawn


@pytest.mark.slow
def test_in_one_test_of_streams_in_two_their_beginnings_are_dropped_and_nothing_else_is_drawn_anew() -> None:
    asked = Asked(workloads=("stream",), nemeses=tuple(NEMESES))
    drawn = [draw(seed, asked) for seed in range(200)]
    short = [each for each in drawn if each.workload == "short-stream"]
    assert {each.workload for each in drawn} == {"stream", "short-stream"}
    assert 70 <= len(short) <= 130
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swarm, "VARIED", 0.0)
        plain = [draw(seed, asked) for seed in range(200)]
    assert {each.workload for each in plain} == {"stream"}
    assert [msgspec.structs.replace(each, workload="stream") for each in drawn] == plain
    other = Asked(workloads=("stream",), nemeses=("none",), system="rabbitmq")
    assert {draw(seed, other).workload for seed in range(50)} == {"stream"}, "its streams are not shortened"


def test_settings_with_names_are_drawn_by_name() -> None:
    asked = Asked(workloads=able(systems.operations("tables")), nemeses=("partition",), system="tables")
    known = systems.build("tables").capabilities.settings
    drawn = [chosen_settings(draw(seed, asked).settings, known, "tables") for seed in range(80)]
    assert {each.get("strategy", 0) for each in drawn} == set(range(len(known["strategy"].words)))


TABLES = Asked(workloads=able(systems.operations("tables")), nemeses=("partition",), system="tables")


@pytest.mark.parametrize("strategy", ["autoheal", "pause-if-all-down-autoheal"])
def test_where_clients_decide_which_partition_wins_some_draws_have_more_of_them_on_fewer_nodes(strategy: str) -> None:
    asked = msgspec.structs.replace(TABLES, settings=f"strategy={strategy}")
    for nodes in NODES:
        asked = msgspec.structs.replace(asked, nodes=(nodes,))
        wins = 0
        for seed in range(60):
            count = client_count(draw(seed, asked).concurrency, nodes)
            clients = [len(range(node, count, nodes)) for node in range(nodes)]
            few = nodes // 2
            wins += sum(clients[:few]) > sum(clients[few:])
        assert 10 < wins < 50, nodes


def test_where_clients_decide_nothing_each_node_has_as_many() -> None:
    """And who asks for a number of clients gets it."""
    known = systems.build("tables").capabilities.settings["strategy"].words
    for strategy in (word for word in known if not word.endswith("autoheal")):
        asked = msgspec.structs.replace(TABLES, settings=f"strategy={strategy}")
        assert all(draw(seed, asked).concurrency.endswith("n") for seed in range(40)), strategy
    given = msgspec.structs.replace(TABLES, settings="strategy=autoheal", concurrency="2n")
    assert {draw(seed, given).concurrency for seed in range(40)} == {"2n"}


def test_uneven_clients_change_nothing_else_of_a_draw() -> None:
    asked = msgspec.structs.replace(TABLES, settings="strategy=autoheal")
    even = msgspec.structs.replace(TABLES, settings="strategy=ignore")
    for seed in range(40):
        changed = {"concurrency": "", "settings": ""}
        one, other = draw(seed, asked), draw(seed, even)
        assert msgspec.structs.replace(one, **changed) == msgspec.structs.replace(other, **changed)


@pytest.mark.parametrize("workload", TABLES.workloads)
def test_a_workload_of_tables_composes_with_uneven_clients(workload: str) -> None:
    asked = msgspec.structs.replace(TABLES, workloads=(workload,), settings="strategy=autoheal")
    drawn = [one for one in (draw(seed, asked) for seed in range(20)) if not one.concurrency.endswith("n")]
    assert {int(one.concurrency) < int(one.nodes) for one in drawn} == {True, False}
    for one in drawn:
        compose(one)


@pytest.mark.slow
def test_2500_seeds_reach_everything_that_can_be_drawn() -> None:
    drawn = [draw(seed, EVERYTHING) for seed in range(2500)]
    assert {each.workload for each in drawn} == set(SIMULATED)
    assert {each.nodes for each in drawn} == {str(count) for count in NODES}
    assert {each.rate for each in drawn} == set(RATES_HZ)
    assert {each.burst for each in drawn} == set(BURSTS)
    limits_s = {each.time_limit for each in drawn}
    assert limits_s > {*TIME_LIMITS_S, PATIENT_LIMIT_S}
    assert TIME_LIMITS_S[0] <= min(limits_s) < max(limits_s) <= TIME_LIMITS_S[-1]
    assert {each.interval for each in drawn} == {*INTERVALS_S, PATIENT_INTERVAL_S}
    assert {each.overlap for each in drawn} == {*OVERLAPS, SELDOM_OVERLAP}
    assert {each.op_timeout for each in drawn} == set(OP_TIMEOUTS_S)
    assert {each.world for each in drawn} == {world for theme in (OPEN, *THEMES) for world in theme.worlds}
    assert {"1n", "2n", "10n", "30n"} <= {each.concurrency for each in drawn}
    settings = {word for each in drawn for word in names("--settings", each.settings)}
    known = systems.build("metadata").capabilities.settings
    can_be = {(name, value) for name, setting in known.items() for value in setting.drawn}
    can_be |= {(name, value) for theme in THEMES for name, values in theme.settings.items() for value in values}
    assert settings == {f"{name}={value}" for name, value in can_be if value != known[name].default}
    assert {"snapshot-interval=16", "checkpoint-interval=0", "max-pipeline=2", "election-ms=150"} <= settings
    assert "" in {each.settings for each in drawn}
    assert {name for each in drawn for name in names("--nemesis", each.nemesis)} == set(NEMESES)


# --- themes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_a_theme_favours_what_exists(theme: Theme) -> None:
    assert set(theme.nemeses) <= set(NEMESES) - set(UNFAIR)
    assert set(theme.workloads) <= set(SIMULATED)
    assert set(theme.worlds) <= set(WORLDS)
    assert set(theme.brings) <= ASKED_FOR
    assert not (theme.brings and theme.workloads)
    assert set(theme.rates_hz) <= set(RATES_HZ)
    assert set(theme.time_limits_s) <= set(TIME_LIMITS_S)
    assert set(theme.intervals_s) <= set(INTERVALS_S)
    assert set(theme.bursts) <= set(BURSTS)
    known = systems.build("metadata").capabilities.settings
    for name, values in theme.settings.items():
        assert all(known[name].least <= value <= known[name].most for value in values)


def test_two_of_three_seeds_draw_from_themes_and_each_has_its_share() -> None:
    asked = msgspec.structs.replace(EVERYTHING, more=("stream", "flags"))
    counts = Counter(theme_of(seed, asked).name for seed in range(2000))
    assert 600 < counts.pop("open") < 734
    assert set(counts) == {theme.name for theme in THEMES}
    shares = [counts[theme.name] / theme.weight for theme in THEMES]
    assert max(shares) < 2 * min(shares)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("theme", [theme for theme in THEMES if theme.core], ids=lambda theme: theme.name)
def test_a_theme_with_a_core_has_one_of_it_beside_something_else(theme: Theme) -> None:
    seeds = [seed for seed in range(1, 1_400) if theme_of(seed, EVERYTHING).name == theme.name]
    assert len(seeds) >= 20
    for seed in seeds[:60]:
        drawn = draw(seed, EVERYTHING)
        chosen = names("--nemesis", drawn.nemesis)
        assert set(theme.core) & set(chosen)
        assert 2 <= len(kinds(chosen)) <= theme.kinds_max
        assert int(drawn.nodes) in (theme.nodes or NODES)
        assert drawn.overlap in {*theme.overlaps, *LOWER_OVERLAPS}


def test_a_theme_whose_core_was_not_asked_for_is_not_drawn() -> None:
    asked = Asked(workloads=SIMULATED, nemeses=("kill-leader", "kill-minority", "partition-halves", "pause-one"))
    found = {theme_of(seed, asked).name for seed in range(600)}
    assert "elections" in found
    assert not found & {"changing-members", "bare-majorities", "former-groups", "short-lives"}


def test_a_theme_whose_core_needs_more_nodes_than_any_test_has_is_not_drawn() -> None:
    asked = msgspec.structs.replace(EVERYTHING, nodes=(1,))
    fit = {name for name in EVERYTHING.nemeses if NEMESES[name].fewest_nodes == 1}
    for seed in range(200):
        theme = theme_of(seed, asked)
        assert not theme.core or fit & set(theme.core), theme.name


@given(SEEDS)
def test_a_themed_seed_draws_what_its_theme_favours(seed: int) -> None:
    theme, drawn = theme_of(seed, EVERYTHING), draw(seed, EVERYTHING)
    if theme is OPEN:
        return
    assert set(names("--nemesis", drawn.nemesis)) <= set(theme.nemeses)
    assert drawn.workload in (theme.workloads or SIMULATED)
    assert drawn.world in theme.worlds
    assert drawn.overlap in {*theme.overlaps, *LOWER_OVERLAPS}
    defaults = {name: setting.default for name, setting in systems.build("metadata").capabilities.settings.items()}
    chosen = dict(word.split("=") for word in names("--settings", drawn.settings))
    for name, values in theme.settings.items():
        assert int(chosen.get(name, defaults[name])) in values


@given(SEEDS)
def test_what_was_asked_for_stays_in_a_theme_and_others_are_not_drawn(seed: int) -> None:
    asked = Asked(workloads=("counter",), nemeses=("power", "kill"), nodes=(5,), world="wan", settings="wal-bytes=7")
    drawn = draw(seed, asked)
    assert theme_of(seed, asked).name in ("open", "durability")
    assert (drawn.workload, drawn.nodes, drawn.world, drawn.settings) == ("counter", "5", "wan", "wal-bytes=7")
    assert set(names("--nemesis", drawn.nemesis)) <= {"power", "kill"}


# --- overlaps ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "nemeses", "nodes", "most"),
    [
        ("register", ["membership-learner", "power-all"], 7, SELDOM_OVERLAP),
        ("records", ["groups-all", "disk", "pause-majority"], 7, SELDOM_OVERLAP),
        ("register", ["partition-mute-leader", "membership-leave"], 3, SELDOM_OVERLAP),
        ("register", ["kill-minority", "membership-leave"], 5, SELDOM_OVERLAP),
        ("register", ["kill-all", "clock"], 5, OVERLAP),
        ("register", ["power", "bounce"], 5, OVERLAP),
        ("register", ["kill-all", "clock", "packet"], 5, OVERLAPS[1]),
        ("create-once", ["partition-minority-leader", "pause-leader"], 4, OVERLAP),
        ("register", ["kill-minority", "membership-leave"], 4, OVERLAPS[2]),
        ("register", ["partition-minority-leader", "pause-leader"], 3, OVERLAPS[2]),
        ("register", ["none"], 3, OVERLAPS[2]),
    ],
)
def test_faults_overlap_only_as_often_as_leaves_a_quorum(
    workload: str, nemeses: list[str], nodes: int, most: float
) -> None:
    assert bearable(OVERLAPS[2], workload, nemeses, nodes) == most
    assert bearable(0.05, workload, nemeses, nodes) == 0.05, "what is drawn is never raised"


def test_a_quorum_of_three_nodes_bears_no_missing_member_even_if_faults_overlap_as_usual() -> None:
    assert bearable(OVERLAP, "register", ["kill-one", "membership"], 3) == SELDOM_OVERLAP
    assert bearable(OVERLAP, "register", ["kill-one", "membership"], 5) == OVERLAP


@pytest.mark.parametrize(
    ("drawn", "overlap", "nemeses", "possible", "count"),
    [
        (3, 0.9, ["membership-leave", "pause-leader"], (3, 4), 4),
        (7, 0.6, ["membership", "kill-minority"], NODES, 6),
        (3, 0.9, ["membership-leave", "pause-leader"], (2, 3), 3),
        (3, 0.9, ["membership-leave", "pause-leader"], (3, 5), 3),
        (3, OVERLAP, ["membership-leave", "pause-leader"], NODES, 3),
        (3, 0.9, ["membership-leave", "clock"], NODES, 3),
        (3, 0.9, ["pause-leader", "kill-one"], NODES, 3),
        (4, 0.9, ["membership-leave", "pause-leader"], NODES, 4),
    ],
)
def test_a_test_in_which_members_are_missing_has_an_even_number_of_nodes(
    drawn: int, overlap: float, nemeses: list[str], possible: tuple[int, ...], count: int
) -> None:
    assert nodes_of(drawn, overlap, nemeses, possible) == count


@pytest.mark.slow
def test_drawn_faults_that_wait_for_a_quorum_seldom_meet_those_that_take_it() -> None:
    seen = Counter[str]()
    for seed in range(1600):
        drawn = draw(seed, EVERYTHING)
        chosen = names("--nemesis", drawn.nemesis)
        assert drawn.overlap is not None
        if WAITING & set(kinds(chosen)) and SILENCING & set(chosen):
            seen["silenced"] += 1
            assert drawn.overlap == SELDOM_OVERLAP
        elif misses_members(chosen) and drawn.overlap > OVERLAP:
            seen["members"] += 1
            assert int(drawn.nodes) % 2 == 0
        elif drawn.workload in TOGETHER:
            seen["together"] += 1
            assert drawn.overlap <= OVERLAP
        else:
            seen[f"{drawn.overlap}"] += 1
    assert min(seen[kind] for kind in ("silenced", "members", "together", *map(str, OVERLAPS))) > 5


# --- each run can show something --------------------------------------------------------------------------------------


def test_no_test_has_more_possible_ops_than_are_worth_it() -> None:
    asked = asked_for(**_request())
    for seed in range(1, 400):
        drawn = draw(seed, asked)
        pace_s = worlds.pace_s_of(worlds.world(worlds.pinned(drawn.world, seed), Streams(seed)["world"]))
        possible_hz = min(drawn.rate, client_count(drawn.concurrency, int(drawn.nodes)) / pace_s)
        assert possible_hz * drawn.time_limit <= 1.1 * OPS_MOST, drawn


def test_a_test_whose_ops_are_dear_has_fewer_of_them_if_its_faults_allow_that() -> None:
    asked = asked_for(**_request())
    bounded = 0
    for seed in range(1, 400):
        drawn = draw(seed, asked)
        chosen = names("--nemesis", drawn.nemesis)
        if drawn.time_limit == PATIENT_LIMIT_S or SILENCING & set(chosen) or set(LEAST_RATES_HZ) & set(kinds(chosen)):
            continue
        bounded += 1
        # A member that is missing may take an even number of nodes, one more than drawn.
        most = affordable_ops(drawn.workload, int(drawn.nodes) - 1, drawn.settings)
        least = 2 * OPS_MIN * OPS_FACTOR.get(drawn.workload, 1.0)
        # The lowest rate at which each node is asked often enough, for as long as all faults need.
        judged = 2 * JUDGED_NODE_HZ[1] * int(drawn.nodes) * drawn.time_limit
        pace_s = worlds.pace_s_of(worlds.world(worlds.pinned(drawn.world, seed), Streams(seed)["world"]))
        possible_hz = min(drawn.rate, client_count(drawn.concurrency, int(drawn.nodes)) / pace_s)
        assert possible_hz * drawn.time_limit <= 1.1 * max(most, least, judged), drawn
    assert bounded > 200


def test_the_more_is_left_of_a_window_the_lower_is_the_rate_at_which_a_node_is_asked_in_it() -> None:
    unjudged_s = 4.0
    rates = [judged_node_hz(interval_s, unjudged_s) for interval_s in (4.0, 4.1, 4.5, 5.0, 14.0)]
    assert rates == pytest.approx([0.0, 7.0, 4 / 0.75, 4 / 1.5, 2.0])


def test_where_ops_are_dear_no_fault_leaves_no_quorum_for_long_unless_nothing_else_was_asked_for() -> None:
    nemeses = ("kill-all", "kill-one", "power", "partition-221")
    assert audible(nemeses, 1_000.0) == list(nemeses)
    assert audible(nemeses, 999.0) == ["kill-one"]
    assert audible(("kill-all",), 999.0) == ["kill-all"]
    queues = Asked(workloads=("queue", "poison"), nemeses=nemeses, nodes=(5,))
    assert {draw(seed, queues).nemesis for seed in range(40)} == {"kill-one"}


def test_a_test_is_not_shortened_to_one_in_which_an_outage_is_a_large_part() -> None:
    theme = msgspec.structs.replace(OPEN, rates_hz=(200.0,), time_limits_s=(60.0,), concurrency=("10n",))
    found = {
        figures(
            Rng(seed), theme, "register", ["kill-one"], 3, None, ops_most=OPS_MOST, ops_affordable=2_400.0
        ).time_limit_s
        for seed in range(40)
    }
    assert found == {20.0, 60.0}


def test_a_test_that_is_shortened_has_clients_enough_for_its_ops() -> None:
    asked = asked_for(**_request())
    for seed in range(1, 200):
        drawn = draw(seed, asked)
        if drawn.time_limit == PATIENT_LIMIT_S or drawn.workload in CLIENTS_MAX:
            continue
        assert drawn.op_timeout is not None
        needed_hz = OPS_MIN * OPS_FACTOR.get(drawn.workload, 1.0) / drawn.time_limit
        answered_s = min(PROMPT_SHARE * drawn.op_timeout, PROMPT_S)
        assert client_count(drawn.concurrency, int(drawn.nodes)) >= needed_hz * answered_s - 1e-6, drawn


def test_an_op_of_a_queue_and_one_without_batches_are_dearer() -> None:
    assert affordable_ops("register", 3, "") == OPS_MOST
    assert affordable_ops("register", 7, "") == pytest.approx(10_000 / 7)
    assert affordable_ops("queue", 7, "lease-reads=1") == pytest.approx(10_000 / 21)
    assert affordable_ops("queue", 7, "lease-reads=1,max-batch=1") == pytest.approx(10_000 / 31.5)
    assert affordable_ops("queue", 7, "max-batch=16") == pytest.approx(10_000 / 21)
    assert affordable_nodes("queue", (3, 5, 7)) == [3, 5]
    assert affordable_nodes("queue", (7,)) == (7,), "what was asked for stays"
    assert affordable_nodes("register", (3, 5, 7)) == [3, 5, 7]
    queues = Asked(workloads=("queue", "poison"), nemeses=("kill-one",))
    assert {draw(seed, queues).nodes for seed in range(40)} == {"3", "4", "5"}


@given(SEEDS)
def test_faults_leave_time_for_their_effects_and_clients_can_do_enough(seed: int) -> None:
    drawn = draw(seed, EVERYTHING)
    chosen = kinds(names("--nemesis", drawn.nemesis))
    assert drawn.interval is not None
    if not theme_of(seed, EVERYTHING).recovers_fast and not set(MORE_TURNS) & set(chosen):
        assert drawn.interval >= least_interval_s(chosen)
    if drawn.time_limit != PATIENT_LIMIT_S:
        assert drawn.rate >= max(LEAST_RATES_HZ.get(kind, 0.0) for kind in chosen)
    if MOMENTARY & set(chosen):
        assert drawn.burst == 1, "a burst would pass by the fault"
    if SILENCING & set(names("--nemesis", drawn.nemesis)):
        assert drawn.rate >= SILENCED_HZ
        pace_s = worlds.pace_s_of(worlds.world(worlds.pinned(drawn.world, seed), Streams(seed)["world"]))
        assert drawn.op_timeout <= SILENCED_OP_TIMEOUT_S or PACES * pace_s > SILENCED_OP_TIMEOUT_S
    assert drawn.op_timeout in OP_TIMEOUTS_S
    shortest_s = min([drawn.interval / 2, *(PASSES_S for kind in chosen if KINDS[kind].over)])
    assert drawn.burst == 1 or drawn.burst / drawn.rate <= shortest_s, "each fault meets a burst"
    load = Load(
        rate=drawn.rate,
        time_limit_s=drawn.time_limit,
        concurrency=client_count(drawn.concurrency, int(drawn.nodes)),
        op_timeout_s=drawn.op_timeout,
    )
    if drawn.workload in CLIENTS_MAX:
        assert load.concurrency <= max(CLIENTS_MAX[drawn.workload], int(drawn.nodes))
    else:
        assert load.possible(drawn.time_limit) >= OPS_MIN - 1e-6


@pytest.mark.parametrize("nemesis", ["partition-halves", "kill-one"])
def test_a_workload_of_many_functions_has_more_ops(nemesis: str) -> None:
    for seed in range(100):
        drawn = draw(seed, Asked(workloads=("topology",), nemeses=(nemesis, "groups-all")))
        load = Load(
            rate=drawn.rate,
            time_limit_s=drawn.time_limit,
            concurrency=client_count(drawn.concurrency, int(drawn.nodes)),
            op_timeout_s=drawn.op_timeout,
        )
        assert load.possible(drawn.time_limit) >= OPS_FACTOR["topology"] * OPS_MIN - 1e-6


@pytest.mark.slow
def test_most_tests_are_of_single_values_and_no_upgrade_is_beside_the_others() -> None:
    drawn = [draw(seed, EVERYTHING) for seed in range(1200)]
    others = [each for each in drawn if needs(each.workload) & MORE_OPERATIONS]
    assert len(others) == pytest.approx(MORE_SHARE * len(drawn), rel=0.35), "some themes have none of them"
    assert not [each for each in others if "upgrade" in names("--nemesis", each.nemesis)]
    assert [each for each in drawn if "upgrade" in names("--nemesis", each.nemesis)]


@given(SEEDS)
def test_a_slow_world_has_the_time_that_its_ops_and_elections_take(seed: int) -> None:
    drawn = draw(seed, EVERYTHING)
    assert drawn.interval is not None
    pace_s = worlds.pace_s_of(worlds.world(worlds.pinned(drawn.world, seed), Streams(seed)["world"]))
    assert drawn.op_timeout >= min(PACES * pace_s, OP_TIMEOUTS_S[-2])
    assert len(set(kinds(names("--nemesis", drawn.nemesis)))) <= kinds_at_most(pace_s)
    if not set(MORE_TURNS) & set(kinds(names("--nemesis", drawn.nemesis))):
        assert drawn.interval >= min(PACES * pace_s, INTERVALS_S[-2])


@given(SEEDS)
def test_few_clients_wait_for_two_seconds_at_most_where_ops_are_quick(seed: int) -> None:
    drawn = draw(seed, EVERYTHING)
    pace_s = worlds.pace_s_of(worlds.world(worlds.pinned(drawn.world, seed), Streams(seed)["world"]))
    if client_count(drawn.concurrency, int(drawn.nodes)) < FEW_CLIENTS * int(drawn.nodes):
        assert drawn.op_timeout <= FEW_OP_TIMEOUT_S or PACES * pace_s > FEW_OP_TIMEOUT_S


@given(SEEDS)
def test_where_every_fault_silences_the_cluster_few_overlap(seed: int) -> None:
    drawn = draw(seed, EVERYTHING)
    by_kind: dict[str, set[str]] = {}
    for name in names("--nemesis", drawn.nemesis):
        by_kind.setdefault(next(iter(kinds([name]))), set()).add(name)
    if all(chosen & SILENCING for chosen in by_kind.values()):
        assert drawn.overlap <= SELDOM_OVERLAP


@pytest.mark.parametrize("workload", LEAST_WORKLOAD_RATES_HZ)
def test_workloads_that_are_judged_by_ops_at_the_same_time_have_the_rate_for_them(workload: str) -> None:
    asked = Asked(workloads=(workload,), nemeses=EVERYTHING.nemeses)
    drawn = [draw(seed, asked) for seed in range(100)]
    rates = [each.rate or 0.0 for each in drawn if each.time_limit != PATIENT_LIMIT_S]
    assert len(rates) > 50
    assert min(rates) >= LEAST_WORKLOAD_RATES_HZ[workload]


def test_queues_and_streams_are_drawn_only_in_worlds_that_are_quick_and_never_late() -> None:
    nemeses = ("clog-out", "kill-leader", "disk-slow")

    def drawn(*workloads: str) -> set[tuple[str, bool]]:
        asked = Asked(workloads=workloads, nemeses=nemeses)
        names = ((seed, draw(seed, asked).world) for seed in range(300))
        return {
            (name, worlds.pace_s_of(worlds.world(worlds.pinned(name, seed), Streams(seed)["world"])) > SYNCING_PACE_S)
            for seed, name in names
        }

    assert drawn(*sorted(SYNCING)) == {(name, False) for name in ("lan", "wan", "globe", "slow-cpu", "swarm")}
    assert {("slow-disks", True), ("late", False), ("swarm", True)} <= drawn("register")


@pytest.mark.parametrize(("world", "pace_s"), [("lan", 0.007), ("globe", 0.388), ("slow-disks", 0.723)])
def test_an_op_takes_four_messages_and_two_syncs(world: str, pace_s: float) -> None:
    assert worlds.pace_s_of(worlds.world(world, Streams(1)["world"])) == pytest.approx(pace_s, abs=0.001)


@given(SEEDS)
def test_where_answers_after_a_fault_are_judged_each_node_is_asked_often(seed: int) -> None:
    drawn = draw(seed, EVERYTHING)
    elections = systems.build("metadata").capabilities.elections
    assert elections is not None
    assert drawn.interval is not None
    judged = LONGEST * drawn.interval > elections.bound_s + drawn.op_timeout
    if judged and drawn.time_limit != PATIENT_LIMIT_S:
        unjudged_s = (elections.bound_s + drawn.op_timeout) / LONGEST
        assert drawn.rate >= judged_node_hz(drawn.interval, unjudged_s) * int(drawn.nodes)
        assert drawn.workload not in TOGETHER, "its clients wait for each other"


@given(SEEDS)
def test_a_short_test_that_was_asked_for_has_short_intervals(seed: int) -> None:
    drawn = draw(seed, Asked(workloads=("register",), nemeses=("kill", "upgrade"), time_limit=3.0))
    assert drawn.time_limit == 3.0
    assert drawn.interval is not None
    assert drawn.interval <= 1.5


@given(SEEDS)
def test_there_are_turns_for_power_cuts_that_lose_nothing(seed: int) -> None:
    drawn = draw(seed, EVERYTHING)
    assert drawn.interval is not None
    if drawn.nemesis.startswith("power") and "," not in drawn.nemesis and drawn.interval > INTERVALS_S[0]:
        assert drawn.time_limit >= 3 * TURN_INTERVALS * drawn.interval


@pytest.mark.slow
def test_kinds_with_many_names_do_not_push_out_kinds_with_few() -> None:
    open_seeds = [seed for seed in range(4000) if theme_of(seed, EVERYTHING) is OPEN]
    every = [each for each in (draw(seed, EVERYTHING) for seed in open_seeds) if each.time_limit != PATIENT_LIMIT_S]
    drawn = Counter(kind for each in every for kind in kinds(names("--nemesis", each.nemesis)))
    assert set(drawn) == set(kinds(list(NEMESES)))
    assert drawn.pop("upgrade"), "it is drawn only with workloads that it does not leave without answers"
    # Kinds that need many ops are drawn in fewer tests.
    assert max(drawn.values()) < 3 * min(drawn.values())


@pytest.mark.slow
def test_a_third_of_the_seeds_without_a_theme_have_one_fault_at_a_time_for_long_enough_to_recover_from_it() -> None:
    every = [draw(seed, EVERYTHING) for seed in range(900) if theme_of(seed, EVERYTHING) is OPEN]
    drawn = [each for each in every if each.interval == PATIENT_INTERVAL_S]
    assert len(every) / 4 < len(drawn) < 5 * len(every) / 12
    assert {each.nemesis for each in drawn} == set(LASTING)
    assert {(each.interval, each.op_timeout) for each in drawn} == {(PATIENT_INTERVAL_S, PATIENT_OP_TIMEOUT_S)}
    clients_ask_s = 0.5 * PATIENT_INTERVAL_S - PATIENT_OP_TIMEOUT_S
    assert clients_ask_s > 0, "even after the shortest interval"


def test_nodes_of_queues_are_away_for_long_more_often_in_a_hunt_for_them_alone() -> None:
    shares: dict[str, float] = {}
    for workload in ("queue", "register"):
        asked = Asked(workloads=(workload,), nemeses=tuple(NEMESES))
        every = [draw(seed, asked) for seed in range(300) if theme_of(seed, asked) is OPEN]
        shares[workload] = sum(each.interval == PATIENT_INTERVAL_S for each in every) / len(every)
    assert shares["queue"] > 0.5 > shares["register"] > 0.2


def test_where_a_theme_brings_replicas_a_node_is_away_until_they_are_replaced() -> None:
    asked = asked_for(workload=None, nemesis=None, nodes=None, system="metadata", bug="", world="swarm")
    drawn = [draw(seed, asked) for seed in range(1, 1000) if theme_of(seed, asked).name == "calm-features"]
    replicas = [each for each in drawn if each.workload == "replicas"]
    assert len(replicas) > 5
    assert {each.interval for each in replicas} == {PATIENT_INTERVAL_S}
    assert {each.interval for each in drawn if each.workload != "replicas"}.isdisjoint({PATIENT_INTERVAL_S})


def test_a_fault_that_was_not_asked_for_is_not_held_for_long_either() -> None:
    asked = Asked(workloads=("register",), nemeses=("clock", "kill"))
    assert {draw(seed, asked).nemesis for seed in range(100) if draw(seed, asked).time_limit == PATIENT_LIMIT_S} == {
        "kill"
    }
    none_lasts = Asked(workloads=("register",), nemeses=("clock",))
    assert all(draw(seed, none_lasts).time_limit in TIME_LIMITS_S for seed in range(100))


def test_kinds_are_left_out_often() -> None:
    asked = Asked(workloads=("register",), nemeses=("partition", "kill", "pause"))
    alone = Counter(draw(seed, asked).nemesis for seed in range(200))
    assert {"partition", "kill", "pause"} <= set(alone)
    assert any(len(names("--nemesis", both)) == 3 for both in alone)


def test_a_nemesis_that_needs_more_nodes_is_not_drawn_for_few() -> None:
    asked = Asked(workloads=("register",), nemeses=("partition-ring", "kill-one"), nodes=(1, 2, 3))
    drawn = [draw(seed, asked) for seed in range(200)]
    assert all("ring" not in each.nemesis for each in drawn if each.nodes != "3")
    assert any("ring" in each.nemesis for each in drawn if each.nodes == "3")
    assert {each.nodes for each in drawn} == {"1", "2", "3"}


def test_none_alone_breaks_nothing_and_beside_others_means_nothing() -> None:
    assert draw(3, Asked(workloads=("set",), nemeses=("none",))).nemesis == "none"
    assert all(draw(seed, Asked(workloads=("set",), nemeses=("none", "kill"))).nemesis == "kill" for seed in range(20))


def test_what_is_left_out_of_a_request_means_everything_that_can_be_simulated_and_is_fair() -> None:
    asked = asked_for(**_request())
    assert asked.workloads == tuple(name for name in SIMULATED if name not in ASKED_FOR)
    assert set(asked.more) == {name for theme in THEMES for name in theme.brings}, "and no more, as all are composed"
    fair = [name for name in swarm.possible("metadata") if name not in UNFAIR and NEMESES[name].kind.name != SELDOM]
    assert asked.nemeses == tuple(name for name in fair if not name.endswith(swarm.ROLES))
    assert {"kill-leader", "partition-leader"} <= set(asked.nemeses)
    for nemesis in asked.nemeses:
        test = compose(draw(1, Asked(workloads=("register",), nemeses=(nemesis,))))
        check_support(test, build("sim"))
    assert asked.nodes == NODES
    assert asked.rate is None


def test_a_workload_that_nothing_judges_on_a_system_is_drawn_only_if_it_is_asked_for() -> None:
    """Writes that return nothing are judged by who acknowledges them; without elections that is not judged."""
    asked = asked_for(**{**_request(), "system": "tables"})
    assert "records" in able(systems.operations("tables"))
    assert "records" not in {draw(seed, asked).workload for seed in range(200)} | {*asked.workloads, *asked.more}
    assert asked_for(**{**_request(), "system": "tables", "workload": "records,set"}).workloads == ("records", "set")
    assert "records" in asked_for(**_request()).workloads
    for workload in asked.workloads:
        test = compose(draw(1, msgspec.structs.replace(asked, workloads=(workload,))))
        assert judges_of_ops(spec.name for spec in test.workload.checkers), workload


@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        ({"workload": "regster"}, UnknownNameError, "register"),
        ({"workload": ","}, UsageError, "--workload"),
        ({"nemesis": "partitoin"}, UnknownNameError, "partition"),
        ({"nemesis": ","}, UsageError, "--nemesis"),
        ({"nodes": "3,x"}, UsageError, "--nodes"),
        ({"nodes": "0"}, UsageError, "--nodes"),
        ({"nodes": ","}, UsageError, "--nodes"),
        ({"nodes": "1,2", "nemesis": "partition-ring"}, UsageError, "raise --nodes"),
        ({"bug": "M999"}, UnknownNameError, "M999"),
        ({"system": "etdc"}, UnknownNameError, "etdc"),
        ({"world": "moon"}, UnknownNameError, "moon"),
        ({"rate": -1.0}, UsageError, "rate"),
        ({"time_limit": 0.0}, UsageError, "time limit"),
        ({"interval": 0.0}, UsageError, "--interval"),
        ({"concurrency": "many"}, UsageError, "--concurrency"),
    ],
)
def test_a_request_from_which_nothing_can_be_drawn_is_refused(wrong: dict[str, Any], error: Any, told: str) -> None:
    with pytest.raises(error, match=told):
        asked_for(**{**_request(), **wrong})


def _request() -> dict[str, Any]:
    return {
        "workload": None,
        "nemesis": None,
        "nodes": None,
        "system": "metadata",
        "bug": "",
        "world": "swarm",
    }


def _parsed(arguments: list[str]) -> RunOptions:
    """The options that `splitbrain run` makes of its arguments."""
    given: dict[str, Any] = run.command.make_context("run", arguments).params
    return RunOptions.of(
        **{name: value for name, value in given.items() if name not in ("engine", "master", "store", "as_json")}
    )


def test_a_consistency_model_narrows_the_draw_to_workloads_judged_by_one_and_is_in_every_run() -> None:
    given: dict[str, Any] = {"nemesis": "kill", "nodes": None, "system": "metadata", "bug": "", "world": "lan"}
    found = asked_for(workload=None, consistency_model="snapshot-isolation", **given)
    assert {"list-append", "rw-register"} <= set(found.workloads)
    assert not {"register", "bank", "causal"} & set(found.workloads)
    assert draw(7, found).consistency_model == "snapshot-isolation"
    assert "--consistency-model snapshot-isolation" in command_line(draw(7, found))
    with pytest.raises(UsageError, match="judged by a property of its own"):
        asked_for(workload="bank", consistency_model="snapshot-isolation", **given)


def test_some_tests_have_clients_that_are_shared_and_only_where_that_is_possible() -> None:
    drawn = [draw(seed, asked_for(**_request())) for seed in range(400)]
    most = {each.workload: most_shared(each.workload, "metadata") for each in drawn}
    able = [each for each in drawn if most[each.workload]]
    assert {each.sharing for each in drawn if not most[each.workload]} == {0}
    assert 0.08 < sum(each.sharing > 0 for each in able) / len(able) < 0.25
    assert {each.sharing for each in able if most[each.workload] == 1} == {0, 1}
    assert {each.sharing for each in able} == {0, 1, 2, 3, 5, 10}
    assert "--sharing 1" in command_line(msgspec.structs.replace(able[0], sharing=1))


def test_a_number_of_sharing_clients_narrows_the_draw_to_workloads_that_allow_it() -> None:
    asked = asked_for(**_request(), sharing=3)
    assert "register" in asked.workloads
    assert not {"queue", "lock", "topology"} & {*asked.workloads, *asked.more}
    assert {draw(seed, asked).sharing for seed in range(20)} == {3}
