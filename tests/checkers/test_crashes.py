"""A node that ends by itself is a violation; one that halts over its disk, or is killed, is none."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.engine import judge, judged_outcome
from splitbrain.checkers.verdict import CheckerSpec, Outcome, Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import HARNESS, Op


def judged(*notes: tuple[str, dict[str, Any]], **options: Any) -> Verdict:
    ops = [
        Op(index=i, time=(i + 1) * 10**9, process=HARNESS, type="info", f=f, value=value)
        for i, (f, value) in enumerate(notes)
    ]
    return judge(to_table(ops), [CheckerSpec("crashes", options)])[0]


def test_every_crash_is_told_and_the_first_one_in_words() -> None:
    verdict = judged(
        ("phase", {"phase": "faults"}),
        ("crash", {"node": "n2", "exit": "InvariantError: n1 leads term 2, and so does n3."}),
        ("crash", {"node": "n3"}),
    )
    assert (verdict.valid, verdict.anomalies, verdict.figures) == ("false", ("node-crash",), {"crashes": 2})
    assert verdict.sentence == (
        "Node n2 ended by itself before 2.000 s: InvariantError: n1 leads term 2, and so does n3. (1 more)."
    )
    assert [crash["op"] for crash in verdict.evidence["ended"]] == [1, 2]
    assert judged_outcome([verdict]) == (Outcome.VIOLATION, None)  # the checker itself did not break


def test_halts_over_a_bad_disk_and_other_notes_are_no_crashes() -> None:
    verdict = judged(("phase", {"phase": "faults"}), ("halt", {"node": "n1", "exit": "OSError: [Errno 5]"}))
    assert (verdict.valid, verdict.figures) == ("true", {"crashes": 0})


def test_options_are_refused() -> None:
    with pytest.raises(UsageError, match="takes no options, not bound_s"):
        judged(bound_s=3)
