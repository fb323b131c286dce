"""Published histories with known verdicts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from checkers.linearizable import check_ops
from results.formats import read_history

FOLDER = os.environ.get("SPLITBRAIN_CORPORA")
needs_corpora = pytest.mark.skipif(FOLDER is None, reason="SPLITBRAIN_CORPORA is not set: no published histories here")


def entries(source: str) -> list[dict[str, Any]]:
    if FOLDER is None:
        return []
    return json.loads((Path(FOLDER) / source / "MANIFEST.json").read_text(encoding="utf-8"))["files"]


def wrong(source: str, name: str, model: str, **options: Any) -> list[str]:
    """Files that were not judged as their manifest says; with a verdict of ours that came out the other way."""
    assert FOLDER is not None
    found: list[str] = []
    for entry in entries(source):
        verdict = check_ops(read_history(Path(FOLDER) / source / entry["file"], name), model, **options)
        if verdict.valid == "unknown" or (verdict.valid == "true") != entry["expected"]:
            found.append(f"{entry['file']}: {verdict.valid}, expected {entry['expected']}")
    return found


@needs_corpora
def test_porcupines_etcd_logs_get_the_verdicts_of_their_manifest() -> None:
    assert entries("porcupine-etcd")
    assert wrong("porcupine-etcd", "porcupine", "cas-register") == []


@needs_corpora
@pytest.mark.slow
def test_synthetic_cas_histories_get_the_verdicts_of_their_manifest() -> None:
    assert entries("synthetic-cas")
    assert wrong("synthetic-cas", "compact", "cas-register") == []


@needs_corpora
@pytest.mark.slow
def test_porcupines_key_value_logs_get_the_verdicts_of_their_manifest() -> None:
    assert entries("porcupine-kv")
    assert wrong("porcupine-kv", "porcupine", "kv") == []


@needs_corpora
def test_witnesses_of_etcd_logs_are_short() -> None:
    assert FOLDER is not None
    for entry in entries("porcupine-etcd"):
        if not entry["expected"]:
            ops = read_history(Path(FOLDER) / "porcupine-etcd" / entry["file"], "porcupine")
            witness = check_ops(ops, "cas-register").evidence["witness"]
            assert witness["minimal"], entry["file"]
            assert len(witness["ops"]) <= 6, entry["file"]
