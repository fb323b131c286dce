"""What becomes of requests, with consensus, links and time played by the test (RA-18 to RA-21)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster import wire
from splitbrain.cluster.detector import FailureDetector
from splitbrain.cluster.nodeconfig import NodeConfig
from splitbrain.cluster.pending import Pending
from splitbrain.cluster.place import Place
from splitbrain.cluster.raft.effects import Appended, Dropped, Rejected
from splitbrain.cluster.raft.events import Event, Propose
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.requests import Requests
from splitbrain.cluster.tree import Done, Put, Query, Result
from splitbrain.cluster.waits import Waits
from splitbrain.cluster.wire import (
    AwaitEntry,
    ClientAddress,
    Deliver,
    Failure,
    Forward,
    Forwarded,
    FromMember,
    Outcome,
    Priority,
)

PUT = Put(("a",), None)


class Consensus:
    """n1's member: keeps what is proposed."""

    def __init__(self, configuration: Configuration) -> None:
        self.term = 3
        self.configuration = configuration
        self.is_outdated = False
        self.last_entry = (0, 0)
        self.proposed: list[tuple[Propose, Priority]] = []

    def propose(self, event: Event, priority: Priority = "normal") -> None:
        assert isinstance(event, Propose)
        self.proposed.append((event, priority))

    def query(self, query: Query, answer: Callable[[Result, int], None]) -> None:
        raise AssertionError("nothing is read")

    def write_state(self, wanted: wire.StateRequest, answer: Callable[[Outcome], None]) -> None:
        raise AssertionError("nothing is written down")


