"""One member alone, driven event by event; the test plays all the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.raft import Config, Entry, Message, Raft, Recovered
from splitbrain.cluster.raft.effects import AppendLog, Effect, Send
from splitbrain.cluster.raft.events import ElectionTimeout, Received, Start, Written
from splitbrain.cluster.raft.messages import Append, AppendReply, PreVote, PreVoteReply, Vote, VoteReply

T = TypeVar("T")

FIVE = ("n1", "n2", "n3", "n4", "n5")


def entries(*terms: int, first: int = 1) -> tuple[Entry, ...]:
    """Commands of these terms, from index `first` on."""
    return tuple(Entry(first + i, term, "command", b"%d.%d" % (first + i, term)) for i, term in enumerate(terms))


def member(
    *log_terms: int,
    term: int | None = None,
    voted_for: str | None = None,
    voters: Sequence[str] = FIVE,
    config: Config | None = None,
    bugs: Bugs = NO_BUGS,
) -> Raft:
    """n1, started, with a durable log of these terms."""
    if term is None:
        term = max(log_terms, default=0)
    raft = Raft("n1", voters, Recovered(term, voted_for, entries(*log_terms)), config=config, bugs=bugs)
    raft.handle(Start())
    return raft


def leader(*log_terms: int, voters: Sequence[str] = FIVE, config: Config | None = None, bugs: Bugs = NO_BUGS) -> Raft:
    """n1, just elected; its noop is appended, not written, and known to nobody yet."""
    raft = member(*log_terms, voters=voters, config=config, bugs=bugs)
    peers = [voter for voter in voters if voter != "n1"]
    asked = only(PreVote, messages(raft.handle(ElectionTimeout())))
    for peer in peers:
        if raft.role == "pre_candidate":
            raft.handle(Received(peer, PreVoteReply(raft.term, asked[0].token, True)))
    for peer in peers:
        if raft.role == "candidate":
            raft.handle(Received(peer, VoteReply(raft.term, True)))
    assert raft.role == "leader"
    return raft


def ready_leader(*log_terms: int, voters: Sequence[str] = FIVE, bugs: Bugs = NO_BUGS) -> Raft:
    """A leader whose noop is durable here and on every follower, and therefore committed."""
    raft = leader(*log_terms, voters=voters, bugs=bugs)
    last = raft.log.last_index
    raft.handle(Written(last, raft.term, 0))
    for voter in voters:
        if voter != "n1":
            raft.handle(Received(voter, AppendReply(raft.term, 0, last, last)))
    assert raft.commit_index == last
    return raft


def only(kind: type[T], effects: Sequence[object]) -> list[T]:
    return [effect for effect in effects if isinstance(effect, kind)]


def messages(effects: Sequence[Effect], to: str | None = None) -> list[Message]:
    return [send.message for send in only(Send, effects) if to in (None, send.to)]


def written(raft: Raft, effects: Sequence[Effect]) -> list[Effect]:
    """Everything that these effects append becomes durable."""
    out: list[Effect] = []
    for append in only(AppendLog, effects):
        out += raft.handle(append.done)
    return out


def append(
    raft: Raft,
    *new: Entry,
    term: int,
    prev: tuple[int, int] = (0, 0),
    commit: int = 0,
    read_round: int = 0,
    sender: str = "n2",
) -> list[Effect]:
    """An Append from `sender`; `prev` is (index, term)."""
    return raft.handle(Received(sender, Append(term, read_round, commit, prev[0], prev[1], new)))


def vote(raft: Raft, sender: str, term: int, last_index: int = 0, last_term: int = 0) -> VoteReply:
    replies = only(VoteReply, messages(raft.handle(Received(sender, Vote(term, last_index, last_term)))))
    assert len(replies) == 1
    return replies[0]


def pre_vote(raft: Raft, sender: str, term: int, last_index: int = 0, last_term: int = 0) -> PreVoteReply:
    effects = raft.handle(Received(sender, PreVote(term, 1, last_index, last_term)))
    replies = only(PreVoteReply, messages(effects))
    assert len(replies) == 1
    return replies[0]
