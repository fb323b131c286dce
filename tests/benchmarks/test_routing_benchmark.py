"""The benchmark of routing runs, and finds the queues that its bindings lead to."""

from __future__ import annotations

import json

import pytest

from benchmarks.routing import LOADS, main


def test_it_measures_every_load_at_every_size(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--sizes", "2,12", "--messages", "3", "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert [(each["load"], each["bindings"]) for each in figures] == [
        (load.name, size) for load in LOADS for size in (2, 12)
    ]
    assert [each["queues"] for each in figures if each["load"] == "fanout"] == [2, 12]
