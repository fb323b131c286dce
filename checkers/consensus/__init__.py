"""Properties of a consensus protocol, judged on what the nodes tell of themselves (`splitbrain.results.telemetry`).

None of them compares times of different nodes: their clocks may be wrong. Times are shown only, for a person who looks
into the logs.
"""

from __future__ import annotations

from splitbrain.checkers.consensus.agreement import ReplicaAgreement
from splitbrain.checkers.consensus.completeness import LeaderCompleteness
from splitbrain.checkers.consensus.election import ElectionSafety
from splitbrain.checkers.consensus.progress import CommitMonotonic

__all__ = ["CommitMonotonic", "ElectionSafety", "LeaderCompleteness", "ReplicaAgreement"]