class Links:
    """Keeps what is sent; all links are up."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Forward]] = []

    def send_if_up(self, to: str, frame: bytes) -> bool:
        _, message = wire.decode_peer(frame)
        assert isinstance(message, Forward)
        self.sent.append((to, message))
        return True


class Alarms:
    """Clock and runtime: timers run out when the test says so."""

    def __init__(self) -> None:
        self.set: list[Alarm] = []

    @property
    def clock(self) -> Alarms:
        return self

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Alarm:
        self.set.append(Alarm(callback))
        return self.set[-1]

    def run_out(self) -> None:
        due, self.set = self.set, []
        for alarm in due:
            alarm.run()


@dataclass
class Alarm:
    run: Callable[[], None]

    def cancel(self) -> None:
        self.run = lambda: None


class Applied:
    """The waits for entries to be applied here."""

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[int, int, Callable[[], None]]] = {}
        self.added = 0

    def add(self, index: int, term: int, due: Callable[[], None]) -> int:
        self.added += 1
        self.waiting[self.added] = (index, term, due)
        return self.added

    def forget(self, number: int) -> None:
        self.waiting.pop(number, None)

    def advance(self) -> None:
        due, self.waiting = self.waiting, {}
        for _, _, call in due.values():
            call()


@dataclass
class Node:
    """The requests of n1, and the world around them."""

    configuration: Configuration = field(default_factory=lambda: Configuration(("n1", "n2", "n3")))
    answers: dict[int, list[tuple[int, Outcome, int]]] = field(default_factory=dict[int, Any])

    def __post_init__(self) -> None:
        self.consensus, self.links = Consensus(self.configuration), Links()
        self.alarms, self.applied = Alarms(), Applied()
        peers = {"n2": ("n2", 1), "n3": ("n3", 1)}
        config, detector = NodeConfig("n1", ("n1", 1), peers), FailureDetector(peers)
        nothing: Any = None
        place = Place(config, cast(Any, self.alarms), cast(Any, self.links), 7, never, nowhere, detector, nothing)
        self.requests = Requests("q1", place, self.consensus, cast(Waits, self.applied))

    def ask(self, number: int, reply: str | FromMember, priority: Priority = "normal") -> None:
        self.answers[number] = []
        self.requests.from_client(PUT, 500, self.taking(number), reply, priority)

    def taking(self, number: int) -> Callable[[int, Outcome, int], None]:
        return lambda term, outcome, index: self.answers[number].append((term, outcome, index))

    def answered(self, peer: str, question: Forward, outcome: Outcome, index: int, term: int = 3) -> None:
        self.requests.answered_by_peer(
            peer, Forwarded(question.life, question.ref, term, outcome, index, question.group)
        )


def nowhere(_: ClientAddress) -> bool:
    return False


def never(_: Deliver) -> None:
    raise AssertionError("no machine sends anything")


def test_ra20_a_local_reply_of_a_node_that_does_not_vote_is_the_leaders() -> None:
    for configuration, waits in ((Configuration(("n1", "n2")), 1), (Configuration(("n2", "n3"), {"n1": None}), 0)):
        node = Node(configuration)
        node.requests.leader_changed("n2")
        node.ask(1, "local")
        node.answered("n2", node.links.sent[0][1], Done(None), 9)
        assert len(node.applied.waiting) == waits
        node.applied.advance()
        assert node.answers[1] == [(3, Done(None), 9)]


def test_ra18_only_the_member_that_was_asked_confirms_that_it_has_applied_a_command() -> None:
    node = Node()
    node.requests.leader_changed("n2")
    node.ask(1, FromMember("n3"))
    node.answered("n2", node.links.sent[0][1], Done(None), 9)
    to, question = node.links.sent[1]
    assert (to, question.body) == ("n3", AwaitEntry(9, 3))
    node.answered("n2", node.links.sent[0][1], Done(None), 9)  # the leader's answer once more
    node.answered("n3", question, Failure("no_group", True, "it has none"), 0)
    assert node.answers[1] == []
    node.answered("n3", question, Done(None), 9)
    assert node.answers[1] == [(3, Done(None), 9)]


def test_ra18_a_member_that_is_asked_answers_when_it_has_applied_the_entry_whoever_leads() -> None:
    node = Node()
    node.answers[1] = []
    node.requests.from_peer(AwaitEntry(9, 3), node.taking(1))
    assert [waits[:2] for waits in node.applied.waiting.values()] == [(9, 3)]
    assert node.answers[1] == []
    node.applied.advance()
    assert node.answers[1] == [(3, Done(None), 9)]


def test_ra18_a_leader_does_not_answer_a_peer_that_wants_no_reply() -> None:
    node = Node()
    node.answers[1] = []
    node.requests.from_peer(PUT, node.taking(1), "noreply")
    node.requests.leader_changed("n1")
    node.requests.from_peer(PUT, node.taking(1), "noreply")
    (event, _), *others = node.consensus.proposed
    node.requests.done(event.ref, Done(None), 9, 3)
    assert (others, node.answers[1]) == ([], [])


@pytest.mark.parametrize(("reply", "kept"), [("leader", "leader"), ("local", "leader"), ("noreply", "noreply")])
def test_ra21_a_command_that_is_passed_on_keeps_its_priority_and_how_it_is_answered(reply: str, kept: str) -> None:
    node, leader = Node(), Node()
    node.requests.leader_changed("n2")
    node.ask(1, reply, "low")
    (_, forward) = node.links.sent[0]
    assert (forward.reply, forward.priority) == (kept, "low")
    leader.requests.leader_changed("n1")
    leader.requests.from_peer(forward.body, leader.taking(1), forward.reply, forward.priority)
    assert [priority for _, priority in leader.consensus.proposed] == ["low"]


Steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("ask"),
            st.sampled_from(["leader", "local", "after_log_append", "notify", "noreply", FromMember("n3")]),
            st.sampled_from(["normal", "low"]),
        ),
        st.tuples(st.just("leader"), st.sampled_from(["n1", "n2", None])),
        st.tuples(st.just("consensus"), st.sampled_from(["carried out", "not_leader", "busy", "dropped", "overtaken"])),
        st.tuples(st.just("peer"), st.booleans(), st.integers(0, 100)),
        st.just(("applied",)),
        st.just(("time",)),
    ),
    max_size=40,
)


@given(Steps)
def test_ra18_every_command_gets_one_answer_that_fits_its_mode_or_none_if_it_wants_none(steps: list[Any]) -> None:
    node = Node()
    leader: str | None = None
    modes: dict[int, str | FromMember] = {}
    for step in [*steps, ("time",)]:
        match step:
            case ("ask", reply, priority):
                number = len(modes) + 1
                modes[number] = reply
                node.ask(number, reply, priority)
                if reply == "notify" and leader != "n1":
                    assert node.answers[number] == [(3, Failure("not_leader", True, "n1 does not lead", leader), 0)]
            case ("leader", leader):
                node.requests.leader_changed(leader)
            case ("consensus", outcome) if node.consensus.proposed:
                play_consensus(node, outcome)
            case ("peer", is_done, which) if node.links.sent:
                play_peer(node, is_done, which)
            case ("applied",):
                node.applied.advance()
            case ("time",):
                node.alarms.run_out()
            case _:
                pass
    for event, _ in node.consensus.proposed:
        node.requests.dropped(Dropped(event.ref))
    for number, reply in modes.items():
        check_answers(reply, node.answers[number])
    forwarded = [forward for _, forward in node.links.sent if not isinstance(forward.body, AwaitEntry)]
    assert len(forwarded) <= sum(reply != "notify" for reply in modes.values())


def check_answers(reply: str | FromMember, answers: list[tuple[int, Outcome, int]]) -> None:
    assert len(answers) == (0 if reply == "noreply" else 1)
    for _, outcome, index in answers:
        assert isinstance(outcome, Failure) == (not index)
        assert isinstance(outcome, wire.Appended) == (reply == "after_log_append" and bool(index))


def play_peer(node: Node, is_done: bool, which: int) -> None:
    """A peer answers what it was asked, maybe once more."""
    to, question = node.links.sent[which % len(node.links.sent)]
    if not is_done:
        node.answered(to, question, Failure("timeout", False, "late"), 0)
    else:
        node.answered(to, question, wire.Appended() if question.reply == "after_log_append" else Done(None), 9)


def play_consensus(node: Node, outcome: str) -> None:
    """The first command that was proposed comes to this."""
    event, _ = node.consensus.proposed.pop(0)
    request: Pending = event.ref
    match outcome:
        case "carried out" if event.on_append:
            node.requests.appended(Appended(request, 9))
        case "carried out":
            node.requests.done(request, Done(None), 9, 3)
        case "dropped":
            node.requests.dropped(Dropped(request))
        case "overtaken":
            node.requests.overtaken(event)
        case reason:
            node.requests.rejected(Rejected(request, None, cast(Any, reason)))


def test_ra20_an_answer_that_was_not_given_in_time_waits_for_its_entry_no_more() -> None:
    node = Node()
    node.requests.leader_changed("n2")
    node.ask(1, "local")
    node.answered(*node.links.sent[0], Done(None), 9)
    assert len(node.applied.waiting) == 1
    node.alarms.run_out()
    assert not node.applied.waiting


@pytest.mark.parametrize("is_outdated", [False, True])
def test_ra43_an_outdated_member_keeps_no_question_whether_it_applied_an_entry(is_outdated: bool) -> None:
    node = Node()
    node.consensus.is_outdated = is_outdated
    node.requests.from_peer(AwaitEntry(9, 3), node.taking(1))
    assert len(node.applied.waiting) == (not is_outdated)


@pytest.mark.parametrize(("reply", "answers"), [("notify", 1), ("noreply", 0)])
def test_ra18_what_consensus_rejects_is_not_passed_on_if_it_is_pipelined_or_wants_no_reply(
    reply: str, answers: int
) -> None:
    node = Node()
    node.requests.leader_changed("n1")
    node.ask(1, reply)
    play_consensus(node, "not_leader")
    assert len(node.answers[1]) == answers
    node.requests.leader_changed("n2")
    assert (node.links.sent, node.consensus.proposed) == ([], [])
