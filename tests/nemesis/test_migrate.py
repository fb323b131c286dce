"""A live migration as a fault: who is asked, what is said of what came of it, and when there is nothing to do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from splitbrain.harness.contract.marks import counted
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.nemesis import migrate
from splitbrain.nemesis.migrate import Migrate
from splitbrain.results.history import Op
from tests.nemesis.support import Migrations, Nodes, Roles, context, led_by, nemesis_op, run

ORDER = ["n4", "n1", "n5", "n2", "n3"]
ALL = ("n1", "n2", "n3", "n4", "n5")


def cluster(**given: Any) -> tuple[Roles, Migrations]:
    roles = led_by("n2")
    roles.migrations = Migrations(**given)
    return roles, roles.migrations


def asked(roles: Roles) -> Op:
    op = nemesis_op("migrate", fault="migrate", action="start", order=ORDER, over=True)
    return run(Migrate().invoke(context(Nodes(), roles), op))


def test_the_first_node_of_the_order_is_asked_and_it_is_said_which_store_is_in_force() -> None:
    roles, system = cluster()
    with counted() as marks:
        done = asked(roles)
    assert (done.type, done.value["target"], system.asked) == ("ok", "n4", ["n4"])
    assert done.value["evidence"] == {
        "asked": "n4",
        "answer": "done",
        "before": dict.fromkeys(ALL, "first"),
        "after": dict.fromkeys(ALL, "second"),
        "bit": True,
    }
    assert marks["migration ended"] == 1


def test_once_every_node_has_moved_there_is_nothing_to_do() -> None:
    roles, system = cluster()
    asked(roles)
    done = asked(roles)
    assert done.value["target"] == "none: second is in force on every node"
    assert system.asked == ["n4"]


def test_a_node_that_does_not_say_which_store_is_in_force_is_not_asked() -> None:
    roles, system = cluster(silent={"n4", "n1"})
    assert asked(roles).value["evidence"]["asked"] == "n5"
    silent, _ = cluster(silent=set(ALL))
    assert asked(silent).value["target"] == "none: no node says which store is in force"
    assert system.asked == ["n5"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (DefiniteError("missing_clustered_nodes"), "refused: missing_clustered_nodes"),
        (IndefiniteError("the probe closed the connection"), "no answer: the probe closed the connection"),
    ],
)
def test_a_refusal_did_not_bite_and_is_asked_again_by_the_next_op(answer: Exception, said: str) -> None:
    roles, system = cluster(answers=[answer])
    with counted() as marks:
        done = asked(roles)
    assert (done.type, done.value["evidence"]["answer"], done.value["evidence"]["bit"]) == ("ok", said, False)
    assert marks["migration not seen to end"] == 1
    assert asked(roles).value["evidence"]["bit"] is True
    assert system.asked == ["n4", "n4"]


def test_what_goes_on_after_the_answer_was_given_up_counts_by_what_nodes_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "WAIT_S", 0.01)
    roles, _ = cluster(answers=[TimeoutError()], moves_anyway=True)
    found = asked(roles).value["evidence"]
    assert (found["answer"], found["bit"]) == ("no answer within 0.01 s", True)


def test_a_system_that_cannot_says_so() -> None:
    done = asked(led_by("n2"))
    assert done.type == "info"
    assert "cannot be asked to move its metadata" in str(done.error)


def test_nothing_is_left_to_be_healed() -> None:
    roles, system = cluster()
    asyncio.run(Migrate().heal(context(Nodes(), roles)))
    assert system.asked == []
