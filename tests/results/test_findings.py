"""When the evidence of a violation was complete, whichever form the checker gave it."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.results.arrow import to_table
from splitbrain.results.findings import all_op_indexes, evident_ns
from splitbrain.results.history import Op

HISTORY = to_table([Op(index=i, time=i * 1000, type="info", process=-2, f="phase") for i in range(10)])


def test_the_ops_of_all_findings_are_named() -> None:
    listed = [{"anomaly": "a", "sentence": "x", "ops": [1]}, {"anomaly": "b", "sentence": "y", "ops": [2, 6]}]
    assert all_op_indexes({"ops": [1], "findings": listed}) == [1, 2, 6]


@pytest.mark.parametrize(
    ("evidence", "end_ns"),
    [
        ({"ops": [2, 7, 5]}, 7000),
        ({"witness": [{"index": 3}], "ops": [9]}, 3000),
        ({"failing_op": {"index": 4}, "window": [{"index": 1}]}, 4000),
        # The first finding that is complete: later ones add nothing to the violation.
        (
            {"findings": [{"sentence": "late", "ops": [{"index": 8}]}, {"sentence": "early", "ops": [{"index": 4}]}]},
            4000,
        ),
        ({"ops": [9], "findings": [{"sentence": "indexes", "ops": [2, 6]}, {"sentence": "later", "ops": [9]}]}, 6000),
        ({"findings": [{"sentence": "a report", "rows": [{"node": "n1", "time_s": 6e-6}]}]}, 6000),
        ({"findings": [{"sentence": "both", "rows": [{"node": "n1", "time_s": 6e-6}], "op": {"index": 9}}]}, 9000),
        ({"findings": [{"sentence": "no time"}]}, None),
        # Of nodes that ended the first one is a violation already.
        ({"ended": [{"op": 7, "node": "n2", "time_s": 7e-6}, {"op": 9, "node": "n1", "time_s": 9e-6}]}, 7000),
        ({}, None),
    ],
)
def test_evidence_is_complete_with_its_last_op_or_report(evidence: dict[str, Any], end_ns: int | None) -> None:
    assert evident_ns(HISTORY, evidence) == end_ns
