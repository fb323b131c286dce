"""What a leader counts for a follower, that follower had acknowledged to it in its term (Raft, 5.3).

    counted-unacknowledged  a leader counted a follower for more of its log than any answer of that term said

A leader that counts what a follower holds in memory only, or what it said in an earlier term, is right again as soon as
the follower has synced, or has the same entries. Its clients lose something only if a fault comes in between, and a
majority by its own count is there (`commit-majority`). The messages that it got show it at each such commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from splitbrain.checkers.consensus.counts import counts_of, node_of, with_counts
from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.quantities import counted


class Acknowledged(OfOneRun):
    """Judges every row of event "commit" that follows one of event "acked" of the same commit. No options.

    Both name members and indexes in `counted`: what the leader counted when it committed, and the highest that an
    answer of its term had said, as they came in. The leader's own log is not judged here. A leader that reports no
    answers is not judged. The figures: `counts` judged (one for each follower and commit), and `broken` (commits).
    """

    name = "acknowledged"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run.

        Raises:
            HistoryFormatError: a row does not say what was counted in the form `n1=17 n2#1=12`.
        """
        refuse_options(self.name, options)
        answers: dict[tuple[str | None, str, int], Row] = {}
        found: list[dict[str, Any]] = []
        judged = 0
        for row in with_counts(telemetry, "acked", "commit"):
            life = (row.group, row.node, row.life)
            if row.event == "acked":
                answers[life] = row
                continue
            answer = answers.pop(life, None)
            if answer is None or (answer.term, answer.counted_index) != (row.term, row.counted_index):
                continue
            beliefs = list(_beliefs(row, answer))
            judged += len(beliefs)
            wrong = [belief for belief in beliefs if belief.counted > belief.said]
            if wrong:
                found.append(_finding(row, answer, wrong))
        return verdict_of(
            self.name,
            algorithm="row by row",
            found=found,
            otherwise=_praise(judged),
            figures={"counts": judged, "broken": len(found)},
        )


class _Belief(NamedTuple):
    """How much of its log a leader counted for a follower, and how much the follower had said."""

    follower: str
    counted: int
    said: int


def _beliefs(commit: Row, answer: Row) -> Iterable[_Belief]:
    said = counts_of(answer)
    for follower, index in counts_of(commit).items():
        if node_of(follower) != commit.node:
            yield _Belief(follower, index, said.get(follower, 0))


def _finding(commit: Row, answer: Row, wrong: list[_Belief]) -> dict[str, Any]:
    beliefs = [
        f"{follower} for entry {index}, when it had acknowledged " + (f"entry {said}" if said else "none")
        for follower, index, said in wrong
    ]
    return {
        "anomaly": "counted-unacknowledged",
        "sentence": (
            f"Counted, and not acknowledged: {commit.node}{of_group(commit.group)} committed entry "
            f"{commit.counted_index} in term {commit.term} ({commit.at}) and counted {'; '.join(beliefs)} in that term."
        ),
        "by": commit.node,
        "rows": [answer.shown(), commit.shown()],
    }


def _praise(judged: int) -> str:
    if not judged:
        return "Nothing was judged: no leader reported what its followers acknowledged."
    return f"In {counted(judged, 'count')} of followers none was above what the follower had acknowledged in that term."
