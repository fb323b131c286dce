"""From transactions to findings: which anomalies a history shows, and what follows for consistency models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from splitbrain.checkers.transactions import models
from splitbrain.checkers.transactions.anomalies import BY_NAME
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.columns import Transactions
from splitbrain.checkers.transactions.cycles import Cycles, cycles_of
from splitbrain.checkers.transactions.graph import Bools
from splitbrain.checkers.transactions.inference import Inference
from splitbrain.checkers.transactions.lists import infer_lists
from splitbrain.checkers.transactions.open_keys import no_keys
from splitbrain.checkers.transactions.order import process_edges, realtime_edges
from splitbrain.checkers.transactions.registers import infer_registers
from splitbrain.checkers.transactions.saturation import Derivation, Derived, saturate
from splitbrain.checkers.verdict import Valid
from splitbrain.results.errors import UsageError

Workload: TypeAlias = Literal["list-append", "rw-register", "closed-predicate"]

DEFAULT_MODELS: Final = ("strict-serializable",)


@dataclass(frozen=True)
class Expected:
    """What a history should satisfy.

    Attributes:
        models: consistency models.
        anomalies: further anomalies that it should not have.
    """

    models: tuple[str, ...] = DEFAULT_MODELS
    anomalies: tuple[str, ...] = ()

    @property
    def proscribed(self) -> frozenset[str]:
        """All anomalies that it should not have.

        Raises:
            UnknownNameError: a model or an anomaly has an unknown name.
        """
        return models.proscribed_by(self.models, self.anomalies)


@dataclass(frozen=True)
class Findings:
    """What a history shows.

    Attributes:
        valid: "false" if it has an anomaly that it should not have; "unknown" if nothing depends on anything.
        anomaly_types: those that it has and should not have, sorted.
        tolerated: those that it has and may have, sorted.
        ruled_out: the weakest models that it does not satisfy ("not").
        also_ruled_out: stronger ones.
        inference: what it was inferred from.
        cycles: those that were found.
        derivation: what derived edges follow from.
        lacks_realtime: whether what is expected needs real time, and the history has none: it was judged without.
    """

    valid: Valid
    anomaly_types: tuple[str, ...]
    tolerated: tuple[str, ...]
    ruled_out: tuple[str, ...]
    also_ruled_out: tuple[str, ...]
    inference: Inference
    cycles: Cycles
    derivation: Derived
    lacks_realtime: bool = False


def judge_transactions(
    transactions: Transactions,
    workload: Workload,
    expected: Expected,
    assumptions: Assumptions | None = None,
    source: str = "history",
    *,
    realtime: bool = True,
) -> Findings:
    """Infer dependencies, look for anomalies, and compare with what is expected.

    Args:
        transactions: of the history.
        workload: of the history.
        expected: what it should satisfy.
        assumptions: of registers.
        source: names the history in errors.
        realtime: whether the order of rows is that of real time. If not, only that of each process counts.

    Raises:
        UnknownNameError: a model or an anomaly has an unknown name.
        UsageError: an assumption needs real time, and the history has none.
        HistoryFormatError: the history is not of that workload.
    """
    assumptions = assumptions or Assumptions()
    refuse_without_realtime(assumptions, source, realtime=realtime)
    inference = infer(transactions, workload, assumptions, source)
    return judge_inference(inference, expected, realtime=realtime)


def refuse_without_realtime(assumptions: Assumptions, source: str, *, realtime: bool) -> None:
    """Refuse an assumption that a history does not allow.

    Raises:
        UsageError: it needs real time, and the history has none.
    """
    if assumptions.linearizable_keys and not realtime:
        raise UsageError(
            f"{source}: linearizable-keys needs real time, which this history does not have. Leave it out."
        )


def judge_inference(inference: Inference, expected: Expected, *, realtime: bool = True) -> Findings:
    """Look for anomalies among what was inferred, and compare with what is expected.

    Args:
        inference: of a history.
        expected: what it should satisfy.
        realtime: whether the order of rows is that of real time.

    Raises:
        UnknownNameError: a model or an anomaly has an unknown name.
    """
    proscribed, transactions = expected.proscribed, inference.transactions
    tag, lacks_realtime = tag_of(proscribed, realtime=realtime)
    edges, nodes = list(inference.edges), inference.nodes
    if tag == 2:
        barriers, nodes = realtime_edges(transactions, inference.committed, nodes)
        edges.append(barriers)
    elif tag == 1:
        edges.append(process_edges(transactions, inference.committed))
    observed = tuple(edges)
    keys = inference.keys() if uses_derived(proscribed) else no_keys()
    saturated = saturate(nodes, observed, keys, tag)
    if saturated.derived.count:
        edges.append(saturated.edges)
    found = cycles_of(len(transactions), nodes, edges, tag)
    closed = frozenset(saturated.closed)
    inference = replace(inference, open_keys=tuple(key for key in inference.open_keys if key not in closed))
    findings = findings_of(inference, found, proscribed, Derivation(observed, nodes, saturated))
    return replace(findings, lacks_realtime=lacks_realtime)


def with_further(findings: Findings, anomalies: Sequence[str], expected: Expected) -> Findings:
    """Findings with anomalies that were found in another way."""
    judged = findings_of(findings.inference, findings.cycles, expected.proscribed, findings.derivation, anomalies)
    return replace(judged, lacks_realtime=findings.lacks_realtime)


def infer(
    transactions: Transactions,
    workload: Workload,
    assumptions: Assumptions,
    source: str,
    proven: Bools | None = None,
) -> Inference:
    """The dependencies of a history of lists or registers.

    Args:
        transactions: of the history, or what they did to some of its keys.
        workload: of the history.
        assumptions: of registers.
        source: names the history in errors.
        proven: those of unknown outcome that committed, as reads of other keys show.
    """
    if workload == "list-append":
        return infer_lists(transactions, source, proven)
    return infer_registers(transactions, assumptions, source, proven)


def uses_derived(proscribed: frozenset[str]) -> bool:
    """Whether an anomaly that is looked for may have edges that only saturation finds."""
    return any(BY_NAME[each].level for each in proscribed if each in BY_NAME)


def tag_of(proscribed: frozenset[str], *, realtime: bool) -> tuple[int, bool]:
    """Which order a history is judged by.

    Args:
        proscribed: anomalies that it should not have.
        realtime: whether the order of its rows is that of real time.

    Returns:
        2 for real time, which includes the order of processes, 1 for that alone, 0 for none; and whether real time
        matters, and the history has none.
    """
    asked = max((BY_NAME[each].tag for each in proscribed if each in BY_NAME), default=0)
    tag = asked if realtime else min(asked, 1)
    return tag, asked > tag


def findings_of(
    inference: Inference,
    cycles: Cycles,
    proscribed: frozenset[str],
    derivation: Derived,
    further: Sequence[str] = (),
) -> Findings:
    """What a history shows, of what was inferred and the cycles that were found.

    Args:
        inference: of the history.
        cycles: of its graph.
        proscribed: anomalies that it should not have.
        derivation: what derived edges follow from.
        further: anomalies that were found in another way.
    """
    shown = list(dict.fromkeys([*inference.counts, *cycles.named, *further]))
    impossible = models.impossible(shown)
    shown += [f"{model}{models.EXISTS}" for model in cycles.ruled_out if model not in impossible]
    bad = sorted(each for each in shown if each in proscribed)
    empty = not cycles.edges
    weakest, stronger = models.boundary(shown) if bad or empty else ([], [])
    return Findings(
        valid="false" if bad else "unknown" if empty else "true",
        anomaly_types=tuple([*bad, models.EMPTY_GRAPH] if empty else bad),
        tolerated=tuple(sorted(each for each in shown if each not in proscribed)),
        ruled_out=tuple(weakest),
        also_ruled_out=tuple(stronger),
        inference=inference,
        cycles=cycles,
        derivation=derivation,
    )


__all__: Sequence[str] = ("Assumptions", "Expected", "Findings", "infer", "judge_transactions")
