"""Whether a checker judged what clients were answered: an answer that no checker looks at proves nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from splitbrain.checkers.coverage.calls import ClientOps
from splitbrain.checkers.coverage.options import Options
from splitbrain.checkers.registry import checker
from splitbrain.results.reasons import Code, Reason
from splitbrain.results.telemetry import STRATEGY_CHECKERS

OF_THE_RUN: Final = frozenset(
    {
        *("stats", "answers", "coverage", "crashes", "recovery"),
        *("durability", "candidacy", "links", "votes"),
        *STRATEGY_CHECKERS,
    }
)
"""Checkers of figures and nodes: they judge no op of a client. Those whose partition is telemetry are not listed."""

OF_SILENCE: Final = "quorum-progress"
"""Judges which nodes acknowledged ops, but no value: enough for ops that return nothing, such as writes."""

_ADVICE: Final = 'Give the workload a checker of its ops, for example CheckerSpec("linearizable", {"model": ...}).'


def judges_of_ops(names: Iterable[str]) -> list[str]:
    """Those of these checkers that judge the ops of clients."""
    return [name for name in names if name not in OF_THE_RUN and checker(name).partition != "telemetry"]


def of_judges(ops: ClientOps, wanted: Options, fs: Sequence[str]) -> Iterator[Reason]:
    """The reason why nothing is proven if no checker judged the ops, or the values that they returned."""
    if wanted.judges is None:
        return
    judges = judges_of_ops(wanted.judges)
    if not judges:
        yield Reason(Code.NOT_JUDGED, "no checker of this test judges the ops of its clients.", _ADVICE)
    elif judges == [OF_SILENCE]:
        for f in fs:
            returned = int(np.count_nonzero(ops.are(f) & ops.returned()))
            if returned:
                yield Reason(
                    Code.NOT_JUDGED,
                    f"no checker of this test judges the values that {returned} of the ok ops of {f!r} returned.",
                    _ADVICE,
                )
