"""What each line of telemetry says of the log, of votes, of members and of what was applied."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.cluster.chain import EMPTY, LogChain, chained
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.effects import CommitAdvanced
from splitbrain.cluster.raft.log import Log
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import AppendRefusal, AppendReply, SnapshotReply
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.telemetry import Sources, Telemetry
from splitbrain.cluster.wire import Status


class Node:
    """A member's log and status, set by hand, and the lines that it writes."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.words: Callable[[], bytes] | None = None
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.log = Log([])
        self.role, self.term, self.leader, self.applied = "follower", 2, "n2", 0
        self.versions = [(0, 1)]
        self.configurations = [(0, Configuration(("n1", "n2")))]
        self.now_ns = 7
        clock = SimpleNamespace(wall_ns=lambda: 5, monotonic_ns=lambda: self.now_ns, call_later=self._call_later)
        runtime = SimpleNamespace(clock=clock, telemetry=self._write, last_words=self._keep)
        sources = Sources(
            voters=lambda: ("n1", "n2"),
            members=lambda: ("n1", "n2#1", "n3"),
            member="n1",
            status=lambda: Status("n1", self.role, self.term, self.leader, 0, self.applied, "c", "s"),
            projections=lambda: ("p", "q"),
            log=LogChain(self.log, lambda: (self.log.base_index, EMPTY)),
            version=lambda index: max(version for begins, version in self.versions if begins <= index),
            configured=lambda index: max(held for held in self.configurations if held[0] <= index),
        )
        self.telemetry = Telemetry(cast(Runtime, runtime), "g", sources)

    def _write(self, line: bytes) -> None:
        self.lines.append(json.loads(line))

    def _keep(self, words: Callable[[], bytes]) -> None:
        self.words = words

    def _call_later(self, delay_ns: int, callback: Callable[[], None]) -> str:
        self.timers.append((delay_ns, callback))
        return "timer"

    def append(self, *terms: int) -> None:
        first = self.log.last_index + 1
        entries = [Entry(first + place, term, "command", bytes([term])) for place, term in enumerate(terms)]
        self.log.append(entries)
        self.telemetry.appended(entries)

    def noop(self, version: int) -> None:
        entry = Entry(self.log.last_index + 1, self.term, "noop", b"")
        self.versions.append((entry.index, version))
        self.log.append([entry])
        self.telemetry.appended([entry])

    def chain(self, index: int) -> str:
        found = EMPTY
        for entry in self.log.slice(1, index):
            found = chained(found, entry)
        return found.hex()

    def said(self, event: str, *names: str) -> list[Any]:
        found = [tuple(line.get(name) for name in names) for line in self.lines if line["event"] == event]
        return found if len(names) > 1 else [each for (each,) in found]


def test_the_first_entry_of_each_term_is_said_also_where_several_terms_come_at_once() -> None:
    node = Node()
    node.append(1, 1)
    node.append(1, 2, 2, 4)
    node.append(4)
    said = node.said("first", "log_index", "log_term", "log")
    assert said == [(1, 1, node.chain(1)), (4, 2, node.chain(4)), (6, 4, node.chain(6))]


def test_each_entry_at_a_multiple_of_64_is_said_once_however_entries_come() -> None:
    node = Node()
    node.append(*[1] * 63)
    assert node.said("log", "log_index") == [8]
    node.append(1)
    node.append(1)
    node.append(*[1] * 127)
    assert node.said("log", "log_index", "log") == [(index, node.chain(index)) for index in (8, 64, 128, 192)]
    assert node.said("log", "log_term") == [1, 1, 1, 1]


def test_while_a_log_grows_slowly_each_entry_at_a_multiple_of_8_is_said() -> None:
    node = Node()
    for _ in range(200):
        node.append(1)
        node.now_ns += 5_000_000
    assert node.said("log", "log_index", "log") == [(index, node.chain(index)) for index in range(8, 201, 8)]


def test_of_a_log_that_grows_fast_few_entries_are_said_but_each_at_a_multiple_of_64() -> None:
    node = Node()
    for _ in range(640):
        node.append(1)
        node.now_ns += 100_000
    said = node.said("log", "log_index")
    assert set(range(64, 641, 64)) <= set(said)
    assert len(said) <= 10 + 64 // 20 + 1, "one more every 20 ms"


