"""Coverage marks: which states of the harness and of its faults a run has reached.

A test that passed says little if the leader was never cut off. `reached` stands where a state is known to have come
about; a run counts what is reached while it lasts, and its report shows the zeros as well (TigerBeetle's `coverage`
marks; FoundationDB's `TEST` macro; Antithesis's "sometimes" assertions). The system under test has marks of its own.

Outside of `counted` a mark costs one comparison.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from splitbrain.results.errors import UsageError

MARKS: Final[Mapping[str, str]] = {
    # what clients met
    "op timed out": "an op was sent and not answered in time",
    "op failed before it was sent": "there was no connection to the op's node",
    "op refused": "a node said that an op certainly did not happen",
    "process crashed": "the outcome of an op was unknown: its process was replaced",
    # what became of nodes
    "node stopped by itself": "a node ended by itself, and its disk had no fault",
    "node stopped by its disk": "a node ended by itself while its disk was at fault",
    "all nodes down": "no node's process was alive",
    "majority down": "no majority of the nodes was running",
    "node restarted": "a stopped node was restarted and ran",
    "node bounced": "a node was killed and started again at once",
    "fault at a moment": "a fault hit a node at the moment at which it passed a mark",
    "moment did not come": "no node passed a mark that a fault waited for",
    "rolling restart": "every node was restarted, each after the one before it had answered again",
    "restarted at once": "every node ended before the first of them started again, all at the same time",
    "restarted in another order": "every node ended, and they started again in another order",
    "restarted in good order": "every node was asked to stop, ended in good order, none by SIGKILL, and started again",
    "member did not come back": "a node that left could not join again before a recovery had to be over",
    "members removed rashly": "nodes that said they lead were asked to remove members at once, reached or not",
    "member removed": "a node was a member no more, as others listed them, and its data was gone",
    "leader removed": "a node that said it led was removed from the cluster",
    "member added": "a node without data was taken in as a new member, and served",
    "member replaced": "a node joined again while another one was removed",
    "member joined as learner": "a node without data was taken in as a learner, and served",
    "learner promoted": "a learner that stays one was given a vote",
    "membership change refused": "a cluster that could not spare a member, or was not complete, refused a change",
    "some nodes upgraded": "nodes were restarted with a later version, and others were not yet",
    "every node upgraded": "the last node was restarted with a later version",
    "node rolled back": "a node was started with an earlier version than before, and ran",
    "migration ended": "a system that was asked to move its metadata to another store did so",
    "migration not seen to end": "a system was asked to move its metadata, and refused, or took longer than was waited",
    "leadership transferred": "a leader was asked to have another node lead, and that one led the next term",
    "transfer refused": "a leader refused to hand leadership to a node, or did not answer",
    "group made": "nodes began a further group",
    "group made in part": "some nodes began a further group, and others did not",
    "group deleted": "every node that was asked forgot its member of a group",
    "group left behind": "a node did not forget its member of a group before a recovery had to be over",
    "group made again": "a group was made again under the name of one that was deleted",
    "group stored": "a further group stored what it was given",
    "two leaders at once": "two nodes reported themselves as leader when a fault was injected",
    "no leader known": "a fault was for the leader, and no leader was known",
    # links
    "leader isolated": "every link of a node that said it led was cut, both ways",
    "leader in a minority": "a node that said it led kept company, but no majority",
    "one-way cut": "a link was cut in one direction only",
    "no node reached a majority": "no node had two-way links to a majority",
    "every node reached a majority": "links were cut, and still every node had two-way links to a majority",
    "cut swallowed traffic": "something was sent over a cut link",
    "swizzled": "links were cut one node after the other, and healed in another order",
    "messages lost": "a link lost messages",
    "messages duplicated": "a link delivered messages twice",
    "messages reordered": "a link let messages overtake others",
    "messages delayed": "a link delivered messages late",
    "messages held": "a clogged link held messages back",
    "messages of clients swallowed": "a request or an answer met a link between a client and a node that is cut",
    "messages of clients lost": "a request or an answer vanished",
    "messages of clients duplicated": "a request or an answer arrived twice",
    "messages of clients delayed": "a request or an answer took longer",
    "messages of clients held": "a request or an answer waited for its link to be let go",
    "client connection reset": "a link between a client and a node broke the connections over it",
    "messages corrupted": "a link flipped bits of messages",
    "messages queued": "messages waited for a link of limited rate",
    "messages oversized": "a message was too large for a link, which never delivered it",
    "connection reset": "a flaky link broke connections",
    # processes, power, clocks, disks
    "leader paused": "a node that said it led was stopped from running",
    "leader killed": "a node that said it led was killed",
    "leader lost power": "a node that said it led lost its power",
    "leader throttled": "a node that said it led got little of a CPU",
    "node throttled": "a node had to wait for a CPU",
    "power loss lost writes": "bytes that were not synced were gone after a loss of power",
    "power loss tore a sector": "a sector was half written when the power was lost",
    "power loss lost names": "files that were not synced into their directory were gone after a loss of power",
    "clock jumped ahead": "a node's wall clock was put forward",
    "clock jumped back": "a node's wall clock was put back",
    "clock strobed": "a node's wall clock jumped back and forth",
    "clock ran fast": "a node's clock ran faster than the others",
    "clock ran slow": "a node's clock ran slower than the others",
    "disk refused writes": "a full or read-only disk refused to take more",
    "disk failed": "a disk failed to read or to write",
    "sync failed": "a sync failed, and dropped what it should have made durable",
    "disk was slow": "syncs of a node took longer",
    "node did not start on rotten data": "a node found damage on its disk and refused to start",
    "files truncated": "the ends of files on a node's disk were gone",
    "node started on rotten data": "a node started although sectors of its disk had rotted",
    # the run
    "faults overlapped": "a fault began while another was in force",
    "no node for the fault": "no node could be hit by a fault",
    "fault not verified": "the effect of a fault, or its healing, could not be verified",
    "recovery took an election": "the healed system took longer than an election timeout until it was usable",
    "no start": "the nodes did not become usable once they were started",
    "no recovery": "the healed system did not become usable in time",
    "final phase": "clients did the final ops after everything was healed",
    "replicas met": "after the last request all nodes applied the same log",
    "replicas did not meet": "they did not, although the healed system had time for it",
}
"""Every mark, with a line on when it is reached."""

_counts: dict[str, int] | None = None


def reached(mark: str) -> None:
    """Count a mark; outside of `counted` nothing happens."""
    if _counts is not None:
        assert mark in MARKS, f"there is no mark {mark!r}: add it to splitbrain.harness.contract.marks.MARKS"
        _counts[mark] += 1


@contextmanager
def counted() -> Generator[Mapping[str, int]]:
    """Count while the context lasts; yields the counts of all marks, zeros included.

    Raises:
        UsageError: marks are being counted already.
    """
    global _counts
    if _counts is not None:
        raise UsageError("marks are being counted already: a process runs one simulation at a time.")
    _counts = dict.fromkeys(MARKS, 0)
    try:
        yield _counts
    finally:
        _counts = None
