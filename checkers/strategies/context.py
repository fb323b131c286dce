"""What stands behind a violation of clients' promises in a run with a strategy for partitions: strategy and window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, cast

import msgspec
import pyarrow as pa

from splitbrain.checkers.strategies.sights import Reported, reported, words_of
from splitbrain.checkers.strategies.windows import Cut, cuts
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import compute
from splitbrain.results.columns import text
from splitbrain.results.faults import run_events
from splitbrain.results.once import once

_TIMES: Final = {"time_s": 1e9, "invoked_ns": 1, "completed_ns": 1}
"""Fields of a witness with a time of the run, and how many ns their units are."""


def under_strategy(verdict: Verdict, history: pa.Table, telemetry: pa.Table | None) -> Verdict:
    """A violation, with the strategy for partitions that nodes followed, and the partition that it belongs to.

    That is the one that was in force when the first op of its witness ended, else the first one between that and the
    last op of it, else the last one before. Without any, the sentence says whether a node had taken another one for
    down by then, as nodes do that were paused for longer than the tick time: only then may tables run apart (MN-9).
    Any other verdict, and that on a run whose nodes follow no strategy, stays as it is.
    """
    if verdict.valid != "false" or telemetry is None or not _has_strategies(telemetry):
        return verdict
    strategy, nodes = _setup(telemetry)
    times = sorted(_times(verdict.evidence.get("witness")))
    cut = _of_span(cuts(run_events(history)), times[0], times[-1]) if times else None
    partition = _without_cut(telemetry, times) if cut is None else cut.said(nodes)
    return msgspec.structs.replace(
        verdict,
        sentence=f"{verdict.sentence} Strategy {strategy}; {partition}.",
        evidence={**verdict.evidence, "strategy": strategy, "partition": partition},
    )


def _without_cut(telemetry: pa.Table, times: Sequence[int]) -> str:
    """What nodes themselves noticed of each other up to the last time of a witness."""
    lost = [loss for loss in _losses(reported(telemetry)) if times and loss.time <= times[-1]]
    if not lost:
        return "no partition before it, and no node had taken another one for down"
    first = min(lost, key=lambda loss: loss.time)
    down = words_of(first.gone)
    return f"no partition before it, but {first.node} had taken {down} for down at {first.time / 1e9:.1f} s"


class _Loss(NamedTuple):
    """A node that had seen others took them for down."""

    time: int
    node: str
    gone: frozenset[str]


def _losses(run: Reported) -> Iterator[_Loss]:
    for life in run.lives:
        whole = [sight for sight in life if sight.is_whole]
        for before, after in pairwise(whole):
            if gone := before.alive - after.alive:
                yield _Loss(after.time, after.node, gone)


def _has_strategies(telemetry: pa.Table) -> bool:
    return bool(_setup(telemetry)[0])


def _setup(telemetry: pa.Table) -> tuple[str, tuple[str, ...]]:
    return once(telemetry, _of_starts)


def _of_starts(telemetry: pa.Table) -> tuple[str, tuple[str, ...]]:
    """The strategy, "" if nodes follow none, and the names of nodes. Starts alone are read."""
    starts = telemetry.filter(compute.equal(telemetry["event"], text("start")))
    strategies = starts.filter(starts["raised_by"].is_valid())
    found = reported(strategies) if strategies.num_rows else None
    return ("", ()) if found is None else (found.setup.strategy, found.nodes)


def _of_span(found: tuple[Cut, ...], begin_ns: int, end_ns: int) -> Cut | None:
    met = [cut for cut in found if cut.begin_ns <= end_ns]
    return next((cut for cut in met if cut.end_ns >= begin_ns), met[-1] if met else None)


def _times(witness: Any) -> Iterator[int]:
    """All times in a witness, in ns."""
    if isinstance(witness, dict):
        fields = cast("dict[str, Any]", witness)
        for name, unit in _TIMES.items():
            time = fields.get(name)
            if isinstance(time, (int, float)):
                yield round(time * unit)
        yield from _times(fields.get("ops"))
    elif isinstance(witness, list):
        for each in cast("list[Any]", witness):
            yield from _times(each)