def test_beside_the_hash_of_a_log_are_the_members_that_it_puts_into_force() -> None:
    node = Node()
    node.configurations.append((8, Configuration(("n1", "n3"), {"n4#1": 70, "n5": None})))
    node.append(*[1] * 7)
    node.append(2)
    founders, later = {"n1": 1, "n2": 1}, {"n1": 1, "n3": 1, "n4#1": 0, "n5": 0}
    assert node.said("first", "log_index", "counted_index", "counted") == [(1, 0, founders), (8, 8, later)]
    assert node.said("log", "log_index", "counted_index", "counted") == [(8, 8, later)]


def test_a_cut_names_the_last_entry_that_goes_and_what_stays_durable() -> None:
    node = Node()
    node.append(1, 1, 1, 3, 3)
    node.telemetry.durable = 4
    node.log.truncate(3)
    node.telemetry.cut(2)
    assert node.said("cut", "log_index", "log_term", "last", "log") == [(5, 3, 2, None)]
    assert node.telemetry.durable == 2
    node.telemetry.cut(2)
    assert len(node.said("cut", "last")) == 1, "nothing was cut off"
    node.append(4)
    node.append(4)
    node.log.truncate(4)
    node.telemetry.cut(3)
    assert node.said("cut", "log_index", "log_term", "last")[1:] == [(4, 4, 2)], "no more is durable than was before"
    assert node.said("first", "log_index", "log_term") == [(1, 1), (4, 3), (3, 4)]


def test_after_a_cut_the_chain_is_that_of_the_entries_that_took_the_place() -> None:
    node = Node()
    node.append(*[1] * 64)
    node.log.truncate(60)
    node.telemetry.cut(59)
    node.append(*[2] * 5)
    assert node.said("log", "log")[2] == node.chain(64)
    assert len(set(node.said("log", "log"))) == 3


def test_after_a_cut_it_is_so_too_where_entries_of_the_same_term_take_the_place() -> None:
    node = Node()
    node.append(*[1] * 64)
    node.log.truncate(60)
    node.telemetry.cut(59)
    others = [Entry(index, 1, "command", b"other") for index in range(60, 65)]
    node.log.append(others)
    node.telemetry.appended(others)
    assert node.said("log", "log")[2:] == [node.chain(64)]
    assert len(set(node.said("log", "log"))) == 3


def test_who_raised_a_followers_term_is_said_once_and_only_if_the_term_rose() -> None:
    node = Node()
    node.telemetry.start(0, None, 1200)
    steps = [("follower", 2), ("follower", 3), ("follower", 3), ("candidate", 4), ("follower", 4), ("leader", 5)]
    for role, term in (*steps, ("follower", 6)):
        node.role, node.term = role, term
        node.telemetry.role(None, "n3#1")
    assert node.said("role", "raised_by") == [None, "n3#1", None, None, None, None, "n3#1"]
    node.term = 7
    node.telemetry.role(None, None)
    assert node.said("role", "raised_by")[-1] is None, "no message did it"


def test_a_new_leaders_log_is_that_which_it_inherited() -> None:
    node = Node()
    node.append(1, 1, 2)
    node.role = "leader"
    node.telemetry.role(2, None)
    assert node.said("role", "last", "log_index", "log_term", "log") == [(2, 2, 1, node.chain(2))]
    node.role = "follower"
    node.telemetry.role(None, None)
    assert node.said("role", "last", "log_index", "log_term")[1] == (None, 3, 2)


def test_a_start_has_the_log_and_the_vote_that_were_recovered() -> None:
    node = Node()
    node.log.append([Entry(1, 1, "command", b""), Entry(2, 2, "command", b"")])
    node.telemetry.start(2, "n3", 1200)
    assert node.said("start", "last", "log_index", "log_term", "leader") == [(2, 2, 2, "n3")]
    node.telemetry.event("commit")
    assert node.said("commit", "last") == [2], "what was recovered is durable"
    node.append(2)
    assert node.said("first", "log_index") == [], "a term that it had already"
    node.append(3)
    assert node.said("first", "log_index") == [4]


def test_a_vote_names_the_candidate_and_other_lines_the_leader() -> None:
    node = Node()
    node.telemetry.vote("n3")
    node.telemetry.event("commit")
    assert (node.said("vote", "leader"), node.said("commit", "leader")) == (["n3"], ["n2"])


def test_members_are_in_lines_of_starts_roles_and_changes_alone() -> None:
    node = Node()
    node.append(1)
    node.telemetry.start(1, None, 1200)
    node.telemetry.role(None, None)
    node.telemetry.members(0, None)
    node.telemetry.stop()
    node.telemetry.event("commit")
    with_members = {line["event"] for line in node.lines if line.get("members") == ["n1", "n2#1", "n3"]}
    assert with_members == {"start", "role", "members"}
    assert all(line["voters"] == ["n1", "n2"] for line in node.lines)
    assert node.said("members", "log_index", "log_term") == [(1, 1)]


