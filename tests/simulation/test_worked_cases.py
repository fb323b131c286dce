"""The worked cases of the quorum-progress analysis as simulated runs of the real cluster, one fault from 2 s to 14 s.

Each shows that the window of the fault is what the case says, whatever the seed, and that the cluster does as it must;
and then that the rule of the case finds what breaks it: a bug of the cluster, or where no bug does, another history.
Membership that grows (case 7) is in a file of its own.

No case has a node outside of all cores that may lead, so that wherever there is a core, Q3 demands its progress.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
import pytest

from splitbrain.results.history import Op
from tests.simulation.scripted import FIVE, Fault, Judged, run

BEGIN_S, END_S = 2.0, 14.0
SEEDS = [1, 2, 6]
"""The leaders before the fault are n5, n1 and n3: in the bridge one on each side of it, and the one in the middle."""
DURING_S = 9.0
"""A moment in the window of the fault."""


def order(nodes: str) -> str:
    """Nodes by their numbers, as a request names them."""
    return msgspec.json.encode([f"n{number}" for number in nodes]).decode()


def partition(shape: str, nodes: str = "12345") -> tuple[Fault, ...]:
    """Links are cut in a shape; which node has which place in it is given, or who leads decides."""
    request = f'{{"shape": "{shape}", "order": {order(nodes)}}}'
    return Fault(BEGIN_S, "start-partition", request), Fault(END_S, "stop-partition")


THREE_AND_TWO = partition("halves", "45123")
THIRDS = partition("thirds", "13524")
BRIDGE = partition("bridge", "31245")
RING = partition("majorities-ring")
HEARD_BY_ALL = partition("one-way-deaf-leader")
PAUSED = (Fault(BEGIN_S, "pause", '{"spec": "leader"}'), Fault(END_S, "resume"))
LOSSY = (
    Fault(BEGIN_S, "start-packet", '{"scope": "all", "disturb": {"loss": 0.3}}'),
    Fault(END_S, "stop-packet"),
)


def named(numbers: Collection[str]) -> list[str]:
    return [f"n{number}" for number in numbers]


def but(node: str) -> list[str]:
    return [other for other in FIVE if other != node]


def assert_window(
    of: Judged,
    *,
    capable: Collection[str],
    served: Collection[str],
    cores: Collection[Collection[str]],
    possibly_capable: Collection[str] | None = None,
) -> None:
    """The window of the fault, from the moment in which it was in force until it began to be healed."""
    seen = of.window(DURING_S)
    assert BEGIN_S <= seen["start_s"] < BEGIN_S + 0.1
    assert seen["end_s"] == END_S
    assert seen["configurations"] == [list(FIVE)]
    assert seen["capable"] == list(capable)
    assert seen["possibly_capable"] == list(capable if possibly_capable is None else possibly_capable)
    assert seen["possibly_served"] == list(served)
    assert seen["cores"] == [list(core) for core in cores]
    if cores:
        assert set(seen["possibly_capable"]) <= {node for core in cores for node in core}


def assert_results(of: Judged, **case: str) -> None:
    """No rule is violated, those of the case have the given results, and leaders and commits were judged."""
    assert of.verdict.valid == "true"
    told = {**dict.fromkeys(("Q5", "Q6", "Q7", "Q10"), "held"), **case}
    assert {rule: of.rules[rule] for rule in told} == told


def answered(of: Judged) -> set[str]:
    """Nodes that answered an op which began and ended while the fault was in force."""
    begun: dict[int, int] = {}
    found: set[str] = set()
    for op in of.left.ops:
        if op.type == "invoke":
            begun[op.process] = op.time
        elif op.node and op.type == "ok" and begun[op.process] > (BEGIN_S + 0.1) * 1e9 and op.time < END_S * 1e9:
            found.add(op.node)
    return found


def silenced(nodes: Collection[str]) -> Callable[[Op], Op]:
    """These nodes refuse everything while the fault is in force."""

    def change(op: Op) -> Op:
        inside = BEGIN_S * 1e9 <= op.time <= END_S * 1e9
        if op.process < 0 or op.type == "invoke" or op.node not in nodes or not inside:
            return op
        return msgspec.structs.replace(op, type="fail", error="no leader")

    return change


# --- 1: three and two -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_1_the_three_progress_and_the_two_are_silent(seed: int) -> None:
    good = run(THREE_AND_TWO, seed)
    assert_window(good, capable=named("123"), served=named("123"), cores=[named("123")])
    assert_results(good, Q2="held", Q3="held")
    assert answered(good) == set(named("123"))


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["M81", "M23"])
def test_1_an_answer_on_the_wrong_side_violates_q2(bug: str) -> None:
    # M23 needs a leader on the wrong side, M81 somebody who has lost theirs.
    script = partition("leader-in-minority")
    assert_results(run(script, 1), Q2="held", Q3="held")
    assert run(script, 1, bug).rules["Q2"] == "violated"
    assert run(THREE_AND_TWO, 1, "M81").rules["Q2"] == "violated"


# --- 2: two, two and one ----------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_2_without_a_majority_anywhere_nobody_answers(seed: int) -> None:
    good = run(THIRDS, seed)
    assert_window(good, capable=[], served=[], cores=[])
    assert_results(good, Q1="held", Q3="not judged")
    assert answered(good) == set()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bug", ["M81", "M23"])
def test_2_an_answer_of_anybody_violates_q1(bug: str) -> None:
    assert run(THIRDS, 1, bug).verdict.anomalies[0] == "Q1"


# --- 3: a bridge ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_3_one_side_of_a_bridge_progresses_or_both(seed: int) -> None:
    good = run(BRIDGE, seed)
    assert_window(good, capable=FIVE, served=FIVE, cores=[named("123"), named("345")])
    assert_results(good, Q3="held")
    assert answered(good) in (set(named("123")), set(named("345")), set(FIVE))


@pytest.mark.slow
def test_3_the_seeds_show_a_leader_on_either_side_of_the_bridge_and_one_in_its_middle() -> None:
    assert {frozenset(answered(run(BRIDGE, seed))) for seed in SEEDS} == {
        frozenset(named("123")),
        frozenset(named("345")),
        frozenset(FIVE),
    }


def test_3_silence_in_one_core_is_allowed_and_silence_in_both_violates_q3() -> None:
    everywhere = next(run(BRIDGE, seed) for seed in SEEDS if answered(run(BRIDGE, seed)) == set(FIVE))
    assert everywhere.doctored(silenced(["n1"])).valid == "true"
    assert everywhere.doctored(silenced(["n1", "n5"])).anomalies == ("Q3",)
    assert everywhere.doctored(silenced(["n3"])).anomalies == ("Q3",)


# --- 4: a ring of majorities ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_4_a_ring_of_majorities_has_no_core_and_gives_figures_only(seed: int) -> None:
    good = run(RING, seed)
    assert_window(good, capable=FIVE, served=FIVE, cores=[])
    assert_results(good, Q3="not judged")
    assert good.doctored(silenced(FIVE)).valid == "true"


# --- 5: a leader that hears nobody ------------------------------------------------------------------------------------


def deaf(of: Judged) -> str:
    """The leader that was cut off."""
    return of.nemesis("start-partition").value["evidence"]["leader"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_5_a_leader_that_hears_nobody_falls_silent_and_the_others_progress(seed: int) -> None:
    good = run(HEARD_BY_ALL, seed)
    others = but(deaf(good))
    assert_window(good, capable=others, served=others, cores=[others])
    assert_results(good, Q2="held", Q3="held")
    assert answered(good) == set(others)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_5_a_leader_that_stays_and_keeps_the_others_from_an_election_violates_q3(seed: int) -> None:
    assert run(HEARD_BY_ALL, seed, "M80").verdict.anomalies == ("Q3",)


@pytest.mark.slow
def test_5_a_leader_that_hears_nobody_and_answers_violates_q2() -> None:
    broken = run(HEARD_BY_ALL, 1, "M23")
    assert broken.rules["Q2"] == "violated"
    assert f"{deaf(broken)} answered op" in broken.verdict.sentence


# --- 6: a superseded leader -------------------------------------------------------------------------------------------


def paused(of: Judged) -> str:
    """The leader that was paused."""
    (found,) = of.nemesis("pause").value["paused"]
    return found


def resumed_unaware(leader: str) -> tuple[Fault, ...]:
    """The leader is paused, and what the new one tells it meanwhile is lost: links are open again when it wakes up.

    With links that are open all the time what the new leader said arrives before what clients asked later, so that even
    one who would answer on its own (M23) learns first that its term is over.
    """
    isolated = f'{{"shape": "isolate-one", "order": {msgspec.json.encode([leader, *but(leader)]).decode()}}}'
    return (
        Fault(BEGIN_S, "pause", '{"spec": "leader"}'),
        Fault(BEGIN_S + 0.05, "start-partition", isolated),
        Fault(END_S, "stop-partition"),
        Fault(END_S, "resume"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_6_a_leader_that_was_paused_answers_nothing_in_its_old_term(seed: int) -> None:
    good = run(PAUSED, seed)
    others = but(paused(good))
    assert_window(good, capable=others, served=others, cores=[others])
    assert_results(good, Q2="held", Q3="held")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 5])  # of every three seeds about two: a client must ask at the right moment
def test_6_a_leader_that_answers_in_its_old_term_violates_q10_alone_although_every_link_is_open(seed: int) -> None:
    leader = paused(run(PAUSED, seed))
    script = resumed_unaware(leader)
    assert_results(run(script, seed), Q3="held")
    broken = run(script, seed, "M23")
    assert broken.verdict.anomalies == ("Q10",)
    (finding,) = broken.verdict.evidence["findings"]
    (op,) = finding["ops"]
    assert op["node"] == leader
    assert op["time_s"] > broken.nemesis("stop-partition").time / 1e9


# --- 8: lossy links ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_8_where_all_links_lose_messages_nothing_is_forbidden_or_demanded(seed: int) -> None:
    good = run(LOSSY, seed)
    assert_window(good, capable=[], possibly_capable=FIVE, served=FIVE, cores=[])
    assert_results(good, Q3="not judged")
    assert good.doctored(silenced(FIVE)).valid == "true"
    assert good.verdict.figures["availability"]["cluster"]["ops"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["M81", "M23"])
def test_8_answers_that_no_majority_stands_behind_are_no_matter_of_q1_and_q2(bug: str) -> None:
    broken = run(LOSSY, 1, bug)
    assert "violated" not in (broken.rules["Q1"], broken.rules["Q2"], broken.rules["Q3"])
