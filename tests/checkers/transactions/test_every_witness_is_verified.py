"""Whatever a test is about: a witness that does not prove its anomaly makes it fail."""

from __future__ import annotations

from subprocess import CompletedProcess
from typing import Any

import pyarrow as pa
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.spark.verdict_rows import verdict_rows
from splitbrain.checkers.transactions import report
from splitbrain.checkers.verdict import Verdict
from tests import conftest, witnesses
from tests.checkers.transactions.test_isolation_checkers import SKEW, judge
from tests.cli.support import analyzed, answer


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """A verdict of which no witness could be verified."""

    def problems_of(witness: dict[str, Any], _: pa.Table) -> list[str]:
        return [f"{witness['anomaly']}: it is made up"]

    monkeypatch.setattr(report, "problems_of", problems_of)
    verdict = judge(SKEW, consistency_models=["serializable"])
    assert verdict.valid == "unknown"
    return verdict


def test_a_witness_that_proves_nothing_is_noted_where_it_is_made(found: Verdict) -> None:
    assert set(witnesses.noted()) == {"G2-item: it is made up"}


def test_it_is_noted_in_a_verdict_of_another_process(found: Verdict) -> None:
    text: Any = verdict_rows("run", [(0, found)]).column("verdict")[0].as_py()
    witnesses.noted()
    engine.decode(text)
    assert witnesses.noted() == ["G2-item: it is made up"]


def test_it_is_noted_in_what_a_command_printed(found: Verdict) -> None:
    text = f'{{"kind": "run", "verdicts": [{engine.encode(found).decode()}]}}'
    witnesses.noted()
    answer(CompletedProcess([], 0, text, ""))
    assert len(witnesses.noted()) == 1
    analyzed(f'{text}\n{{"kind": "sums", "runs": 1}}')
    assert len(witnesses.noted()) == 1


def test_it_is_noted_in_what_a_command_printed_for_a_reader(found: Verdict) -> None:
    witnesses.noted()
    witnesses.note_sentences("\n".join(["UNKNOWN", *(f"Inconclusive: {reason}" for reason in found.inconclusive)]))
    assert witnesses.noted() == ["G2-item: it is made up."]


def test_a_test_that_passes_otherwise_fails(request: pytest.FixtureRequest) -> None:
    hook: Any = conftest.pytest_runtest_call(request.node)
    next(hook)
    witnesses.note({"unverified": ["G0: it is made up"]})
    with pytest.raises(pytest.fail.Exception, match="does not prove what it says: G0"):
        hook.send(None)


def test_a_test_whose_witnesses_hold_passes(request: pytest.FixtureRequest) -> None:
    hook: Any = conftest.pytest_runtest_call(request.node)
    next(hook)
    judge(SKEW, consistency_models=["serializable"])
    with pytest.raises(StopIteration):
        hook.send(None)