def test_a_leader_that_raises_the_version_says_what_each_other_member_understands_by_its_newest_answer() -> None:
    node = Node()
    node.role = "leader"
    node.telemetry.answered("n2#1", AppendReply(2, 0, 0, 0, 3))
    node.telemetry.answered("n2#1", AppendRefusal(2, 0, 0, 0, 0, 2))
    node.telemetry.answered("n9", SnapshotReply(2, 0, 0, 0, 2))
    node.noop(1)
    assert node.said("version", "counted") == []
    node.append(2)
    node.noop(2)
    node.append(2)
    node.noop(2)
    said = node.said("version", "counted_index", "counted", "log_index", "log_term")
    assert said == [(2, {"n2#1": 2, "n3": 0}, 3, 2)]


def test_what_members_said_in_a_former_term_counts_for_nothing_and_a_follower_says_nothing_of_versions() -> None:
    node = Node()
    node.telemetry.start(0, None, 1200)
    node.telemetry.answered("n2#1", AppendReply(2, 0, 0, 0, 2))
    node.role, node.term = "leader", 3
    node.telemetry.role(0, None)
    node.noop(2)
    assert node.said("version", "counted") == [{"n2#1": 0, "n3": 0}]
    node.role = "follower"
    node.noop(3)
    assert len(node.said("version", "counted")) == 1


@pytest.mark.parametrize("event", ["checkpoint", "snapshot"])
def test_a_state_is_said_with_the_entry_for_which_it_stands_and_the_chain_that_is_in_it(event: str) -> None:
    node = Node()
    node.applied = 9
    if event == "snapshot":
        node.log.replace(8, 3)
        node.telemetry.installed(8, 3)
    else:
        node.telemetry.written_down(8, 3, 4, True)
    assert node.said(event, "log_index", "log_term", "log", "applied") == [(8, 3, "c", 9)]


def test_what_was_applied_is_counted_and_hashes_are_said_at_multiples_of_64() -> None:
    node = Node()
    for index in range(60, 130):
        node.applied = index
        node.telemetry.applied(index)
    assert node.said("hash", "applied", "count") == [(64, 5), (128, 69)]


def test_commits_are_said_at_once_and_then_every_100_ms_at_most() -> None:
    node = Node()
    for _ in range(3):
        node.telemetry.commit_advanced()
    assert (len(node.lines), [delay for delay, _ in node.timers]) == (1, [100_000_000])
    node.timers.pop()[1]()
    assert (len(node.lines), len(node.timers)) == (2, 1)
    node.timers.pop()[1]()
    assert (len(node.lines), len(node.timers)) == (2, 0), "there was nothing new"
    node.telemetry.commit_advanced()
    assert len(node.lines) == 3


def test_what_a_leader_counted_is_said_once_with_the_commit_and_not_in_a_later_term() -> None:
    node = Node()
    node.telemetry.counts(CommitAdvanced(3, (("n1", 3), ("n2#1", 3), ("n3", 1))))
    node.telemetry.commit_advanced()
    assert node.said("commit", "counted_index", "counted") == [(3, {"n1": 3, "n2#1": 3, "n3": 1})]
    node.timers[0][1]()
    node.telemetry.commit_advanced()
    assert node.said("commit", "counted_index", "counted")[1:] == [(None, None)]
    node.telemetry.counts(CommitAdvanced(4, (("n1", 4),)))
    node.telemetry.role(None, None)
    node.timers[-1][1]()
    node.telemetry.commit_advanced()
    assert node.said("commit", "counted_index")[-1] is None


def test_what_followers_had_acknowledged_is_said_before_what_the_leader_counted() -> None:
    node = Node()
    node.telemetry.answered("n2#1", AppendReply(2, 0, 0, 3))
    node.telemetry.answered("n2#1", AppendReply(2, 0, 0, 2))
    node.telemetry.counts(CommitAdvanced(3, (("n1", 3), ("n2#1", 3), ("n3", 0))))
    node.telemetry.answered("n3", AppendReply(2, 0, 0, 3))
    node.telemetry.commit_advanced()
    assert [line["event"] for line in node.lines] == ["acked", "commit"]
    assert node.said("acked", "counted_index", "counted") == [(3, {"n2#1": 3})]
    node.telemetry.role(None, None)
    assert node.telemetry.acked == {}, "answers of an earlier term say nothing"


