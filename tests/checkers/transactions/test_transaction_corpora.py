"""Published histories of transactions, against the verdicts that were published with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.checkers.transactions.corpora import DIFFERENCES, Case, cases, judge

FOLDER = os.environ.get("SPLITBRAIN_CORPORA")
CASES = [] if FOLDER is None else list(cases(Path(FOLDER)))
SHORT = [case for case in CASES if case.name.startswith(("golden", "elle-cli"))]
LONG = [case for case in CASES if case not in SHORT]

pytestmark = pytest.mark.skipif(FOLDER is None, reason="SPLITBRAIN_CORPORA is not set: no published histories here")


@pytest.mark.parametrize("case", SHORT, ids=[case.name for case in SHORT])
def test_a_case_of_elles_tests_comes_out_as_published(case: Case) -> None:
    row = judge(case)
    assert bool(row.problems) == (case.name in DIFFERENCES), row.problems


@pytest.mark.slow
@pytest.mark.parametrize("case", LONG, ids=[case.name for case in LONG])
def test_a_simulated_or_recorded_history_comes_out_as_published(case: Case) -> None:
    assert not judge(case).problems


def test_every_difference_is_explained() -> None:
    text = (Path(__file__).parents[3] / "docs" / "transactions.md").read_text()
    assert all(reason in text for reason in DIFFERENCES.values())
