"""Witnesses of isolation anomalies: what a checker fills in, and what the report lists and draws.

A checker puts its witnesses into `Verdict.evidence` by `evidence_of`. They stand there as findings, which the report
lists with their sentences and ops (`splitbrain.results.findings`); those with edges are drawn as graphs
(`splitbrain.results.report.witnesses`). To fill one:

    t1 = transaction_of(history, "T1", invoked, completed)     # rows of the history; completed None if it never ended
    t2 = transaction_of(history, "T2", ...)
    edges = (
        Edge("T1", "T2", "rw", key="x", reason="T1 read x as [1 2], and T2 appended 3 to x after that"),
        Edge("T2", "T1", "wr", key="y", reason="T1 read y as [7], which T2 appended"),
    )
    Witness("G-single", sentence="...", transactions=(t1, t2), edges=edges)

Edges of a cycle are in its order: each starts where the one before ends, and the last ends where the first starts.
An anomaly that is no cycle (a read of an aborted write, say) has its transactions, and edges only where they explain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec
import pyarrow as pa

from splitbrain.results.arrow import from_table
from splitbrain.results.columns import array
from splitbrain.results.history import Op
from splitbrain.results.values import canonical_json

EdgeKind: TypeAlias = Literal["ww", "wr", "rw", "process", "realtime"]
"""Why one transaction comes before another: it wrote the version before, wrote what the other read, read the version
before what the other wrote, was before it in the same process, or ended before the other began."""

Ended: TypeAlias = Literal["ok", "info", "fail", "open"]

FINDINGS: Final = "findings"


class Transaction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A transaction of a witness.

    Attributes:
        name: what sentences and edges call it: "T1".
        index: of its invocation in the history.
        completed_index: of its completion, None if it has none.
        process: who made it.
        node: whom it contacted, None if that is not known.
        ended: how: ok, info, fail, or open without a completion.
        ops: its micro-operations in words: "append x 3", "r y [1 2]", "r z nil", "r z ?" if the answer is not known.
        invoked_ns, completed_ns: when, since the test began; None if that is not known.
    """

    name: str
    index: int
    completed_index: int | None = None
    process: int
    node: str | None = None
    ended: Ended
    ops: tuple[str, ...]
    invoked_ns: int | None = None
    completed_ns: int | None = None


