"""What a name of `--nemesis` does to a run: which ops, when, of which kinds, and that a seed decides it all."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, get_args

import msgspec
import pytest

from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.test import NemesisPackage
from splitbrain.harness.generators import Context, Generator
from splitbrain.nemesis import catalogue
from splitbrain.nemesis.catalogue import KINDS, NEMESES, UNFAIR, build, descriptions, kinds, names_for
from splitbrain.nemesis.compose import Composed
from splitbrain.nemesis.membership import LEAVES_S
from splitbrain.nemesis.partition import SHAPES, Partition
from splitbrain.nemesis.process import kill
from splitbrain.nemesis.targets import SPECS
from splitbrain.results.errors import FaultNotSupportedError, NemesisError, UnknownNameError, UsageError
from splitbrain.results.history import NEMESIS, Op
from splitbrain.results.values import canonical_json
from tests.nemesis.support import (
    FIVE,
    MIXES,
    Groups,
    Members,
    Migrations,
    Nodes,
    Service,
    Transfers,
    Versions,
    context,
    led_by,
    run,
)

MARKED = functools.partial(catalogue.build, marks=("vote granted", "election won"))
"""For a system with these marks."""

START_OF = {kind.stop_f: kind.start_f for kind in KINDS.values()}
SECOND = 1_000_000_000


def never(op: Op, in_force: Collection[str]) -> bool:
    """For `drive`: each op hits what it should."""
    return False


def schedule(package: NemesisPackage, seed: int = 1, seconds: float = 30.0, **how: Any) -> list[Op]:
    """The nemesis ops of a run, invocations at the times at which they come; `how` as for `drive`."""
    assert package.generator is not None
    return drive(package.generator, seed, seconds, **how)


def drive(
    generator: Generator,
    seed: int = 1,
    seconds: float = 30.0,
    nodes: Sequence[str] = FIVE,
    took_s: float = 0.3,
    misses: Callable[[Op, Collection[str]], bool] = never,
    target: str = "none: no node can be spared",
) -> list[Op]:
    """The nemesis ops of a generator; each takes `took_s`.

    `misses` decides which ops find nothing to hit, given the kinds of fault that are in force; they say `target` then.
    """
    streams = Streams(seed)
    struck: set[str] = set()
    ctx = Context.initial(10, nodes, streams["workload"], streams["nemesis"])
    invoked: list[Op] = []
    while ctx.time_ns < seconds * SECOND:
        result = generator.op(ctx)
        if result is None:
            break
        found, generator = result
        if not isinstance(found, Op):
            assert found.until_ns is not None, "the nemesis is free and would never be asked again"
            assert found.until_ns > ctx.time_ns
            ctx.time_ns = found.until_ns
            continue
        assert found.process == NEMESIS
        op = msgspec.structs.replace(found, time=ctx.time_ns)
        invoked.append(op)
        ctx.free &= ~ctx.nemesis_bit
        generator = generator.update(ctx, op)
        assert_waits(generator, ctx)
        ctx.time_ns += round(took_s * SECOND)
        ctx.free |= ctx.nemesis_bit
        fault, begins, found = op.value["fault"], op.value["action"] == "start", op.value
        if misses(op, struck):
            found = {**op.value, "target": target}
        elif begins:
            struck.add(fault)
        else:
            struck.discard(fault)
        generator = generator.update(ctx, msgspec.structs.replace(op.complete("ok", found), time=ctx.time_ns))
    return invoked


def assert_waits(generator: Generator, ctx: Context) -> None:
    """While an op is under way, however long it takes, there is no other."""
    time_ns = ctx.time_ns
    for _ in range(2):
        result = generator.op(ctx)
        if result is None:
            break
        found, generator = result
        assert not isinstance(found, Op), "the nemesis is busy"
        ctx.time_ns += 1000 * SECOND
    ctx.time_ns = time_ns


def in_force(ops: Sequence[Op]) -> list[set[str]]:
    """The faults in force after each op."""
    now: set[str] = set()
    found: list[set[str]] = []
    for op in ops:
        now = now - {START_OF[op.f]} if op.f in START_OF else now | {op.f}
        found.append(set(now))
    return found


def injections(ops: Sequence[Op]) -> list[dict[str, Any]]:
    return [op.value for op in ops if op.value["action"] == "start"]


OF_KINDS = {
    "none": set[str](),
    "partition": {"cut"},
    "swizzle": {"cut"},
    "clog": {"hold"},
    "bounce": {"kill"},
    "restart": {"kill"},
    "packet": {"loss", "duplicate", "reorder", "corrupt", "delay", "rate", "mtu", "reset"},
    "disk": {"disk-full", "disk-read-only", "disk-fails", "disk-sync", "disk-slow", "disk-rot", "kill"},
    "clock": {"clock-jump", "clock-drift", "clock-strobe"},
    "membership": {"membership", "kill"},
    "transfer": {"transfer"},
    "migrate": {"migrate"},
    "groups": {"groups"},
    "discovery": {"discovery"},
    "upgrade": {"upgrade", "kill"},
    "clients": {"client-links"},
    "rollback": {"upgrade", "kill"},
    "moment": {"moment", "kill", "power", "pause", "cut", "clock-jump"},
}
"""What the names that begin so need, unless they are one way of it."""

OF_WAYS = {
    "partition-clients": {"client-links"},
    "packet-flaky": {"reset"},
    "restart-in-good-order": {"stop"},
    "membership": {"membership", "kill", "learners"},
    "membership-learner": {"membership", "kill", "learners"},
    "bounce-at-moments": {"moment", "kill", "power"},
    "bounce-at-moments-kill": {"moment", "kill"},
    "bounce-at-moments-power": {"moment", "power"},
    **{f"moment-{way}": {"moment", way} for way in ("kill", "power", "pause", "cut")},
    "moment-clock": {"moment", "clock-jump"},
}


@pytest.mark.parametrize("name", descriptions())
def test_every_name_builds_a_package_that_says_what_it_needs_of_a_backend(name: str) -> None:
    family, _, way = name.partition("-")
    if family in ("packet", "clock", "disk") and way:
        one_way = {f"{family}-{way}" if family != "packet" else way} | ({"kill"} if family == "disk" else set[str]())
        needed = OF_WAYS.get(name, one_way)
    else:
        needed = OF_WAYS.get(name, OF_KINDS.get(family, {family}))
    assert build([name]).faults == needed


# --- what a backend can do ----------------------------------------------------------------------------------------

EVERY_KIND: tuple[FaultKind, ...] = get_args(FaultKind)


def support(*missing: FaultKind, why: str = "no such thing") -> dict[FaultKind, Support]:
    return {kind: Support(kind not in missing, why if kind in missing else "yes") for kind in EVERY_KIND}


def only(*there: FaultKind) -> dict[FaultKind, Support]:
    absent: list[FaultKind] = [kind for kind in EVERY_KIND if kind not in there]
    return support(*absent)


def test_the_names_for_a_backend_are_those_of_which_it_can_do_something() -> None:
    assert names_for(support()) == tuple(NEMESES)
    of_nodes = {name for name in NEMESES if name.startswith(("partition", "swizzle"))} - {"partition-clients"}
    assert set(names_for(only("cut"))) == of_nodes
    without_kill = names_for(support("kill"))
    assert not {"kill-one", "disk", "disk-rot", "restart"} & set(without_kill)
    assert {"packet", "packet-loss"} <= set(names_for(only("loss")))
    assert "packet-delay" not in names_for(only("loss"))


def test_a_mix_takes_what_the_backend_can_do_and_says_what_it_leaves_out_and_why() -> None:
    package = build(
        ["packet", "kill"], support=support("reset", "mtu", "disk-full", why="no packets are rewritten here.")
    )
    assert package.left_out == ("packet: without reset, mtu (no packets are rewritten here)",)
    assert package.faults == OF_KINDS["packet"] - {"reset", "mtu"} | {"kill"}
    ways = {
        next(iter(injection["disturb"]))
        for injection in injections(schedule(package, seconds=2000))
        if "disturb" in injection
    }
    assert ways == {"loss", "corrupt", "duplicate", "reorder", "delay_ms", "rate_kbit"}


def test_where_everything_works_nothing_is_left_out_and_the_schedule_is_the_same() -> None:
    asked, offered = build(["packet", "disk"]), build(["packet", "disk"], support=support())
    assert offered.left_out == ()
    assert schedule(offered) == schedule(asked)


@pytest.mark.parametrize(
    ("name", "missing"), [("packet-loss", "loss"), ("disk-rot", "disk-rot"), ("disk-rot", "kill"), ("kill", "kill")]
)
def test_a_way_that_is_named_and_does_not_work_is_refused_with_the_reason(name: str, missing: FaultKind) -> None:
    lacking = support(missing, why="the kernel has none.")
    told = f"^the box cannot inject '{missing}' here: the kernel has none. Leave {name} out of --nemesis"
    with pytest.raises(FaultNotSupportedError, match=told):
        build(["partition", name], support=lacking, where="the box")


def test_a_mix_of_which_nothing_works_is_refused_with_every_reason() -> None:
    lacking: dict[FaultKind, Support] = {
        **support(),
        "clock-jump": Support(False, "no A."),
        "clock-strobe": Support(False, "no A."),
    }
    assert build(["clock"], support=lacking).left_out == ("clock: without clock-jump, clock-strobe (no A)",)
    lacking["clock-drift"] = Support(False, "no B")
    with pytest.raises(
        FaultNotSupportedError, match=r"'clock-jump', 'clock-strobe' here: no A; 'clock-drift' here: no B"
    ):
        build(["clock"], support=lacking)


def test_what_strikes_unfairly_is_in_no_mix_and_drawn_by_no_default() -> None:
    unfair = {need for name in UNFAIR for need in build([name]).faults} - {"kill"}
    assert unfair == {"disk-truncate", "upgrade"}
    unfair.discard("upgrade")  # it is fair in itself, and unfair where it goes back
    assert not any(unfair & build([name]).faults for name in NEMESES if name not in UNFAIR)
    assert not set(UNFAIR) & set(MIXES)


# --- weights ------------------------------------------------------------------------------------------------------


def test_a_weight_is_the_number_of_turns_for_one_of_the_others() -> None:
    found = Counter(
        injection["fault"] for injection in injections(schedule(build(["partition:3", "kill"]), seconds=6000))
    )
    assert found["partition"] / found["kill"] == pytest.approx(3, rel=0.1)
    assert build(["partition:3", "kill"]).name == "partition,kill"


def test_the_names_of_one_kind_share_its_turns_by_their_weights() -> None:
    found = Counter(
        injection["shape"]
        for injection in injections(schedule(build(["partition-ring:4", "partition-one"]), seconds=4000))
    )
    assert found["majorities-ring"] / found["isolate-one"] == pytest.approx(4, rel=0.1)


def test_equal_weights_of_one_change_nothing() -> None:
    assert schedule(build(["partition:1", "kill:1"]), seconds=300) == schedule(
        build(["partition", "kill"]), seconds=300
    )


@pytest.mark.parametrize("weight", ["", "0", "-1", "1.5", "x", "21", "²"])
def test_a_weight_that_is_none_is_refused(weight: str) -> None:
    with pytest.raises(UsageError, match="a weight is a whole number from 1 to 20, as in kill:2"):
        build([f"kill:{weight}"])


def test_the_mixes_are_of_every_kind() -> None:
    assert set(kinds(MIXES)) == set(KINDS) - {"rollback", "discovery", "migrate"}, (
        "a cluster need not survive that, or has no service, or one store"
    )


@pytest.mark.parametrize("name", NEMESES)
def test_every_op_of_every_name_can_be_carried_out_and_is_undone_in_the_end(name: str) -> None:
    package = MARKED([name])
    assert package.nemesis is not None
    assert package.final_generator is not None
    nodes, system = Nodes(), led_by("n2")
    system.membership, system.transfer, system.groups = Members(), Transfers(system), Groups()
    system.upgrades, system.discovery, system.migrations = Versions(), Service(), Migrations()
    ops = schedule(package, seconds=120) + drive(package.final_generator)
    for op in ops:
        assert op.f in package.nemesis.fs
        canonical_json(op.value)
        done = run(package.nemesis.invoke(context(nodes, system), op))
        assert done.type == "ok", done.error
        struck = [
            done.value.get(listed)
            for listed in ("cut", "down", "paused", "links", "disks", "clocks", "cpus", "clients")
        ]
        # What becomes of a rash request is not known yet: it has evidence that it was made instead. So have a group
        # that was made again, a learner, and nodes that run with different versions.
        shows = not {"over", "rash", "learner", "writes"} & set(op.value)
        shows = shows and op.value["fault"] not in ("upgrade", "rollback", "discovery")
        assert any(struck) is (op.value["action"] == "start" and shows)
    assert set(nodes.states.values()) == {"running"}
    assert (nodes.cut_links, nodes.faults, nodes.disks, nodes.clocks, nodes.shares) == ({}, {}, {}, {}, {})


@pytest.mark.parametrize("names", [["none", "kill"], ["kill", "none"], ["none:2"], ["kill:2", "kill"]])
def test_what_contradicts_itself_is_refused(names: list[str]) -> None:
    with pytest.raises(UsageError, match=r"give it alone|twice"):
        MARKED(names)


@pytest.mark.parametrize("names", [["none"], []])
def test_none_means_nothing(names: list[str]) -> None:
    package = MARKED(names)
    assert (package.name, package.nemesis, package.generator, package.final_generator) == ("none", None, None, None)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"nemesis 'partitoin'. Did you mean 'partition'\?.*pause-leader"):
        build(["kill", "partitoin"])


@pytest.mark.parametrize("interval_s", [0, -1, float("inf"), float("nan")])
def test_an_interval_that_is_no_time_is_refused(interval_s: float) -> None:
    with pytest.raises(UsageError, match="--interval"):
        build(["partition"], interval_s=interval_s)


def test_a_test_with_too_few_nodes_for_a_fault_is_told_so() -> None:
    with pytest.raises(UsageError, match="'partition' needs more nodes than 1: raise --nodes"):
        schedule(build(["partition"]), nodes=["n1"])
    with pytest.raises(UsageError, match="'partition' needs more nodes than 2"):
        build(["kill", "partition-ring"], nodes=["n1", "n2"])
    build(["kill", "partition"], nodes=["n1", "n2"])
    two = {
        injection["shape"] for injection in injections(schedule(build(["partition"]), nodes=["n1", "n2"], seconds=600))
    }
    assert two
    assert all(SHAPES[shape].nodes <= 2 for shape in two)


# --- the schedule -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [["partition"], ["partition", "kill"], ["partition", "kill", "pause"], MIXES])
def test_the_seed_decides_the_schedule(names: list[str]) -> None:
    assert schedule(MARKED(names), seed=5) == schedule(MARKED(names), seed=5) != schedule(MARKED(names), seed=6)


@pytest.mark.parametrize("names", [["partition"], ["partition", "kill", "pause"], MIXES])
def test_the_order_of_ops_does_not_depend_on_how_long_they_take(names: list[str]) -> None:
    fast = [(op.f, op.value) for op in schedule(MARKED(names), took_s=0.01)]
    slow = [(op.f, op.value) for op in schedule(MARKED(names), took_s=1.5)]
    assert len(slow) >= 4
    assert fast[: len(slow)] == slow


def test_only_the_stream_of_the_nemesis_is_drawn_from() -> None:
    streams = Streams(1)
    ctx = Context.initial(10, FIVE, streams["workload"], streams["nemesis"])
    generator = build(["partition", "kill"]).generator
    assert generator is not None
    for _ in range(5):
        result = generator.op(ctx)
        assert result is not None
        found, generator = result
        if isinstance(found, Op):
            generator = generator.update(ctx, found.complete("ok", {}))
        ctx.time_ns += 20 * SECOND
    assert streams["workload"].random() == Streams(1)["workload"].random()
    assert streams["nemesis"].random() != Streams(1)["nemesis"].random()


@pytest.mark.parametrize("names", [["partition"], ["kill"], ["partition", "kill", "pause"]])
@pytest.mark.parametrize("seed", range(20))
def test_in_half_a_minute_several_faults_strike_each_for_at_least_half_an_interval(names: list[str], seed: int) -> None:
    ops = schedule(MARKED(names), seed)
    assert len(injections(ops)) >= 3
    assert ops[0].time == 2 * SECOND
    gaps = [(b.time - a.time) / SECOND - 0.3 for a, b in itertools.pairwise(ops)]
    assert all(2 <= gap <= 6 for gap in gaps)


def test_the_mean_distance_of_ops_is_the_interval() -> None:
    ops = schedule(build(["partition"], interval_s=2.0), seconds=2000, took_s=0.0)
    assert len(ops) == pytest.approx(1000, rel=0.05)


@pytest.mark.parametrize("names", [["partition"], ["partition", "kill", "pause"]])
def test_no_fault_begins_so_shortly_before_the_end_that_it_could_not_last(names: list[str]) -> None:
    for seed in range(200):
        ops = schedule(MARKED(names, time_limit_s=20.0), seed, seconds=20.0)
        assert max(op.time for op in ops if op.value["action"] == "start") <= 17 * SECOND
        unlimited = schedule(MARKED(names), seed, seconds=17.0)
        assert ops[: len(unlimited)] == unlimited, "the end changes nothing before it"


@pytest.mark.parametrize("seed", range(10))
def test_faults_overlap_now_and_then_two_at_most_and_end_in_pairs(seed: int) -> None:
    ops = schedule(build(["partition", "kill", "pause"]), seed, seconds=300)
    states = in_force(ops)
    sizes = Counter(len(state) for state in states)
    assert set(sizes) == {0, 1, 2}
    for before, op in zip([set[str](), *states], ops, strict=False):
        assert (START_OF[op.f] in before) if op.f in START_OF else (op.f not in before)


def spares_none(op: Op, in_force: Collection[str]) -> bool:
    """As a kill of a node finds none while a minority is paused."""
    return op.value["action"] == "start" and bool(in_force)


@pytest.mark.parametrize("seed", range(20))
def test_a_fault_that_hits_nothing_beside_another_one_has_its_turn_when_that_is_healed(seed: int) -> None:
    ops = schedule(build(["pause", "kill"], overlap=0.9), seed, seconds=200, misses=spares_none)
    beside = hit = 0
    struck: str | None = None
    for op, *later in zip(ops, ops[1:], ops[2:], ops[3:], strict=False):
        fault, begins = op.value["fault"], op.value["action"] == "start"
        if begins and struck is not None:
            beside += 1
            assert [did(each) for each in later] == [(fault, "stop"), (struck, "stop"), (fault, "start")]
            assert later[0].time - op.time == round(0.3 * SECOND), "there is nothing to wait for"
            assert asked_for(later[2]) == asked_for(op)
        elif begins:
            hit += 1
            struck = fault
        elif fault == struck:
            struck = None
    assert beside > 5
    assert hit > 5
    kinds = [op.value["fault"] for op in ops if op.value["action"] == "start"]
    assert min(Counter(kinds).values()) > len(kinds) / 4


def did(op: Op) -> tuple[str, str]:
    return op.value["fault"], op.value["action"]


@pytest.mark.parametrize("target", ["", " "])
def test_a_target_that_says_nothing_is_no_miss(target: str) -> None:
    """A nemesis of a user may have put something in force, and needs its stop."""
    usual = schedule(build(["pause", "kill"], overlap=0.9), seconds=200)
    silent = schedule(build(["pause", "kill"], overlap=0.9), seconds=200, misses=spares_none, target=target)
    assert silent == usual


def test_a_fault_that_hits_nothing_alone_either_makes_no_other_one_end_sooner() -> None:
    """An upgrade finds every node upgraded, from some time on."""

    def misses(op: Op, in_force: Collection[str]) -> bool:
        return op.value["fault"] == "upgrade"

    given_back = later = 0
    for seed in range(20):
        ops = schedule(build(["pause", "kill", "upgrade"], overlap=0.9), seed, seconds=300, misses=misses)
        struck: set[str] = set()
        was_alone = False
        for op, after in itertools.pairwise(ops):
            fault, action = did(op)
            if fault != "upgrade":
                (struck.add if action == "start" else struck.discard)(fault)
            elif action == "start":
                stops_at_once = after.time - op.time == round(0.3 * SECOND)
                assert not (stops_at_once and was_alone), "from then on it is begun and ended as any other one"
                given_back += stops_at_once
                later += was_alone and bool(struck)
                was_alone = was_alone or not struck
    assert given_back > 5
    assert later > 20


def test_a_fault_that_hit_something_again_has_its_turn_given_back_as_before() -> None:
    hit = 0

    def misses(op: Op, in_force: Collection[str]) -> bool:
        nonlocal hit
        if did(op) != ("kill", "start"):
            return False
        hit += not in_force
        return bool(in_force) or hit == 1  # alone it misses once, then never

    ops = schedule(build(["pause", "kill"], overlap=0.9), seed=3, seconds=600, misses=misses)
    back = [op.time for op, after in itertools.pairwise(ops) if after.time - op.time == round(0.3 * SECOND)]
    assert hit > 5
    assert max(back) > 500 * SECOND


def asked_for(op: Op) -> dict[str, Any]:
    """What a request asks for; the order of the nodes is drawn anew."""
    return {name: value for name, value in op.value.items() if name != "order"}


def test_a_fault_that_hits_nothing_by_itself_has_used_its_turn() -> None:
    def misses(op: Op, in_force: Collection[str]) -> bool:
        return op.value["fault"] == "kill"

    names = ["partition", "kill", "pause"]
    found, usual = (schedule(build(names, overlap=0.0), seconds=300, misses=each) for each in (misses, never))
    assert [(op.f, asked_for(op)) for op in found] == [(op.f, asked_for(op)) for op in usual]


def test_the_overlap_is_how_often_a_second_fault_begins_in_a_first_one() -> None:
    def share(overlap: float) -> float:
        states = in_force(schedule(build(["partition", "kill", "pause"], overlap=overlap), seconds=3000))
        alone = [after for before, after in itertools.pairwise(states) if len(before) == 1]
        return sum(len(after) == 2 for after in alone) / len(alone)

    assert share(0.0) == 0
    assert share(0.3) == pytest.approx(0.3, abs=0.05)
    assert share(1.0) == 1


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_has_its_turn_before_any_has_its_third(seed: int) -> None:
    ops = schedule(build(["partition", "kill", "pause"]), seed, seconds=120)
    kinds = [injection["fault"] for injection in injections(ops)]
    assert set(kinds[:4]) == {"partition", "kill", "pause"}


@pytest.mark.parametrize("seed", range(50))
def test_with_partitions_alone_a_leader_is_cut_off_in_every_run_of_half_a_minute(seed: int) -> None:
    shapes = [injection["shape"] for injection in injections(schedule(build(["partition"]), seed))]
    assert {"isolate-leader", "leader-in-minority"} & set(shapes[:2])


def test_all_shapes_and_specs_come_about() -> None:
    partitions = injections(schedule(build(["partition"]), seconds=3000))
    counts = Counter(injection["shape"] for injection in partitions)
    assert set(counts) == set(SHAPES) - {"isolate-queue-leader", "isolate-store-leader"}  # asked for by their names
    leader_cut_off = counts["isolate-leader"] + counts["leader-in-minority"]
    assert leader_cut_off / len(partitions) == pytest.approx(0.5, abs=0.02)
    specs = {injection["spec"] for injection in injections(schedule(build(["kill"]), seconds=3000))}
    assert specs == {"leader", "one", "minority", "majority", "all"}
    assert {NEMESES[name].rounds[0][0].request.get("spec") for name in NEMESES} >= set(SPECS)


def test_orders_are_drawn_evenly() -> None:
    first = Counter(injection["order"][0] for injection in injections(schedule(build(["kill"]), seconds=5000)))
    assert set(first) == set(FIVE)
    assert max(first.values()) < 1.5 * min(first.values())


def test_names_of_one_kind_add_up_to_one_fault() -> None:
    package = build(["partition-ring", "kill-one", "partition-leader", "kill-leader"])
    assert package.name == "partition-ring,kill-one,partition-leader,kill-leader"
    found = injections(schedule(package, seconds=300))
    assert {(injection["fault"], injection.get("shape") or injection.get("spec")) for injection in found} == {
        ("partition", "majorities-ring"),
        ("partition", "isolate-leader"),
        ("kill", "one"),
        ("kill", "leader"),
    }


# --- composition --------------------------------------------------------------------------------------------------


def test_two_nemeses_for_one_op_are_refused() -> None:
    with pytest.raises(UsageError, match="two nemeses handle the op 'kill'"):
        Composed([Partition(), kill(), kill()])


def test_heal_undoes_all_kinds_links_first_and_goes_on_when_one_fails() -> None:
    nodes = Nodes(dead={("n1", "n2")})
    nodes.cut_links = {("n1", "n3"): 0}
    nodes.states.update(n4="stopped", n5="paused")
    nemesis = build(["kill", "pause", "partition"]).nemesis
    assert nemesis is not None
    with pytest.raises(NemesisError, match="n1 -> n2 is blocked"):
        run(nemesis.heal(context(nodes)))
    assert nodes.calls == ["cut 0", "running n5", "running n4"]
    nodes.dead.clear()
    run(nemesis.heal(context(nodes)))
    assert set(nodes.states.values()) == {"running"}


# --- requests -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", range(1, 10))
def test_every_request_says_all_that_it_takes_to_strike_again(count: int) -> None:
    """The same op strikes a fresh deployment in the same way, whatever became of the nemesis that it was made for."""
    names = [f"n{i}" for i in range(1, count + 1)]
    possible = [name for name in MIXES if all(injection.nodes <= count for injection in NEMESES[name].rounds[0])]
    for op in schedule(MARKED(possible), seed=count, seconds=400, nodes=names):
        if op.value["action"] == "stop":
            continue
        found: list[Any] = []
        for _ in range(2):
            nemesis, nodes = MARKED(possible).nemesis, Nodes(names)
            assert nemesis is not None
            system = led_by(names[-1], names)
            system.membership, system.transfer, system.groups = Members(names), Transfers(system), Groups()
            system.upgrades = Versions()
            done = run(nemesis.invoke(context(nodes, system), op))
            found.append((done, nodes.states, nodes.cut_links, nodes.faults, nodes.disks, nodes.clocks))
        assert found[0] == found[1]
        assert found[0][0].type == "ok", found[0][0].error
        assert not str(found[0][0].value["target"]).startswith("nobody")


def test_figures_differ_from_strike_to_strike_and_from_seed_to_seed() -> None:
    losses = [injection["disturb"]["loss"] for injection in injections(schedule(build(["packet-loss"]), seconds=600))]
    assert len(set(losses)) > len(losses) / 2
    assert losses != [s["disturb"]["loss"] for s in injections(schedule(build(["packet-loss"]), seed=2, seconds=600))]


@pytest.mark.parametrize("seed", range(10))
def test_a_mix_comes_to_each_of_its_ways_before_any_has_its_third_turn(seed: int) -> None:
    def ways(name: str, count: int) -> list[str]:
        found = injections(schedule(build([name]), seed, seconds=600))[:count]
        return [next(iter(injection.get("disturb") or injection["spoil"])) for injection in found]

    disks, links = set(ways("disk", 4)), set(ways("packet", 5))
    assert {"slow_ms", "rot"} < disks
    assert len(disks & {"full", "read_only"}) == len(disks & {"sync_fails", "fails"}) == 1
    assert {"duplicate", "reorder"} < links
    for pair in ({"loss", "corrupt"}, {"delay_ms", "rate_kbit"}, {"resets", "mtu"}):
        assert len(links & pair) == 1


def test_heal_undoes_links_packets_clocks_and_disks_before_it_starts_nodes() -> None:
    nodes = Nodes(fragile=set(FIVE))
    nemesis = MARKED(MIXES).nemesis
    assert nemesis is not None
    for f, request in (
        ("start-clock", {"spec": "one", "skew": {"n1": {"offset_ms": 50}}}),
        ("start-disk", {"spec": "minority", "spoil": {"rot": 1}}),
        ("kill", {"spec": "all"}),
        ("start-packet", {"scope": "all", "disturb": {"loss": 0.5}}),
        ("start-partition", {"shape": "isolate-one"}),
    ):
        op = Op(process=NEMESIS, type="invoke", f=f, value={"action": "start", "order": list(FIVE), **request})
        assert run(nemesis.invoke(context(nodes), op)).type == "ok"
    nodes.calls.clear()
    run(nemesis.heal(context(nodes)))
    first = [next(i for i, call in enumerate(nodes.calls) if call.startswith(what)) for what in HEALING]
    assert first == sorted(first)
    assert set(nodes.states.values()) == {"running"}
    assert (nodes.cut_links, nodes.faults, nodes.disks, nodes.clocks) == ({}, {}, {}, {})


HEALING = ("cut 0", "disturb 0", "unskew n1", "unspoil n1", "running")


def test_a_fault_that_takes_long_to_begin_does_so_for_the_last_time_so_much_earlier() -> None:
    for seed in range(20):
        package = build(["membership", "kill"], interval_s=4.0, time_limit_s=30.0)
        begun = {op.f: op.time / SECOND for op in schedule(package, seed=seed, seconds=60) if op.f in ("leave", "kill")}
        assert begun["leave"] <= 30 - 3 - LEAVES_S
        assert begun["kill"] <= 30 - 3
