"""What `benchmarks/recovery.py` found, as figures and as tables.

All times come from the verdict of `quorum-progress` (Q4): seconds from the invocation of a partition, or of its heal,
to the first quorum answer of a node to an op that was invoked once the links had changed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from splitbrain.checkers.quorum.answers import Answers, answers
from splitbrain.checkers.quorum.checker import Options
from splitbrain.results.calls import seconds
from splitbrain.results.errors import HarnessError
from splitbrain.results.faults import FaultOp, RunEvents, run_events
from splitbrain.results.figures import Figures, figures_of
from splitbrain.results.rundir import RunDir

UNSERVED_S: Final = 1.0
"""A stretch without an answer counts as unserved from this length on; shorter ones occur by chance at low rates."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """How a system came back after one partition, or after its heal; seconds since the invocation of that op.

    Attributes:
        shape: of the partition.
        healed: whether this is about its heal.
        target: who was cut off from whom.
        set_s: until the links were changed and measured: no answer before that counts.
        nodes: each node that had to answer; None for one that did not before the next op of the nemesis. After a
            partition these are the members of the core that was complete first, after a heal all nodes.
    """

    shape: str
    healed: bool
    target: str
    set_s: float
    nodes: dict[str, float | None]

    @property
    def first_s(self) -> float | None:
        """Until the first of them answered."""
        return min((took for took in self.nodes.values() if took is not None), default=None)

    @property
    def all_s(self) -> float | None:
        """Until the last of them had."""
        took = [each for each in self.nodes.values() if each is not None]
        return max(took) if len(took) == len(self.nodes) else None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to.

    Attributes:
        run: where it is stored.
        system: its name.
        outcome: of the run.
        load: the machine's load average when it ended.
        recovered: one for each partition and each heal.
        unserved_s: by node, and "cluster": for how many seconds of the faults phase no op was answered.
        terms: in how many terms answers were given, less one: leaders that served and were replaced.
        bound_s: the recovery bound in force.
        bound_per_outage: how much longer it is for each second for which nodes had been cut off.
        figures: throughput, latency, availability.
    """

    run: str
    system: str
    outcome: str
    load: float
    recovered: tuple[Recovered, ...]
    unserved_s: dict[str, float]
    terms: int
    bound_s: float
    bound_per_outage: float
    figures: Figures


def measured(run: RunDir, load: float) -> Measured:
    """The figures of a judged run.

    Raises:
        HarnessError: quorum-progress did not judge it.
        RunNotFoundError: nothing was recorded.
    """
    judgement, document = run.read_verdicts(), run.read_test()
    verdicts = judgement.verdicts if judgement is not None else []
    judged = next((one for one in verdicts if one.get("checker") == "quorum-progress"), None)
    if judgement is None or judged is None:
        raise HarnessError(f"{run.path} holds no verdict of quorum-progress: there is nothing to compare.")
    history = run.history().combine_chunks()
    nodes = [str(node) for node in document["nodes"]]
    events, given = run_events(history), answers(history, nodes, None, Options().decided)
    bounds = judged["figures"]["bounds"]
    terms = given.term[given.given & (given.term > 0)]
    return Measured(
        run=str(run.path),
        system=str(document["options"]["system"]),
        outcome=judgement.outcome,
        load=load,
        recovered=tuple(recoveries(events, judged["figures"])),
        unserved_s=unserved_s(events, given),
        terms=max(len(np.unique(terms)) - 1, 0),
        bound_s=float(bounds["recovery_s"]),
        bound_per_outage=float(bounds.get("recovery_per_outage", 0.0)),
        figures=figures_of(run),
    )


def recoveries(events: RunEvents, judged: Mapping[str, Any]) -> list[Recovered]:
    """Each partition of a run and its heal, in order.

    Heals that ended no partition are left out: nothing recovered from them.

    Args:
        events: the run events.
        judged: the figures of quorum-progress.
    """
    found: list[Recovered] = []
    rows = {row["op"]: row["nodes"] for row in judged["recovery"]}
    cores = {row["start_s"]: row["cores"] for row in judged["windows"]}
    for window in events.windows:
        for op in (window.start, window.stop):
            if op is None or op.completion is None or op.invoke.index not in rows:
                continue
            took = rows[op.invoke.index]
            groups = cores.get(seconds(op.completion.time)) or [list(took)]
            found.append(_recovered(op, window.start, op is window.stop, min(_chosen(groups, took), key=_rank)))
    return found


def _chosen(groups: Sequence[Sequence[str]], took: Mapping[str, float | None]) -> list[dict[str, float | None]]:
    return [{node: took[node] for node in group} for group in groups]


def _rank(nodes: Mapping[str, float | None]) -> float:
    return max(float("inf") if took is None else took for took in nodes.values())


def _recovered(op: FaultOp, start: FaultOp, healed: bool, nodes: dict[str, float | None]) -> Recovered:
    assert op.completion is not None
    return Recovered(
        shape=start.said.shape,
        healed=healed,
        target=start.said.target,
        set_s=seconds(op.completion.time - op.invoke.time),
        nodes=nodes,
    )


