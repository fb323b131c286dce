"""What strategies promise is kept, and each switch breaks what it says: as the checkers of strategies see it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from splitbrain.checkers.registry import checker
from splitbrain.checkers.verdict import Verdict
from splitbrain.cluster.bugs import ALL, NO_BUGS, Bugs
from splitbrain.cluster.tables.strategies import strategy_named
from tests.cluster.tables.recorded import history, telemetry
from tests.cluster.tables.simulation import Cluster

FOUR = ["n1", "n2", "n3", "n4"]
FIVE = [*FOUR, "n5"]


def cluster_of(
    strategy: str,
    *,
    names: list[str] = FIVE,
    listed: tuple[str, ...] = (),
    bugs: Bugs = NO_BUGS,
    seed: int = 0,
    clients: dict[str, int] | None = None,
) -> Cluster:
    return Cluster(names, seed, lambda: strategy_named(strategy, listed, bugs), bugs=bugs, clients=clients)


def judge(cluster: Cluster, name: str, strategy: str, listed: tuple[str, ...] = ()) -> Verdict:
    found = checker(name)
    assert found.partition == "whole run"
    return found.check(history(cluster), telemetry(cluster, strategy, listed), {})


def healed(cluster: Cluster, *sides: list[str], cut_ms: int = 6000, after_ms: int = 12_000) -> Cluster:
    cluster.partition(*sides)
    cluster.run(cut_ms)
    cluster.heal()
    cluster.run(after_ms)
    return cluster


def minority(bugs: Bugs) -> Verdict:
    cluster = healed(cluster_of("pause-minority", bugs=bugs, names=FOUR), ["n1", "n2"], ["n3", "n4"])
    return judge(cluster, "strategy-pause-minority", "pause-minority")


def majority_without_all(bugs: Bugs) -> Verdict:
    """n1 is alone, and then with two others, but not with all."""
    cluster = cluster_of("pause-minority", bugs=bugs)
    cluster.partition(["n1"], ["n2", "n3", "n4", "n5"])
    cluster.run(4000)
    cluster.partition(["n1", "n2", "n3", "n4"], ["n5"])
    cluster.run(12_000)
    return judge(cluster, "strategy-pause-minority", "pause-minority")


def partly(strategy: str, bugs: Bugs, listed: tuple[str, ...] = ()) -> Cluster:
    """n1 and n2 lose each other, and both see all others."""
    cluster = cluster_of(strategy, bugs=bugs, listed=listed)
    cluster.cut = {("n1", "n2"), ("n2", "n1")}
    cluster.cuts.append((cluster.now_ms, sorted(cluster.cut)))
    cluster.run(12_000)
    cluster.heal()
    cluster.run(12_000)
    return cluster


def in_partial(bugs: Bugs) -> Verdict:
    return judge(partly("pause-minority", bugs), "strategy-pause-minority", "pause-minority")


def partial_under_ignore(bugs: Bugs) -> Verdict:
    return judge(partly("ignore", bugs), "strategy-ignore", "ignore")


def silent(bugs: Bugs) -> Verdict:
    cluster = healed(cluster_of("ignore", bugs=bugs), ["n1", "n2"], ["n3", "n4", "n5"])
    return judge(cluster, "strategy-down", "ignore")


def ignored(bugs: Bugs) -> Verdict:
    cluster = healed(cluster_of("ignore", bugs=bugs), ["n1", "n2"], ["n3", "n4", "n5"])
    return judge(cluster, "strategy-ignore", "ignore")


def apart(bugs: Bugs) -> Verdict:
    cluster = healed(cluster_of("ignore", bugs=bugs), ["n1", "n2"], ["n3", "n4", "n5"], after_ms=20_000)
    return judge(cluster, "strategy-apart", "ignore")


def all_down(bugs: Bugs) -> Verdict:
    strategy, listed = "pause-if-all-down-ignore", ("n1",)
    cluster = healed(cluster_of(strategy, bugs=bugs, listed=listed), ["n1", "n2"], ["n3", "n4", "n5"])
    return judge(cluster, "strategy-pause-if-all-down", strategy, listed)


def recovers_by(mode: str, bugs: Bugs) -> Verdict:
    strategy, listed = f"pause-if-all-down-{mode}", ("n1", "n3")
    cluster = cluster_of(strategy, bugs=bugs, listed=listed)
    healed(cluster, ["n1", "n2"], ["n3", "n4", "n5"], after_ms=40_000)
    return judge(cluster, f"strategy-{mode}", strategy, listed)


def autohealed(bugs: Bugs) -> Verdict:
    clients = {"n1": 1, "n2": 3, "n3": 1, "n4": 1, "n5": 1}
    cluster = cluster_of("autoheal", bugs=bugs, clients=clients)
    healed(cluster, ["n1", "n2"], ["n3", "n4", "n5"], after_ms=40_000)
    return judge(cluster, "strategy-autoheal", "autoheal")


def confused(bugs: Bugs) -> Verdict:
    return recovers_by("ignore", bugs)


BREAKS: dict[str, tuple[Callable[[Bugs], Verdict], str]] = {
    "M83": (ignored, "stopped-by-itself"),
    "M83B": (partial_under_ignore, "left-partial"),
    "M83C": (apart, "unnoticed"),
    "M83D": (partial_under_ignore, "partial-unseen"),
    "M83E": (silent, "too-early"),
    "M83F": (silent, "did-not-notice"),
    "M84": (minority, "did-not-pause"),
    "M84B": (majority_without_all, "stayed-paused"),
    "M84C": (in_partial, "resumed-too-soon"),
    "M85": (all_down, "did-not-pause"),
    "M85B": (confused, "stopped-by-itself"),
    "M86": (autohealed, "wrong-winner"),
    "M86B": (autohealed, "wrong-leader"),
    "M86C": (autohealed, "loser-ran-on"),
    "M86D": (autohealed, "winner-restarted"),
    "M86E": (autohealed, "wrong-winner"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bug", BREAKS)
def test_each_switch_breaks_what_a_strategy_promises_and_nothing_breaks_without_it(bug: str) -> None:
    scenario, anomaly = BREAKS[bug]
    broken, whole = scenario(Bugs([bug])), scenario(NO_BUGS)
    assert (broken.valid, anomaly in broken.anomalies) == ("false", True), broken.sentence
    assert broken.checker in ALL[bug].seen_by
    assert whole.valid != "false", whole.sentence


def test_a_loser_that_is_cut_off_before_it_has_the_tables_of_the_winner_serves_its_own_and_breaks_nothing() -> None:
    """So do those of RabbitMQ: a loser whose winner goes down starts what it has. The next heal decides again."""
    cluster = healed(cluster_of("autoheal"), ["n1"], ["n2", "n3", "n4", "n5"], after_ms=0)
    cluster.run_until(lambda: any(seen.event == "loses" for _, _, _, seen in cluster.observed), 10_000)
    healed(cluster, ["n1"], ["n2", "n3", "n4", "n5"], after_ms=40_000)
    served = [seen.leader for _, node, _, seen in cluster.observed if node == "n1" and seen.event == "serves"]
    assert served[1:] == ["n1", "n2"], "its own first, and then those of the winner"
    verdict = judge(cluster, "strategy-autoheal", "autoheal")
    assert verdict.valid == "true", verdict.sentence


def test_mn_2_a_node_reports_how_long_nothing_had_come_of_a_session_that_ended() -> None:
    """Longer than the tick time after a silence; less if the other process is gone, which its machine says at once."""
    cluster = cluster_of("ignore", names=FOUR)
    cluster.kill("n4")
    cluster.run(300)
    killed = {node: seen.count or 0 for _, node, _, seen in cluster.observed if seen.event == "lost"}
    assert set(killed) == {"n1", "n2", "n3"}
    assert all(silent_ms <= 300 for silent_ms in killed.values())
    cluster.partition(["n1"], ["n2", "n3"])
    cluster.run(3000)
    cut = [(node, seen.leader, seen.count or 0) for _, node, _, seen in cluster.observed if seen.event == "lost"][3:]
    assert {(node, other) for node, other, _ in cut} == {("n1", "n2"), ("n1", "n3"), ("n2", "n1"), ("n3", "n1")}
    assert all(1000 < silent_ms <= 1250 + 20 for _, _, silent_ms in cut)


def test_m85b_autoheal_that_is_confused_with_ignore_never_heals() -> None:
    assert recovers_by("autoheal", NO_BUGS).valid == "true"
    assert "no-heal" in recovers_by("autoheal", Bugs(["M85B"])).anomalies


@pytest.mark.parametrize("strategy", ["autoheal", "pause-minority", "pause-if-all-down-ignore"])
def test_m83d_a_partial_partition_that_nobody_reports_is_seen_under_each_strategy(strategy: str) -> None:
    listed = ("n3",) if strategy.startswith("pause-if") else ()
    name = f"strategy-{strategy.removesuffix('-ignore')}"
    broken = judge(partly(strategy, Bugs(["M83D"]), listed), name, strategy, listed)
    assert broken.anomalies == ("partial-unseen",), broken.sentence
    assert judge(partly(strategy, NO_BUGS, listed), name, strategy, listed).valid != "false"


@pytest.mark.parametrize("strategy", ["autoheal", "pause-if-all-down-ignore"])
def test_m83b_a_partial_partition_is_left_under_each_strategy_that_makes_it_whole(strategy: str) -> None:
    listed = ("n1",) if strategy != "autoheal" else ()
    name = "strategy-autoheal" if strategy == "autoheal" else "strategy-pause-if-all-down"
    assert "left-partial" in judge(partly(strategy, Bugs(["M83B"]), listed), name, strategy, listed).anomalies
    assert judge(partly(strategy, NO_BUGS, listed), name, strategy, listed).valid != "false"


def test_m83b_under_pause_minority_a_node_serves_on_in_a_partial_partition() -> None:
    assert "served-in-partial" in in_partial(Bugs(["M83B"])).anomalies


def test_the_sentence_names_strategy_and_partition() -> None:
    sentence = minority(Bugs(["M84"])).sentence
    assert re.fullmatch(
        r"Did not pause: (n\d) saw n\d, n\d of 4 nodes \(at 2\.\d+ s in life \d\), half of all nodes or fewer, and "
        r"went on serving; strategy pause-minority; partition of n1,n2 \| n3,n4 from 1\.5 s to 7\.5 s\. "
        r"\(\d findings in all\.\)",
        sentence,
    ), sentence


def test_without_a_partition_and_without_an_effect_of_one_nothing_is_proven() -> None:
    for strategy in ("ignore", "pause-minority", "autoheal"):
        cluster = cluster_of(strategy)
        cluster.run(3000)
        assert judge(cluster, f"strategy-{strategy}", strategy).valid == "unknown"
        healed(cluster, ["n1", "n2"], ["n3", "n4", "n5"], cut_ms=100, after_ms=3000)
        assert judge(cluster, f"strategy-{strategy}", strategy).valid == "unknown"


STRATEGIES = {
    "ignore": ((), ("strategy-apart", "strategy-ignore")),
    "pause-minority": ((), ("strategy-pause-minority",)),
    "pause-if-all-down-ignore": (("n1", "n3"), ("strategy-pause-if-all-down", "strategy-ignore")),
    "pause-if-all-down-autoheal": (("n1", "n3"), ("strategy-pause-if-all-down", "strategy-autoheal")),
    "autoheal": ((), ("strategy-autoheal",)),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_no_strategy_breaks_its_promise(strategy: str, seed: int) -> None:
    """Partitions of all shapes, one way and partial ones among them, lost frames, and nodes that are killed."""
    listed, names = STRATEGIES[strategy]
    rng = random.Random(seed)
    cluster = cluster_of(strategy, listed=listed, seed=seed)
    for _ in range(12):
        _disturb(cluster, rng)
        cluster.run(rng.choice([50, 500, 2000, 5000]))
        if rng.random() < 0.5:
            cluster.heal()
            _start_all(cluster)
            cluster.run(rng.choice([1000, 8000]))
    cluster.heal()
    _start_all(cluster)
    cluster.run(30_000)
    for name in ("strategy-down", *names):
        verdict = judge(cluster, name, strategy, listed)
        assert verdict.valid != "false", verdict.sentence


def _disturb(cluster: Cluster, rng: random.Random) -> None:
    kind = rng.choice(["cut", "cut", "links", "kill", "loss"])
    if kind == "cut":
        nodes = rng.sample(cluster.names, len(cluster.names))
        size = rng.randint(1, len(nodes) - 1)
        cluster.partition(nodes[:size], nodes[size:])
    elif kind == "links":
        pairs = [(a, b) for a in cluster.names for b in cluster.names if a != b]
        cluster.cut = set(rng.sample(pairs, rng.randint(1, 6)))
        cluster.cuts.append((cluster.now_ms, sorted(cluster.cut)))
    elif kind == "loss":
        cluster.loss = 0.1
    else:
        name = rng.choice(cluster.names)
        if cluster.members[name].machine is not None:
            cluster.kill(name)


def _start_all(cluster: Cluster) -> None:
    for name, member in cluster.members.items():
        if member.machine is None:
            cluster.start(name)
