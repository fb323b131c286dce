"""Witnesses of anomalies: described from a history, carried by a verdict's evidence, read back from JSON."""

from __future__ import annotations

import json

from splitbrain.results.arrow import to_table
from splitbrain.results.findings import findings_of
from splitbrain.results.history import Mop, Op
from splitbrain.results.witness import Edge, Transaction, Witness, evidence_of, transaction_of, witnesses_of

ASKED = (Mop("append", "x", 3), Mop("r", "y"))
ANSWERED = (Mop("append", "x", 3), Mop("r", "y", values=(1, 2)))
HISTORY = to_table(
    [
        Op(index=0, time=5, process=4, type="invoke", f="txn", mops=ASKED, node="n1"),
        Op(index=1, time=6, process=5, type="invoke", f="txn", value=[["w", "k", "v"], ["r", 8, None]]),
        Op(index=2, time=9, process=4, type="ok", f="txn", mops=ANSWERED, node="n1"),
        Op(index=3, time=11, process=5, type="info", f="txn", value=None),
    ]
)
WITNESS = Witness(
    "G-single",
    "T1 saw only a part of T2.",
    (transaction_of(HISTORY, "T1", 0, 2), transaction_of(HISTORY, "T2", 1, 3)),
    (Edge("T1", "T2", "rw", "x", "T1 read x before T2 wrote it"), Edge("T2", "T1", "process", reason="both of 1")),
)


def test_a_committed_transaction_is_described_by_what_it_read() -> None:
    assert transaction_of(HISTORY, "T1", 0, 2) == Transaction(
        name="T1",
        index=0,
        completed_index=2,
        process=4,
        node="n1",
        ended="ok",
        ops=("append x 3", "r y [1 2]"),
        invoked_ns=5,
        completed_ns=9,
    )


def test_what_a_transaction_read_that_may_have_committed_is_not_known() -> None:
    crashed = transaction_of(HISTORY, "T2", 1, 3)
    assert crashed.ended == "info"
    assert crashed.ops == ("w k v", "r 8 ?")
    assert transaction_of(HISTORY, "T2", 1, None).ended == "open"


def test_witnesses_come_back_from_a_stored_verdict() -> None:
    evidence = json.loads(json.dumps(evidence_of([WITNESS])))
    assert witnesses_of(evidence) == [WITNESS]


def test_the_report_lists_a_witness_as_a_finding_with_its_ops() -> None:
    [finding] = findings_of(evidence_of([WITNESS]))
    assert (finding.rule, finding.sentence, finding.ops) == ("G-single", WITNESS.sentence, [0, 1])


def test_findings_of_another_form_and_edges_to_nowhere_are_no_witness() -> None:
    dangling = evidence_of([Witness("G0", "?", WITNESS.transactions[:1], WITNESS.edges)])
    assert witnesses_of(dangling) == []
    assert witnesses_of({"findings": [{"sentence": "lost", "ops": [1]}]}) == []
    assert witnesses_of({"findings": "none"}) == witnesses_of(None) == []
