"""Properties of a consensus protocol, judged on what the nodes report of themselves (`splitbrain.results.telemetry`).

No checker compares times of different nodes, but for `.prevotes`, which asks what the run knows of their clocks: these
may be wrong. Times are only shown, for a person who reads the logs.
"""

from __future__ import annotations

from splitbrain.checkers.consensus.acknowledged import Acknowledged
from splitbrain.checkers.consensus.agreement import ReplicaAgreement
from splitbrain.checkers.consensus.candidacy import Candidacy
from splitbrain.checkers.consensus.completeness import LeaderCompleteness
from splitbrain.checkers.consensus.durability import Durability
from splitbrain.checkers.consensus.election import ElectionSafety
from splitbrain.checkers.consensus.majority import CommitMajority
from splitbrain.checkers.consensus.matching import LogMatching
from splitbrain.checkers.consensus.memberchanges import MemberChanges
from splitbrain.checkers.consensus.progress import CommitMonotonic
from splitbrain.checkers.consensus.reads import ReadMajority
from splitbrain.checkers.consensus.removed import RemovedMembers
from splitbrain.checkers.consensus.versions import Versions
from splitbrain.checkers.consensus.votes import Votes

__all__ = [
    "Acknowledged",
    "Candidacy",
    "CommitMajority",
    "CommitMonotonic",
    "Durability",
    "ElectionSafety",
    "LeaderCompleteness",
    "LogMatching",
    "MemberChanges",
    "ReadMajority",
    "RemovedMembers",
    "ReplicaAgreement",
    "Versions",
    "Votes",
]