class Edge(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why one transaction must come before another.

    Attributes:
        source, target: names of transactions; the source comes first.
        kind: what relates them.
        key: what both touched, None for process and realtime.
        reason: a sentence without its full stop that names both: "T1 read x as [1 2], and T2 appended 3 after that".
    """

    source: str
    target: str
    kind: EdgeKind
    key: str | None = None
    reason: str = ""


class Witness(msgspec.Struct, frozen=True, omit_defaults=True):
    """One anomaly, in transactions that a person can look up.

    Attributes:
        anomaly: its name: "G-single", "G1a", "lost-update".
        sentence: what happened, whole.
        transactions: that take part, in the order of the cycle.
        edges: why one comes before the other; of a cycle in its order.
        premises: further edges, on which reasons of `edges` rest.
    """

    anomaly: str
    sentence: str
    transactions: tuple[Transaction, ...]
    edges: tuple[Edge, ...] = ()
    premises: tuple[Edge, ...] = ()


def evidence_of(witnesses: Iterable[Witness]) -> dict[str, Any]:
    """The evidence of a verdict: the witnesses as its findings, in lists and objects as JSON has them."""
    return {FINDINGS: msgspec.json.decode(msgspec.json.encode(list(witnesses)))}


def witnesses_of(evidence: Any) -> list[Witness]:
    """The witnesses among the findings of a piece of evidence, also those under `anomalies` by their names.

    Findings of another form are left out.
    """
    if not isinstance(evidence, Mapping):
        return []
    known = cast("Mapping[str, Any]", evidence)
    by_name: Any = known.get("anomalies")
    named = list(cast("Mapping[str, Any]", by_name).values()) if isinstance(by_name, Mapping) else []
    listed = [
        each for part in (known.get(FINDINGS), *named) if isinstance(part, list) for each in cast("list[Any]", part)
    ]
    found: list[Witness] = []
    for each in listed:
        try:
            witness = msgspec.convert(_with_edges(each), Witness)
        except msgspec.ValidationError:
            continue
        names = {transaction.name for transaction in witness.transactions}
        if all(edge.source in names and edge.target in names for edge in (*witness.edges, *witness.premises)):
            found.append(witness)
    return found


def _with_edges(finding: Any) -> Any:
    """A finding as a witness, where its edges are `steps` with `from`, `to` and `sentence`, or it has only `mops`."""
    if not isinstance(finding, dict):
        return None
    known = cast("dict[str, Any]", finding)
    if "steps" not in known and "mops" not in known:
        return known
    try:
        transactions = [
            {
                "name": each["name"],
                "index": each["invoked"],
                "completed_index": each.get("completed"),
                "process": each["process"],
                "ended": each["type"],
                "ops": [_mop_words(mop, each["type"] == "ok") for mop in each["ops"]],
            }
            for each in known["transactions"]
        ]
        edges = [
            {
                "source": each["from"],
                "target": each["to"],
                "kind": str(each["kind"]).removesuffix("p"),
                "key": each.get("key"),
                "reason": each["sentence"],
            }
            for each in known.get("steps", ())
        ]
    except (KeyError, TypeError, AttributeError):
        return None
    return {**known, "transactions": transactions, "edges": edges}


def located(witness: Witness, history: pa.Table) -> Witness:
    """A witness with the nodes and times of its transactions as a history has them, whose row is each op's index."""

    def filled(transaction: Transaction) -> Transaction:
        completed = transaction.completed_index
        if max(transaction.index, completed or 0) >= history.num_rows:
            return transaction
        times = history.column("time")
        invoked_ns = times[transaction.index].as_py()
        return msgspec.structs.replace(
            transaction,
            node=history.column("node")[transaction.index].as_py(),
            invoked_ns=invoked_ns if invoked_ns >= 0 else None,
            completed_ns=None if completed is None or invoked_ns < 0 else times[completed].as_py(),
        )

    return msgspec.structs.replace(witness, transactions=tuple(map(filled, witness.transactions)))


def transaction_of(history: pa.Table, name: str, invoked: int, completed: int | None) -> Transaction:
    """A transaction of a history, described.

    Args:
        history: with the columns of `splitbrain.results.arrow.HISTORY_SCHEMA`.
        name: what the witness calls it.
        invoked: the row of its invocation.
        completed: the row of its completion, None if it has none.
    """
    rows = [invoked] if completed is None else [invoked, completed]
    invoke, *completions = from_table(history.take(array(rows)))
    complete = completions[0] if completions else None
    committed = complete is not None and complete.type == "ok"
    return Transaction(
        name=name,
        index=invoke.index,
        completed_index=None if complete is None else complete.index,
        process=invoke.process,
        node=invoke.node,
        ended="open" if complete is None else cast(Ended, complete.type),
        ops=_words(complete if committed and complete is not None else invoke, known=committed),
        invoked_ns=_time(invoke),
        completed_ns=None if complete is None else _time(complete),
    )


def micro_operations(history: pa.Table, row: int, *, known: bool) -> str | None:
    """The micro-operations of a row in words, reads with what they saw if that is `known`; None if it has none."""
    (op,) = from_table(history.take(array([row])))
    return ", ".join(_words(op, known=known)) if op.mops is not None else None


def _time(op: Op) -> int | None:
    return op.time if op.time >= 0 else None


def _words(op: Op, *, known: bool) -> tuple[str, ...]:
    """Micro-operations in words; reads are `known` if the transaction committed for certain."""
    if op.mops is not None:
        mops: list[Any] = [[mop.f, mop.key, mop.value if mop.values is None else list(mop.values)] for mop in op.mops]
    else:
        mops = cast("list[Any]", op.value) if isinstance(op.value, list) else []
    return tuple(_mop_words(mop, known) for mop in mops)


def _mop_words(mop: Any, known: bool) -> str:
    if not isinstance(mop, Sequence) or isinstance(mop, str) or len(cast("Sequence[Any]", mop)) not in (2, 3):
        return canonical_json(mop)
    f, key, value = [*cast("Sequence[Any]", mop), None][:3]
    if f == "delete":
        return f"delete {_text(key)}"
    return f"{_text(f)} {_text(key)} {'?' if f in ('r', 'rp') and not known else _text(value)}"


def _text(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "[" + " ".join(map(_text, cast("list[Any]", value))) + "]"
    return canonical_json(value)
