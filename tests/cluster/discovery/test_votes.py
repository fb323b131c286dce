"""Votes for a founder: of any candidates that ask, give back, die and start again, two never have a majority."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.discovery.messages import AskVote, Ballot
from splitbrain.cluster.discovery.record import FILE, Kept, open_record
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.runtime import Disk
from tests.cluster.support import Draws, FakeDisk


def opened(disk: Disk, seed: int = 1) -> Kept:
    return asyncio.run(open_record(disk, Draws(seed)))


def test_a_vote_survives_a_restart() -> None:
    disk = FakeDisk()
    ballot = Ballot("n2", "x", 1, 1)
    asyncio.run(opened(disk).vote(ballot))
    assert opened(disk).record.vote == ballot
    assert opened(disk).refusal(AskVote(Ballot("n3", "y", 1, 1), 3), "n1", 3) == "n1 has given its vote to n2"


def test_a_candidate_that_started_again_has_the_vote_still_and_one_without_its_data_has_not() -> None:
    kept = opened(FakeDisk())
    asyncio.run(kept.vote(Ballot("n2", "x", 1, 1)))
    assert kept.refusal(AskVote(Ballot("n2", "x", 2, 1), 3), "n1", 3) is None
    refused = kept.refusal(AskVote(Ballot("n2", "new", 3, 1), 3), "n1", 3)
    assert refused == "n1 has given its vote to n2, which has lost its data since"


def test_the_return_of_another_candidacy_leaves_the_vote() -> None:
    kept = opened(FakeDisk())
    asyncio.run(kept.vote(Ballot("n2", "x", 1, 2)))
    asyncio.run(kept.take_back(Ballot("n2", "x", 1, 1)))
    assert kept.record.vote == Ballot("n2", "x", 1, 2)


def test_nodes_that_were_started_for_clusters_of_different_sizes_give_no_votes() -> None:
    refused = opened(FakeDisk()).refusal(AskVote(Ballot("n2", "x", 1, 1), 5), "n1", 3)
    assert refused == "n1 was started for a cluster of 3 nodes, and n2 for 5"


@pytest.mark.parametrize("how", ["founded", "joined"])
def test_a_node_in_a_cluster_gives_no_vote(how: str) -> None:
    disk = FakeDisk()
    kept = opened(disk)
    asyncio.run(kept.found() if how == "founded" else kept.join(("n3",)))
    assert opened(disk).refusal(AskVote(Ballot("n2", "x", 1, 1), 3), "n1", 3) == "n1 is in a cluster, or joins one"
    assert not opened(disk).may_found


def test_addresses_are_kept_and_a_directory_of_a_node_without_discovery_is_seen() -> None:
    disk = FakeDisk()
    kept = opened(disk)
    kept.know((Peer("n2", ("h", 2)),))
    asyncio.run(kept.join(("n2",)))
    assert opened(disk).record.addresses == (Peer("n2", ("h", 2)),)
    assert not opened(disk).record.was_used
    used = FakeDisk()
    asyncio.run(used.replace("node", b""))
    assert opened(used).record.was_used


def test_a_directory_of_a_node_without_discovery_stays_one_once_the_file_is_written() -> None:
    disk = FakeDisk()
    asyncio.run(disk.replace("node", b""))
    opened(disk)
    assert opened(disk).record.was_used
    asked = AskVote(Ballot("n2", "x", 1, 1), 3)
    assert opened(disk).refusal(asked, "n1", 3) == "n1 is in a cluster, or joins one"
    assert not opened(disk).may_found


def test_a_damaged_record_is_refused() -> None:
    disk = FakeDisk()
    asyncio.run(disk.replace(FILE, b"{"))
    with pytest.raises(CorruptStorageError, match="It holds this node's vote"):
        opened(disk)


# --- any order -------------------------------------------------------------------------------------------------

VOTERS = 5


@dataclass
class Candidate:
    """One node as a candidate: what it asked for in its present round, and the votes that it has in it."""

    name: str
    process: int = 1
    round: int = 0
    asks: bool = False
    votes: set[int] = field(default_factory=set[int])

    @property
    def ballot(self) -> Ballot:
        return Ballot(self.name, f"data of {self.name}", self.process, self.round)


@given(st.lists(st.tuples(st.sampled_from("arrgdvt"), st.integers(0, 2), st.integers(0, VOTERS - 1)), max_size=120))
def test_two_candidates_never_have_a_majority(steps: list[tuple[str, int, int]]) -> None:
    """Messages arrive in any order, late or never; candidates and voters start again at any time."""

    async def play() -> None:
        disks = [FakeDisk() for _ in range(VOTERS)]
        voters = [await open_record(disk, Draws(number)) for number, disk in enumerate(disks)]
        candidates = [Candidate(f"c{number}") for number in range(3)]
        founders: set[str] = set()
        on_the_way: list[tuple[int, Ballot, bool]] = []
        for what, number, voter in steps:
            candidate = candidates[number]
            match what:
                case "a":  # asks in a new round; what it had in the last one it gives back
                    if candidate.name in founders:
                        continue
                    if candidate.asks:
                        on_the_way += [(each, candidate.ballot, False) for each in range(VOTERS)]
                    candidate.round, candidate.asks, candidate.votes = candidate.round + 1, True, set()
                    on_the_way += [(each, candidate.ballot, True) for each in range(VOTERS)]
                case "d":  # starts again
                    candidate.process, candidate.round, candidate.asks = candidate.process + 1, 0, False
                    candidate.votes = set()
                case "v":  # the voter starts again
                    voters[voter] = await open_record(disks[voter], Draws(voter))
                case _:  # the oldest, a later, or the latest message arrives
                    if not on_the_way:
                        continue
                    at = {"r": 0, "g": len(on_the_way) // 2}.get(what, -1)
                    to, ballot, asks = on_the_way.pop(at)
                    kept = voters[to]
                    if not asks:
                        await kept.take_back(ballot)
                    elif kept.refusal(AskVote(ballot, VOTERS), f"v{to}", VOTERS) is None:
                        await kept.vote(ballot)
                        asker = next(each for each in candidates if each.name == ballot.node)
                        if asker.asks and asker.ballot == ballot:
                            asker.votes.add(to)
            founders |= {each.name for each in candidates if len(each.votes) > VOTERS // 2}
            assert len(founders) <= 1, f"{founders} each have a majority"

    asyncio.run(play())
