"""Requests to queues elsewhere, alone (QQ-9): who is asked, in which order, and never twice what may have happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.links import Links
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.remotequeues import PAUSE_MS, Passable, RemoteQueues
from splitbrain.cluster.runtime import Clock
from splitbrain.cluster.tree import AskMachine, Value
from splitbrain.cluster.wire import Failure, Forward, Forwarded, Outcome, QueueOp, decode_peer

LIFE = 7
TIMEOUT_MS = 1000
COMMAND = QueueOp(b"command")
NOT_LEADER = Failure("not_leader", True, "it does not lead")


class Timers:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0
        self.due: list[tuple[int, Callable[[], None]]] = []

    def monotonic_ns(self) -> int:
        return self.now

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Any:
        entry = (self.now + delay_ns, callback)
        self.due.append(entry)
        timers = self

        class Timer:
            def cancel(self) -> None:
                if entry in timers.due:
                    timers.due.remove(entry)

        return Timer()

    def pass_ms(self, ms: int) -> None:
        end = self.now + ms * 1_000_000
        while True:
            due = min((entry for entry in self.due if entry[0] <= end), key=lambda entry: entry[0], default=None)
            if due is None:
                break
            self.due.remove(due)
            self.now = max(self.now, due[0])
            due[1]()
        self.now = end


class Shell:
    """A node without a member of the group, and what it sends."""

    def __init__(self, members: tuple[str, ...] = ("n1", "n2", "n3"), most: int = 9) -> None:
        self.clock = Timers()
        self.members = members
        self.down: set[str] = set()
        self.sent: list[tuple[str, Forward]] = []
        self.answers: list[Outcome] = []
        self.own: list[tuple[Passable, int, Answering]] = []
        self.has_member = False
        links, clock = cast(Links, self), cast(Clock, self.clock)
        self.remote = RemoteQueues("n9", LIFE, links, clock, self.here, lambda _: self.members, most)

    def send_if_up(self, to: str, frame: bytes) -> bool:
        if to in self.down:
            return False
        message = decode_peer(frame)[1]
        assert isinstance(message, Forward)
        self.sent.append((to, message))
        return True

    def here(self, group: str, body: Passable, timeout_ms: int, answer: Answering) -> bool:
        if self.has_member:
            self.own.append((body, timeout_ms, answer))
        return self.has_member

    def ask(self, body: Passable = COMMAND) -> None:
        self.remote.ask("queue.1", body, TIMEOUT_MS, lambda _term, outcome, _index: self.answers.append(outcome))

    def reply(self, outcome: Outcome, *, life: int = LIFE, group: str = "queue.1") -> bool:
        """What was sent last is answered."""
        to, message = self.sent[-1]
        return self.remote.answered(to, Forwarded(life, message.ref, 3, outcome, 5, group))


def test_the_first_member_is_asked_and_its_answer_is_the_answer() -> None:
    shell = Shell()
    shell.ask()
    assert [(to, message.body, message.group) for to, message in shell.sent] == [("n1", COMMAND, "queue.1")]
    assert shell.reply(Value(b"done"))
    assert shell.answers == [Value(b"done")]
    assert not shell.reply(Value(b"again"))
    shell.clock.pass_ms(2 * TIMEOUT_MS)
    assert (shell.answers, shell.clock.due) == ([Value(b"done")], [])


def test_one_that_does_not_lead_is_followed_by_the_one_that_it_names_or_else_the_next() -> None:
    shell = Shell()
    shell.ask()
    shell.reply(Failure("not_leader", True, "", "n3"))
    shell.clock.pass_ms(PAUSE_MS)
    shell.reply(NOT_LEADER)
    shell.clock.pass_ms(PAUSE_MS)
    shell.reply(Failure("no_group", True, ""))
    shell.clock.pass_ms(PAUSE_MS)
    assert [to for to, _ in shell.sent] == ["n1", "n3", "n2", "n1"], "and from the beginning"
    assert len({message.ref for _, message in shell.sent}) == 4, "a repeated number would be ignored"


def test_one_that_cannot_be_reached_is_passed_over() -> None:
    shell = Shell()
    shell.down = {"n1", "n2"}
    shell.ask()
    shell.clock.pass_ms(3 * PAUSE_MS)
    assert [to for to, _ in shell.sent] == ["n3"]


@pytest.mark.parametrize(("body", "definite"), [(COMMAND, False), (AskMachine("status"), True)])
def test_one_that_does_not_answer_may_have_carried_it_out_and_no_other_one_is_asked(
    body: Passable, definite: bool
) -> None:
    shell = Shell()
    shell.ask(body)
    shell.clock.pass_ms(2 * TIMEOUT_MS)
    assert len(shell.sent) == 1
    [failure] = shell.answers
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.definite) == ("timeout", definite)


def test_what_was_never_sent_or_was_refused_by_all_has_certainly_not_happened() -> None:
    for members in ((), ("n1",)):
        shell = Shell(members)
        shell.down = {"n1"}
        shell.ask()
        shell.clock.pass_ms(2 * TIMEOUT_MS)
        [failure] = shell.answers
        assert isinstance(failure, Failure)
        assert (failure.reason, failure.definite) == ("no_leader", True)


def test_an_answer_of_another_life_group_or_member_is_none() -> None:
    shell = Shell()
    shell.ask()
    ref = shell.sent[0][1].ref
    assert not shell.reply(Value(b""), life=LIFE - 1)
    assert not shell.reply(Value(b""), group="queue.2")
    assert not shell.remote.answered("n2", Forwarded(LIFE, ref, 3, Value(b""), 5, "queue.1"))
    assert shell.answers == []
    assert shell.reply(Value(b"x"))


def test_an_error_that_is_not_about_who_leads_is_the_answer() -> None:
    shell = Shell()
    shell.ask()
    lost = Failure("leadership_lost", False, "it may have happened")
    shell.reply(lost)
    assert (shell.answers, len(shell.sent)) == ([lost], 1)


def test_a_member_that_the_node_gets_meanwhile_does_what_was_not_carried_out() -> None:
    """Its requests are numbered after those that were sent: no number is used for two."""
    shell = Shell()
    shell.ask()
    shell.reply(NOT_LEADER)
    shell.has_member = True
    shell.clock.pass_ms(PAUSE_MS)
    [(body, left_ms, answer)] = shell.own
    assert (body, left_ms) == (COMMAND, TIMEOUT_MS - PAUSE_MS)
    answer(4, Value(b"own"), 6)
    answer(4, Value(b"twice"), 6)
    assert (shell.answers, len(shell.sent)) == ([Value(b"own")], 1)


@pytest.mark.parametrize(("body", "definite"), [(COMMAND, False), (AskMachine("status"), True)])
def test_what_the_own_member_has_when_the_time_is_over_may_have_happened(body: Passable, definite: bool) -> None:
    shell = Shell()
    shell.ask(body)
    shell.reply(NOT_LEADER)
    shell.has_member = True
    shell.clock.pass_ms(PAUSE_MS)
    assert len(shell.own) == 1
    shell.clock.pass_ms(TIMEOUT_MS)
    [failure] = shell.answers
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.definite) == ("timeout", definite)


def test_only_so_many_may_be_under_way() -> None:
    shell = Shell(most=1)
    shell.ask()
    shell.ask()
    [failure] = shell.answers
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.definite) == ("busy", True)
    shell.reply(Value(b""))
    shell.ask()
    assert len(shell.sent) == 2


steps = st.lists(
    st.one_of(
        st.sampled_from(["not_leader", "named", "done", "unsure", "wait"]),
        st.tuples(st.just("link"), st.sampled_from(["n1", "n2", "n3"])),
    ),
    max_size=20,
)


@given(steps)
def test_a_request_is_answered_once_in_time_and_asked_again_only_after_a_certain_no(story: list[Any]) -> None:
    shell = Shell()
    shell.ask()
    open_since = len(shell.sent)
    for step in story:
        before = len(shell.sent)
        match step:
            case "wait":
                shell.clock.pass_ms(PAUSE_MS)
            case ("link", node):
                shell.down ^= {node}
            case _ if not shell.sent:
                continue
            case "done":
                shell.reply(Value(b"x"))
            case "unsure":
                shell.reply(Failure("leadership_lost", False, ""))
            case "named":
                shell.reply(Failure("not_leader", True, "", "n2"))
            case _:
                shell.reply(NOT_LEADER)
        assert len(shell.sent) - before <= 1, "one at a time"
        assert len(shell.answers) <= 1
        if shell.answers:
            assert len(shell.sent) == max(before, open_since), "nothing is sent behind the answer"
    shell.clock.pass_ms(2 * TIMEOUT_MS)
    assert len(shell.answers) == 1
    assert shell.clock.due == []
