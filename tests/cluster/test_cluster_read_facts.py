"""What a leader reports of its reads comes from messages, and shows where they were answered too early."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from splitbrain.checkers.consensus import ReadMajority
from splitbrain.cluster.bugs import M23, Bugs
from splitbrain.cluster.raft import Config, Raft
from splitbrain.cluster.raft.effects import MembersChanged, ReadReady, Send, SendChunk
from splitbrain.cluster.raft.events import (
    Change,
    Event,
    HeartbeatTick,
    Propose,
    Read,
    ReadMode,
    Received,
    Transfer,
    Written,
)
from splitbrain.cluster.raft.messages import Append, AppendRefusal, AppendReply, SnapshotReply, TimeoutNow
from splitbrain.cluster.readfacts import ANSWERS, INTERVAL_NS, Arrival, ReadFacts
from tests.cluster.raft.single import leader, ready_leader
from tests.cluster.support import FAST, World, both, in_cluster
from tests.cluster.test_cluster_trace import telemetry

MS = 1_000_000
THREE = ("n1", "n2", "n3")


class Member:
    """A leader, and what is reported of its reads; the shell around it is left out."""

    def __init__(self, raft: Raft, election_min_ms: int | None = None) -> None:
        self.raft = raft
        self.now_ns = 1_000 * MS
        self.said: list[tuple[int, dict[str, int]]] = []
        self._arrivals: dict[str, Arrival | None] = {}
        voters = raft.configuration.voters
        self.facts = ReadFacts(raft, voters, lambda: self.now_ns, election_min_ms, self._say)

    def _say(self, needed: int, facts: dict[str, int]) -> None:
        self.said.append((needed, facts))

    def handle(self, event: Event) -> list[str]:
        """The reads that are to be answered."""
        if isinstance(event, Received):
            answer: Any = event.message
            if type(answer) in ANSWERS:
                self.facts.answered(event.sender, answer)
        elif isinstance(event, Read):
            self._arrivals[event.ref] = self.facts.arrived(event)
        ready: list[str] = []
        for effect in self.raft.handle(event):
            match effect:
                case Send(message=Append() | TimeoutNow() as message):
                    self.facts.sent(message)
                case SendChunk():
                    self.facts.round_sent(effect.term, effect.round)
                case MembersChanged():
                    self.facts.voters_changed(effect.configuration.voters)
                case ReadReady():
                    ready.append(effect.ref)
                    arrival = self._arrivals[effect.ref]
                    if arrival is not None:
                        self.facts.ready(effect, arrival)
                case _:
                    pass
        return ready

    def read(self, ref: str = "r", mode: ReadMode = "quorum") -> list[str]:
        return self.handle(Read(ref, mode, self.now_ns))

    def answers(self, peer: str, read_round: int, term: int | None = None) -> list[str]:
        last = self.raft.log.last_index
        return self.handle(
            Received(peer, AppendReply(self.raft.term if term is None else term, read_round, last, last))
        )

    def later(self, ms: int) -> None:
        self.now_ns += ms * MS

    def last(self, *names: str) -> tuple[int | None, ...]:
        return tuple(self.said[-1][1].get(name) for name in names)


def leaseholder(*, handles_tick: bool = True) -> Member:
    """Its no-op is committed; n2 answered the round of its first tick 10 ms later."""
    member = Member(leader(voters=THREE, config=Config(lease_reads=True)), Config().election_min_ms)
    member.handle(Written(1, 1, 0))
    member.answers("n2", 0)
    member.answers("n3", 0)
    if handles_tick:
        member.handle(HeartbeatTick(member.now_ns))
        member.later(10)
        member.answers("n2", 1)
    return member


def test_a_read_is_reported_with_the_round_that_it_needs_and_who_answered_it() -> None:
    member = Member(ready_leader())
    assert member.read() == []
    assert member.answers("n2", 1) == []
    assert member.answers("n4", 1) == ["r"]
    voters = {"n1": 1, "n2": 1, "n3": 0, "n4": 1, "n5": 0}
    assert member.said == [(1, {**voters, "#index": 1, "#commit": 1, "#sent": 1, "#unsent": 0})]


def test_a_read_that_comes_during_a_round_needs_the_next_one() -> None:
    member = Member(ready_leader(voters=THREE))
    member.read("first")
    member.later(250)
    assert member.read("second") == []
    assert member.answers("n3", 1) == ["first"]
    assert member.answers("n3", 2) == ["second"]
    assert [needed for needed, _ in member.said] == [1, 2]


@pytest.mark.parametrize("kind", ["reply", "refusal", "snapshot"])
def test_every_kind_of_answer_confirms_and_only_one_of_the_leaders_term(kind: str) -> None:
    for term, counts in ((2, 1), (1, 0)):
        member = Member(ready_leader(1))
        member.read()
        answer: Any = {
            "reply": AppendReply(term, 1, 2, 2),
            "refusal": AppendRefusal(term, 1, 5, 2, 2, 1),
            "snapshot": SnapshotReply(term, 1, 2, 0, 1),
        }[kind]
        member.handle(Received("n5", answer))
        member.answers("n2", 1)
        member.answers("n3", 1)
        assert member.last("n5") == (counts,)


def test_an_answer_to_a_round_that_was_not_sent_is_counted() -> None:
    member = Member(ready_leader(voters=THREE))
    member.read()
    member.answers("n2", 7)
    assert member.last("#sent", "#unsent", "n2") == (1, 1, 7)


def test_the_read_index_is_reported_and_what_was_committed_when_the_read_came() -> None:
    member = Member(ready_leader(voters=THREE))
    member.read()
    member.handle(Propose("w", b"x"))
    member.handle(Written(2, 1, 0))
    member.answers("n2", 0)
    assert member.raft.commit_index == 2
    member.answers("n2", 1)
    assert member.last("#index", "#commit") == (1, 1)


def test_a_read_on_the_leaders_belief_is_not_reported() -> None:
    member = Member(ready_leader())
    assert member.read("r", "leader") == ["r"]
    assert member.said == []


def test_a_member_that_is_alone_needs_nobody() -> None:
    member = Member(leader(voters=("n1",)))
    member.handle(Written(1, 1, 0))
    assert member.read() == ["r"]
    assert member.said == [(1, {"n1": 1, "#index": 1, "#commit": 1, "#sent": 0, "#unsent": 0})]


def test_of_reads_for_which_the_same_speaks_one_in_250_ms_is_reported() -> None:
    member = Member(ready_leader(voters=THREE))
    for read_round in range(1, 11):
        member.read()
        member.answers("n2", read_round)
        member.later(50)
    assert INTERVAL_NS == 250 * MS
    assert [needed for needed, _ in member.said] == [1, 6]


def test_a_read_for_which_something_else_speaks_is_reported_at_once() -> None:
    member = Member(ready_leader())
    member.read("first")
    member.answers("n2", 1)
    member.answers("n3", 1)
    arrival = member.facts.arrived(Read("second"))
    assert arrival is not None
    for _ in range(3):
        member.facts.ready(ReadReady("second", 1), arrival)
    assert [needed for needed, _ in member.said] == [1, 2], "nobody answered round 2"


def test_a_new_voter_counts_from_its_configuration_on() -> None:
    member = Member(ready_leader(voters=THREE))
    member.handle(Change("c", "n4", joins=True))
    member.read()
    member.answers("n2", 1)
    assert member.said == []
    member.answers("n4", 1)
    assert member.last("n2", "n3", "n4") == (1, 0, 1)


def test_with_a_lease_it_is_reported_how_old_the_promises_are() -> None:
    member = leaseholder()
    member.later(20)
    assert member.read("r", "lease") == ["r"]
    assert member.last("#lease", "#age:n1", "#age:n2", "#age:n3") == (450 * MS, 0, 30 * MS, None)
    assert member.last("#left", "#changed", "#handed") == (420 * MS, None, 0)


def test_a_handover_is_reported_and_that_there_is_no_lease_any_more() -> None:
    member = leaseholder()
    member.handle(Transfer("t", "n2"))
    assert member.read("r", "lease") == []
    member.answers("n2", 2)
    assert member.last("#left", "#handed", "n2") == (None, 1, 2)


def test_how_long_the_voters_have_been_these_is_reported_with_a_lease() -> None:
    member = leaseholder()
    member.handle(Change("c", "n4", joins=True))
    member.later(30)
    assert member.read("r", "lease") == ["r"]
    assert member.last("#changed", "n4") == (30 * MS, 0)


def test_an_answer_to_a_round_says_nothing_of_later_rounds() -> None:
    """What n2 promised began when round 1 was sent, although round 2 was sent by the time it answered."""
    member = leaseholder(handles_tick=False)
    member.handle(HeartbeatTick(member.now_ns))
    member.later(100)
    member.handle(HeartbeatTick(member.now_ns))
    member.later(50)
    member.answers("n2", 1)
    assert member.read("r", "lease") == ["r"]
    assert member.last("#age:n2", "#left") == (150 * MS, 300 * MS)


@both(M23)
def test_reads_of_a_cluster_are_judged_and_m23_is_seen(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        await client.put("/a", 1, timeout_ms=5000)
        for _ in range(5):
            await client.get("/a", timeout_ms=5000)
        verdict = ReadMajority().check(telemetry(world), {})
        assert verdict.anomalies == (("read-without-majority",) if broken else ()), verdict.sentence
        assert verdict.figures["reads"] >= 1
        assert verdict.figures["on_lease"] == 0

    in_cluster(World(list(THREE), bugs=bugs), check)


def test_reads_of_a_cluster_on_leases_are_judged() -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        await client.put("/a", 1, timeout_ms=5000)
        for _ in range(50):
            await client.get("/a", timeout_ms=5000)
        verdict = ReadMajority().check(telemetry(world), {})
        assert verdict.valid == "true", verdict.sentence
        assert verdict.figures["on_lease"] >= 1

    in_cluster(World(list(THREE), msgspec.structs.replace(FAST, lease_reads=True)), check)
