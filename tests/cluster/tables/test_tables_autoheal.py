"""Autoheal as a state machine: who decides, who wins, and that no loser waits for ever (MN-7)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.tables.messages import (
    AskStatus,
    BecomeWinner,
    HealFinished,
    ReportStatus,
    RequestStart,
    SafeToStart,
    Status,
    WinnerIs,
)
from splitbrain.cluster.tables.strategies import Answered, Decided, Start, Stop, Tell, View, strategy_named
from splitbrain.cluster.tables.strategies.autoheal import (
    ASK_MS,
    PATIENCE,
    WAIT_MS,
    Autoheal,
    Deciding,
    LeaderWaiting,
    NotHealing,
    Restarting,
    WinnerWaiting,
    all_partitions,
    decision,
)

ALL = ("n1", "n2", "n3")


def view(
    node: str, partitions: tuple[str, ...] = (), alive: tuple[str, ...] = ALL, clients: int = 0, now_ms: int = 0
) -> View:
    return View(node, ALL, frozenset(alive), partitions, clients, now_ms)


def status(*partitions: str, clients: int = 0, alive: tuple[str, ...] = ALL) -> Status:
    return Status(partitions, alive, clients)


def deciding(*, first: Status, clients: int = 0) -> tuple[Autoheal, list[object]]:
    """n1 leads, and is partitioned from n2 and n3; n2's answer and then n3's. What is done, without reports."""
    heal = Autoheal()
    seen = view("n1", ("n2", "n3"), clients=clients)
    asked = heal.received("n2", RequestStart(), seen)
    assert list(asked) == [Tell("n2", AskStatus()), Tell("n3", AskStatus())]
    heal.received("n2", first, seen)
    return heal, done(heal.received("n3", status("n1"), seen))


def done(actions: Sequence[object]) -> list[object]:
    return [action for action in actions if not isinstance(action, (Answered, Decided))]


def test_mn_7_the_leader_reports_all_answers_and_then_its_decision() -> None:
    heal, seen = Autoheal(), view("n1", ("n2", "n3"), clients=4)
    heal.received("n2", RequestStart(), seen)
    heal.received("n2", status("n1"), seen)
    reports = list(heal.received("n3", status("n1", clients=1), seen))[:4]
    answers = (status("n2", "n3", clients=4), status("n1"), status("n1", clients=1))
    assert reports == [*map(Answered, ALL, answers), Decided("n1", ("n2", "n3"))]


def test_mn_7_the_leader_decides_from_what_all_nodes_say() -> None:
    heal, actions = deciding(first=status("n1"))
    assert actions == [Tell("n2", BecomeWinner(("n1",)))]
    assert heal.state == LeaderWaiting("n2", ("n1",))


def test_mn_7_a_leader_that_wins_tells_the_losers_itself() -> None:
    heal, actions = deciding(first=status("n1"), clients=4)
    assert actions == [Tell("n2", WinnerIs()), Tell("n3", WinnerIs())]
    assert heal.state == WinnerWaiting(("n2", "n3"), ("n2", "n3"))
    assert heal.database_down("n2", view("n1")) == ()
    assert list(heal.database_down("n3", view("n1"))) == [Tell("n2", SafeToStart()), Tell("n3", SafeToStart())]
    assert heal.state == NotHealing()


def test_mn_7_the_leader_denies_while_a_node_does_not_see_all_others() -> None:
    heal, actions = deciding(first=status("n1", alive=("n1", "n2")))
    assert actions == []
    assert heal.state == NotHealing()


def test_mn_7_the_leader_waits_while_nodes_disagree_on_who_is_apart() -> None:
    heal, actions = deciding(first=status())
    assert (actions, heal.state) == ([], NotHealing())


def test_mn_7_a_leader_without_answers_gives_up() -> None:
    heal = Autoheal()
    heal.received("n2", RequestStart(), view("n1", ("n2",)))
    assert isinstance(heal.state, Deciding)
    heal.poll(view("n1", ("n2",), now_ms=ASK_MS))
    assert heal.state == NotHealing()


def test_mn_7_a_loser_stops_and_starts_when_the_winner_says_so() -> None:
    heal = Autoheal()
    (stop,) = heal.received("n2", WinnerIs(), view("n3"))
    assert isinstance(stop, Stop)
    assert heal.received("n1", SafeToStart(), view("n3")) == ()
    assert list(heal.received("n2", SafeToStart(), view("n3"))) == [Start()]
    assert heal.state == NotHealing()


def test_mn_7_a_leader_that_loses_asks_the_winner_when_it_is_back() -> None:
    heal, _ = deciding(first=status("n1"))
    heal.received("n2", WinnerIs(), view("n1"))
    assert heal.state == Restarting("n2", LeaderWaiting("n2", ("n1",)), WAIT_MS)
    assert list(heal.received("n2", SafeToStart(), view("n1"))) == [Start(), Tell("n2", ReportStatus())]
    heal.received("n2", HealFinished(), view("n1"))
    assert heal.state == NotHealing()
    assert list(Autoheal().received("n1", ReportStatus(), view("n2"))) == [Tell("n1", HealFinished())]


@pytest.mark.parametrize("why", ["winner down", "no word"])
def test_mn_7_no_loser_waits_for_ever(why: str) -> None:
    heal = Autoheal()
    heal.received("n2", WinnerIs(), view("n3"))
    if why == "winner down":
        actions = heal.node_down("n2", view("n3", alive=("n1", "n3")))
    else:
        assert heal.poll(view("n3", now_ms=WAIT_MS - 1)) == ()
        actions = heal.poll(view("n3", now_ms=WAIT_MS))
    assert list(actions) == [Start()]
    assert heal.state == NotHealing()


def test_mn_7_a_winner_that_loses_sight_of_a_node_lets_the_losers_start() -> None:
    heal = Autoheal()
    heal.received("n1", BecomeWinner(("n1", "n3")), view("n2"))
    actions = heal.node_down("n3", view("n2", alive=("n1", "n2")))
    assert list(actions) == [Tell("n1", SafeToStart()), Tell("n3", SafeToStart()), Tell("n1", HealFinished())]
    assert heal.state == NotHealing()


def test_mn_7_a_second_decision_is_followed_only_if_it_is_the_same() -> None:
    heal = Autoheal()
    heal.received("n1", BecomeWinner(("n3",)), view("n2"))
    heal.received("n1", BecomeWinner(("n3",)), view("n2"))
    assert heal.state == WinnerWaiting(("n3",), ("n3",))
    heal.received("n1", BecomeWinner(("n1",)), view("n2"))
    assert heal.state == NotHealing()


def test_mn_7_partitions_follow_from_what_each_node_cannot_see() -> None:
    apart = {"n1": ["n2", "n3"], "n2": ["n1"], "n3": ["n1"], "n4": []}
    found = all_partitions(["n1", "n2", "n3", "n4"], apart)
    assert sorted(map(sorted, found)) == [["n1", "n4"], ["n2", "n3"]]


def test_mn_7_clients_count_before_nodes_and_nodes_before_names() -> None:
    sides = [["n1", "n2"], ["n3"]]
    assert decision(sides, {"n1": 0, "n2": 0, "n3": 1}) == ("n3", ("n1", "n2"))
    assert decision(sides, {"n1": 0, "n2": 1, "n3": 1}) == ("n1", ("n3",))
    assert decision([["n1", "n4"], ["n2", "n3"]], dict.fromkeys(("n1", "n2", "n3", "n4"), 0)) == ("n2", ("n1", "n4"))


def test_a_strategy_is_named_with_the_nodes_that_it_lists_and_no_others() -> None:
    assert isinstance(strategy_named("autoheal"), Autoheal)
    for name, nodes in (("no-such", ()), ("ignore", ("n1",)), ("pause-if-all-down-ignore", ())):
        with pytest.raises(ArgumentError, match="partition strategy"):
            strategy_named(name, nodes)


def test_mn_7_a_leader_that_is_apart_from_no_node_heals_two_others_that_are_apart_from_each_other() -> None:
    heal = Autoheal()
    seen = view("n1")
    asked: list[object] = []
    for _ in range(PATIENCE + 1):  # n1 shares tables with both: what they say never agrees
        asked = list(heal.received("n2", RequestStart(), seen))
        assert asked == [Tell("n2", AskStatus()), Tell("n3", AskStatus())]
        heal.received("n2", status("n3"), seen)
        asked = done(heal.received("n3", status("n2"), seen))
    assert asked == [Tell("n3", WinnerIs())]
    assert heal.state == WinnerWaiting(("n3",), ("n3",))
