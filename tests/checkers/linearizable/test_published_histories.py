"""Published histories with known verdicts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.checkers.linearizable.published import SOURCES, published, rows

FOLDER = os.environ.get("SPLITBRAIN_CORPORA")
needs_corpora = pytest.mark.skipif(FOLDER is None, reason="SPLITBRAIN_CORPORA is not set: no published histories here")


@pytest.mark.slow
@needs_corpora
@pytest.mark.parametrize("source", SOURCES)
def test_published_histories_get_the_verdicts_of_their_manifests(source: str) -> None:
    assert FOLDER is not None
    found = list(rows(Path(FOLDER), [source]))
    assert found
    assert [row for right, row in found if not right] == []


@pytest.mark.slow
@needs_corpora
def test_witnesses_of_etcd_logs_are_short() -> None:
    assert FOLDER is not None
    for each in published(Path(FOLDER), "porcupine-etcd"):
        if not each.expected:
            _, verdict = each.judged(Path(FOLDER))
            witness = verdict.evidence["witness"]
            assert witness["minimal"], each.file
            assert len(witness["ops"]) <= 6, each.file
