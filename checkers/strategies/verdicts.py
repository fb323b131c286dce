"""What all verdicts on strategies share: where a run proves nothing, and the end of each sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from splitbrain.checkers.consensus.findings import Finding, verdict_of
from splitbrain.checkers.consensus.rows import refuse_options
from splitbrain.checkers.consensus.troubles import Troubles
from splitbrain.checkers.strategies.sights import Reported, Sight, reported, shown
from splitbrain.checkers.strategies.windows import Cut, cuts, when
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.faults import RunEvents, run_events
from splitbrain.results.reasons import Code, Reason

_ADVICE: Final = "Let partitions last longer than the tick time of the nodes (--interval, --settings net-tick-ms)."


class Run(NamedTuple):
    """What is judged.

    Attributes:
        reported: by the nodes.
        events: of the run, faults among them.
        cuts: when links were cut.
        troubles: when nodes themselves may have been in trouble.
    """

    reported: Reported
    events: RunEvents
    cuts: tuple[Cut, ...]
    troubles: Troubles

    def finding(self, anomaly: str, words: str, *sights: Sight, at_ns: int | None = None) -> Finding:
        """One finding: words without a full stop; the strategy and the partition stand behind them.

        Args:
            anomaly: its name.
            words: what happened.
            sights: the rows that show it; the last one says when it was.
            at_ns: when it was, where that is not the time of the last row.
        """
        time_ns = sights[-1].time if at_ns is None else at_ns
        partition = when(self.cuts, time_ns, self.reported.nodes)
        return {
            "anomaly": anomaly,
            "sentence": f"{words}; strategy {self.reported.setup.strategy}; {partition}.",
            "by": sights[-1].node,
            "rows": shown(*sights),
        }


def run_of(checker: str, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Run:
    """What a checker without options judges.

    Raises:
        UsageError: there are options.
        HistoryFormatError: a row of telemetry, or a note of a phase, is damaged.
    """
    refuse_options(checker, options)
    events = run_events(history)
    return Run(reported(telemetry), events, cuts(events), Troubles(events))


def verdict(
    checker: str, run: Run, found: Sequence[Finding], praise: str, figures: Mapping[str, int], occasion: str | None
) -> Verdict:
    """The verdict of what was found.

    Args:
        checker: its name.
        run: what was judged.
        found: the findings; those of partitions speak before those of the start.
        praise: the sentence where there are none.
        figures: of the verdict.
        occasion: what did not happen, without which nothing is proven, as a sentence; None if it did.
    """
    first_s = run.cuts[0].begin_ns / 1e9 if run.cuts else 0.0
    times = [each["rows"][-1]["time_s"] for each in found]
    ordered = [
        found[place] for place in sorted(range(len(found)), key=lambda place: (times[place] < first_s, times[place]))
    ]
    answer = verdict_of(
        checker,
        algorithm="row by row",
        found=ordered,
        otherwise=praise,
        figures={**figures, "cuts": len(run.cuts), "broken": len(found)},
    )
    if answer.valid == "false":
        return answer
    reason = _too_little(checker, run, occasion)
    if reason is None:
        return answer
    return Verdict(
        checker=checker,
        valid="unknown",
        algorithm=answer.algorithm,
        sentence=f"Unknown: {reason.sentence}",
        inconclusive=(reason,),
        figures=answer.figures,
    )


def _too_little(checker: str, run: Run, occasion: str | None) -> Reason | None:
    reported = run.reported
    if not reported.is_complete:
        size = reported.setup.size or "all"
        return Reason(
            Code.NO_TELEMETRY,
            f"{checker} has telemetry of {len(reported.nodes)} nodes of {size}, and needs that of all.",
        )
    if not run.cuts:
        return Reason(Code.FAULT_DID_NOT_BITE, f"{checker} judges partitions, and no link was cut.", _ADVICE)
    return None if occasion is None else Reason(Code.NO_OCCASION, occasion, _ADVICE)