def test_a_count_beyond_what_a_follower_acknowledged_is_said_rather_than_a_newer_one() -> None:
    node = Node()
    node.telemetry.answered("n2#1", AppendReply(2, 0, 0, 1))
    node.telemetry.counts(CommitAdvanced(3, (("n1", 3), ("n2#1", 3))))
    node.telemetry.answered("n2#1", AppendReply(2, 0, 0, 4))
    node.telemetry.counts(CommitAdvanced(4, (("n1", 4), ("n2#1", 4))))
    node.telemetry.commit_advanced()
    assert node.said("acked", "counted_index", "counted") == [(3, {"n2#1": 1})]
    assert node.said("commit", "counted_index", "counted") == [(3, {"n1": 3, "n2#1": 3})]


def test_a_line_that_was_written_anyway_says_what_was_committed_too() -> None:
    node = Node()
    node.telemetry.commit_advanced()
    node.telemetry.commit_advanced()
    node.telemetry.event("hash")
    node.timers.pop()[1]()
    assert [line["event"] for line in node.lines] == ["commit", "hash"]


def test_last_words_are_of_the_log_and_of_what_is_durable_when_the_node_ends() -> None:
    node = Node()
    node.telemetry.start(0, None, 1200)
    node.append(1, 1)
    node.telemetry.durable = 1
    assert node.words is not None
    words = json.loads(node.words())
    found = [words.get(name) for name in ("event", "last", "log_index", "log_term", "log")]
    assert found == ["end", 1, 2, 1, node.chain(2)]
    node.log.truncate(2)
    node.log.append([Entry(2, 3, "command", b"not carried out yet")])
    assert json.loads(node.words())["log"] == node.chain(2)
    assert node.said("end", "last") == [], "only a simulation writes them"
    node.telemetry.stop()
    assert node.said("stop", "last", "log_index") == [(1, 2)]


def test_clocks_and_projections_are_in_every_line() -> None:
    node = Node()
    node.telemetry.rebuild()
    assert node.said("rebuild", "wall", "mono", "group", "projection", "projected") == [(5, 7, "g", "p", "q")]


def test_what_speaks_for_a_read_is_said_and_takes_no_news_of_a_commit_away() -> None:
    node = Node()
    node.telemetry.commit_advanced()
    node.telemetry.counts(CommitAdvanced(3, (("n1", 3),)))
    node.telemetry.commit_advanced()
    node.telemetry.read(5, {"n1": 5, "n2#1": 4, "#index": 3})
    assert node.said("read", "counted_index", "counted") == [(5, {"n1": 5, "n2#1": 4, "#index": 3})]
    node.timers[0][1]()
    assert node.said("commit", "counted_index", "counted")[1:] == [(3, {"n1": 3})]


def test_a_candidate_says_whom_it_has_asked_since_its_role_changed_last() -> None:
    node = Node()
    node.role = "pre_candidate"
    node.telemetry.asked["n2#1"] = 2
    node.telemetry.role(None, None)
    node.role, node.term = "candidate", 3
    node.telemetry.role(None, None)
    node.telemetry.asked["n2#1"] = 3
    node.role = "follower"
    node.telemetry.role(None, None)
    assert node.said("role", "role", "counted") == [
        ("pre_candidate", {"n2#1": 2}),
        ("candidate", {}),
        ("follower", None),
    ]
    assert node.telemetry.asked == {}


def test_a_new_leader_says_whose_votes_it_counted() -> None:
    node = Node()
    node.role = "leader"
    node.append(1)
    node.telemetry.asked["n3"] = 2
    node.telemetry.role(0, None, {"n1": 2, "n2#1": 2})
    assert node.said("role", "role", "counted", "counted_index") == [("leader", {"n1": 2, "n2#1": 2}, None)]


def test_a_start_says_the_longest_election_timeout() -> None:
    node = Node()
    node.telemetry.start(0, None, 1200)
    assert node.said("start", "counted", "counted_index") == [({"election_max_ms": 1200}, None)]


def test_a_timeout_says_by_which_entries_the_configuration_and_the_vote_are_in_force() -> None:
    node = Node()
    node.telemetry.timeout(7, 3)
    node.telemetry.timeout(9, None)
    assert node.said("timeout", "counted_index", "counted") == [(7, {"n1": 3}), (9, {})]
