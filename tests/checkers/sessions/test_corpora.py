"""Published histories: where a register is linearizable, no session guarantee is broken, with real time as evidence.

They write few values again and again, so that most reads cannot be attributed to one write: most verdicts are unknown.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from splitbrain.checkers.sessions import Sessions
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.formats import read_table
from tests.checkers.linearizable.published import Published, published

CORPORA = os.environ.get("SPLITBRAIN_CORPORA")
needs_corpora = pytest.mark.skipif(CORPORA is None, reason="SPLITBRAIN_CORPORA is not set")


def judged(each: Published) -> Verdict:
    """The verdict, with the order of writes in real time as evidence."""
    table = read_table(Path(CORPORA or "") / each.source / each.file)
    return Sessions().check(table, {"linearizable_writes": True})


@needs_corpora
@pytest.mark.parametrize("source", ["porcupine-etcd", "knossos"])
def test_no_linearizable_register_breaks_a_session_guarantee(source: str) -> None:
    found = {each.file: judged(each).valid for each in published(Path(CORPORA or ""), source) if each.expected}
    assert len(found) > 10
    assert [file for file, valid in found.items() if valid == "false"] == []


@needs_corpora
def test_reads_of_writes_that_failed_or_never_were_are_found_although_values_repeat() -> None:
    bad = [each for source in ("knossos", "elle-cli") for each in published(Path(CORPORA or ""), source)]
    verdicts = [judged(each) for each in bad if not each.expected]
    anomalies = {anomaly for verdict in verdicts for anomaly in verdict.anomalies}
    assert anomalies == {"thin-air-read", "aborted-read"}
    assert "unknown" in {verdict.valid for verdict in verdicts}, "most reads cannot be attributed to one write"
