"""The evidence of a fault in words."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.results.report.fault_rows import evidence_words

RUNNING = {"life": 1, "process": {"pid": 9, "stat": "S"}, "state": "running"}
KILLED = {"life": 1, "process": {"exit": "SIGKILL"}, "state": "stopped"}


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (
            {"n1": {"after": KILLED, "before": RUNNING}},
            "n1 process pid 9 → none, process stat S → none, state running → stopped, process exit none → SIGKILL",
        ),
        ({"n1": {"after": RUNNING, "before": RUNNING}}, "n1 as it was"),
        ({"n1": {"after": "on", "before": "off"}}, "n1 off → on"),
        ({"before": 1, "after": 2}, "before 1; after 2"),
        ({"bit": True, "dropped": 3, "links": [1, 2]}, "effect seen; dropped 3"),
        (None, ""),
    ],
)
def test_what_changed_is_told_and_nothing_that_stayed(evidence: Any, words: str) -> None:
    assert evidence_words(evidence) == words