def unserved_s(events: RunEvents, given: Answers) -> dict[str, float]:
    """For how many seconds of the faults phase no op was answered, by node and for the cluster."""
    [phase] = [each for each in events.phases if each.name == "faults"]
    ends = {"cluster": given.ended[given.given]}
    ends |= {node: given.ended[given.given & given.at(node)] for node in given.nodes}
    found: dict[str, float] = {}
    for name, moments in ends.items():
        inside = np.sort(moments[(moments > phase.begin_ns) & (moments < phase.end_ns)])
        gaps = np.diff(np.concatenate(([phase.begin_ns], inside, [phase.end_ns]))) / 1e9
        found[name] = round(float(gaps[gaps >= UNSERVED_S].sum()), 3)
    return found


# --- tables -------------------------------------------------------------------------------------------------------


def recovery_table(runs: Mapping[str, Sequence[Measured]]) -> list[str]:
    """Recovery by shape, as markdown: a row for each way to look at it, a column for each system."""
    lines = [_row("seconds: median / p95 / worst (n)", list(runs)), _row("---", ["---"] * len(runs))]
    pools = [[one for run in each for one in run.recovered] for each in runs.values()]
    kinds = dict.fromkeys((one.shape, one.healed) for pool in pools for one in pool)
    for shape, healed in sorted(kinds, key=lambda kind: kind[1]):
        chosen = [[one for one in pool if (one.shape, one.healed) == (shape, healed)] for pool in pools]
        what = f"{shape} {'healed' if healed else 'cut'}"
        who = "all nodes" if healed else "a whole core"
        lines.append(_row(f"{what}: the cluster", [_quantiles([one.first_s for one in each]) for each in chosen]))
        lines.append(_row(f"{what}: {who}", [_quantiles([one.all_s for one in each]) for each in chosen]))
        lines.append(_row(f"{what}: a node", [_quantiles(_of_nodes(each)) for each in chosen]))
    return lines


def run_table(runs: Mapping[str, Sequence[Measured]]) -> list[str]:
    """Figures of whole runs, as markdown: medians over the runs, and their range."""
    lines = [_row("per run: median (range)", list(runs)), _row("---", ["---"] * len(runs))]
    for name, of in _PER_RUN:
        lines.append(_row(name, [_range([of(run) for run in each]) for each in runs.values()]))
    return lines


def longest(runs: Sequence[Measured], *, healed: bool) -> float | None:
    """The longest time from when links were set until every node of a core had answered, of cores that did.

    That is what the recovery bound is about: it counts from the beginning of a window.
    """
    took = [
        one.all_s - one.set_s for run in runs for one in run.recovered if one.healed is healed and one.all_s is not None
    ]
    return max(took, default=None)


def silent(runs: Sequence[Measured]) -> list[str]:
    """Nodes that had to answer and did not before the next op of the nemesis, in words."""
    return [
        f"{one.shape} {'healed' if one.healed else 'cut'} ({one.target}): {node}"
        for run in runs
        for one in run.recovered
        for node, took in one.nodes.items()
        if took is None
    ]


def _of_nodes(found: Sequence[Recovered]) -> list[float | None]:
    return [took for one in found for took in one.nodes.values()]


_PER_RUN: Final[tuple[tuple[str, Callable[[Measured], float | None]], ...]] = (
    ("cluster unserved, s", lambda run: run.unserved_s["cluster"]),
    ("a node unserved, s (mean of nodes)", lambda run: _mean_of_nodes(run.unserved_s)),
    ("ops answered, %", lambda run: _percent(run.figures.available_ops)),
    ("ok ops a second", lambda run: run.figures.ok_per_s),
    ("latency p50, ms", lambda run: run.figures.latency_ms.get("p50")),
    ("latency p95, ms", lambda run: run.figures.latency_ms.get("p95")),
    ("latency p99, ms", lambda run: run.figures.latency_ms.get("p99")),
    ("leaders replaced (terms of answers)", lambda run: run.terms),
    ("unknown (info), %", lambda run: 100 * run.figures.info / run.figures.ops if run.figures.ops else None),
)


def _mean_of_nodes(unserved: Mapping[str, float]) -> float:
    return statistics.fmean(each for name, each in unserved.items() if name != "cluster")


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _row(first: str, cells: Sequence[str]) -> str:
    return "| " + " | ".join([first, *cells]) + " |"


def _quantiles(values: Sequence[float | None]) -> str:
    """Median, p95 (a value that occurred) and worst; how many there were, and how many never came."""
    known = [value for value in values if value is not None]
    never = f", {len(values) - len(known)} never" if len(known) < len(values) else ""
    if not known:
        return f"-{never}"
    p95 = float(np.quantile(known, 0.95, method="higher"))
    return f"{statistics.median(known):.2f} / {p95:.2f} / {max(known):.2f} ({len(known)}{never})"


def _range(values: Sequence[float | None]) -> str:
    known = [float(value) for value in values if value is not None]
    if not known:
        return "-"
    return f"{statistics.median(known):.4g} ({min(known):.4g} to {max(known):.4g})"
