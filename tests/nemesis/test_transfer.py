"""Leadership that is handed over: who is asked, who is to lead, and what is said of what came of it."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.contract.marks import counted
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.nemesis.transfer import ONCE, PAUSES_MS, TIMES, TransferRequest, Transfers, check, draw
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Nodes, Roles, context, led_by, nemesis_op, run
from tests.nemesis.support import Transfers as Asked

ORDER = ["n4", "n1", "n5", "n2", "n3"]


def cluster(leader: str = "n2", **given: Any) -> tuple[Roles, Asked]:
    roles = led_by(leader)
    roles.transfer = Asked(roles, **given)
    return roles, roles.transfer


def transfer(roles: Roles, *to: str, nodes: Nodes | None = None) -> Op:
    op = nemesis_op(
        "transfer", fault="transfer", action="start", order=ORDER, nodes=list(to), pauses_ms=[20] * len(to), over=True
    )
    return run(Transfers().invoke(context(nodes or Nodes(), roles), op))


def test_ra31_the_leader_is_asked_each_time_and_it_is_said_who_led_then() -> None:
    roles, asked = cluster("n2")
    with counted() as marks:
        done = transfer(roles, "n5", "n2")
    assert asked.asked == ["n2 to n5", "n5 to n2"]
    assert (done.type, done.value["target"]) == ("ok", "n5 n2")
    assert done.value["evidence"] == {
        "transfers": [
            {"asked": "n2", "term": 3, "to": "n5", "answer": "done", "leads": True},
            {"asked": "n5", "term": 4, "to": "n2", "answer": "done", "leads": True},
        ],
        "bit": True,
    }
    assert (marks["leadership transferred"], marks["transfer refused"]) == (2, 0)


def test_a_leader_that_is_to_lead_hands_over_to_the_next_one_of_the_order() -> None:
    roles, asked = cluster("n5")
    transfer(roles, "n5")
    assert asked.asked == ["n5 to n2"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (DefiniteError("non_voter: it does not vote"), "refused: non_voter: it does not vote"),
        (IndefiniteError("silence"), "no answer: silence"),
    ],
)
def test_ra31_a_refusal_is_recorded_as_one(answer: Exception, said: str) -> None:
    roles, _ = cluster(answers=[answer])
    with counted() as marks:
        done = transfer(roles, "n5")
    assert done.type == "ok"
    assert done.value["evidence"]["transfers"] == [
        {"asked": "n2", "term": 3, "to": "n5", "answer": said, "leads": False}
    ]
    assert done.value["evidence"]["bit"] is False
    assert (marks["leadership transferred"], marks["transfer refused"]) == (0, 1)


def test_a_leader_that_agrees_does_not_make_another_one_lead() -> None:
    roles, _ = cluster(deaf={"n5"})
    done = transfer(roles, "n5")
    assert done.value["evidence"]["transfers"][0] | {"leads": None} == {
        "asked": "n2",
        "term": 3,
        "to": "n5",
        "answer": "done",
        "leads": None,
    }
    assert done.value["evidence"]["bit"] is False


def test_nobody_is_asked_where_no_node_says_that_it_leads() -> None:
    roles, asked = cluster()
    roles.roles["n2"] = ("follower", 3, "n2")
    done = transfer(roles, "n5")
    assert (done.type, asked.asked) == ("ok", [])
    assert done.value["target"].startswith("none: no node says")


def test_a_system_that_cannot_says_so() -> None:
    done = transfer(led_by("n2"), "n5")
    assert done.type == "info"
    assert "cannot be asked to hand leadership over" in str(done.error)


def test_requests_are_drawn_with_their_pauses() -> None:
    for times in (ONCE, TIMES):
        drawn = draw(times)(FIVE, Streams(1)["nemesis"])
        assert times[0] <= len(drawn["nodes"]) == len(drawn["pauses_ms"]) <= times[1]
        assert set(drawn["nodes"]) <= set(FIVE)
        assert all(PAUSES_MS[0] <= pause <= PAUSES_MS[1] for pause in drawn["pauses_ms"])
        check(TransferRequest(**drawn), FIVE)


@pytest.mark.parametrize(
    ("nodes", "pauses_ms", "known"),
    [((), (), FIVE), (("n9",), (1,), FIVE), (("n1",), (), FIVE), (("n1",), (1,), ("n1",))],
    ids=["no node", "a stranger", "no pause", "one node only"],
)
def test_what_cannot_be_is_refused(nodes: tuple[str, ...], pauses_ms: tuple[int, ...], known: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        check(TransferRequest(nodes=nodes, pauses_ms=pauses_ms), known)
