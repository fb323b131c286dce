"""What is not there, or not said, is no proof: neither of a fault nor of its absence."""

from __future__ import annotations

import pytest

from splitbrain.checkers.engine import judge
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.arrow import TELEMETRY_SCHEMA
from splitbrain.results.reasons import Code
from splitbrain.results.telemetry import CONSENSUS_CHECKERS
from tests.checkers.support import Script
from tests.checkers.telemetry import row, told


def history() -> Script:
    script = Script()
    script.event(0, "invoke", "read", time_s=0.0)
    script.event(0, "ok", "read", time_s=60.0)
    return script


@pytest.mark.parametrize("checker", CONSENSUS_CHECKERS)
@pytest.mark.parametrize("telemetry", [None, TELEMETRY_SCHEMA.empty_table()])
def test_no_checker_of_telemetry_is_content_where_there_is_none(checker: str, telemetry: object) -> None:
    (verdict,) = judge(history().table(), [CheckerSpec(checker)], telemetry)  # pyright: ignore[reportArgumentType]
    assert (verdict.valid, [reason.code for reason in verdict.inconclusive]) == ("unknown", [Code.NO_TELEMETRY])


@pytest.mark.parametrize("checker", CONSENSUS_CHECKERS)
@pytest.mark.parametrize(
    "event", ["acked", "busy", "checkpoint", "commit", "link", "members", "read", "released", "timeout", "version"]
)
def test_a_row_that_does_not_say_what_was_counted_convicts_no_one(checker: str, event: str) -> None:
    leads = row(1, "n1", "role", term=2, role="leader", members="n1 n2", last_index=0, voters=["n1", "n2"])
    says_nothing = row(2, "n1", event, term=2, role="leader", leader="n1", commit_index=5, counted_index=5)
    commits = row(3, "n1", "commit", term=2, role="leader", commit_index=5, counted_index=5, counted="n1=5 n2=5")
    others = [row(at, "n2", "commit", members="n1 n2") for at in (1, 50)]
    rows = [*others[:1], leads, says_nothing, commits, row(50, "n1", "commit", role="leader", term=2), *others[1:]]
    (verdict,) = judge(history().table(), [CheckerSpec(checker)], told(*rows))
    assert verdict.valid != "false"
