"""Offsets of hosts' clocks are shown and taken off the times in logs; a run that tells none is read as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from splitbrain.results.clocks import clocks_of
from splitbrain.results.faults import RunEvents
from splitbrain.results.history import HARNESS, Op
from splitbrain.results.report import write_report
from splitbrain.results.report.hostclocks import ahead_ns, words_of
from splitbrain.results.report.nodelogs import node_logs
from splitbrain.results.report.run_view import load
from tests.report.sample import sample_run


def events(*values: Any) -> RunEvents:
    ops = tuple(Op(process=HARNESS, type="info", f="clocks", value=value) for value in values)
    return RunEvents(phases=(), fault_ops=(), windows=(), harness=ops, end_ns=0)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            {"walls_s": {"n1": 0.0003, "n2": -0.0001}, "errors_s": {"n1": 0.0001}},
            "within 0.3 ms of the controller's, known within 0.1 ms",
        ),
        ({"walls_s": {"n1": -75.0}}, "within 75 s of the controller's"),
        ({"walls_s": {"n1": 0.0, "n2": 0.0}, "errors_s": {"n1": 0.0}}, "one clock for all"),
        ({"offsets_s": {"n1": 86400.0}}, ""),
        (None, ""),
    ],
)
def test_the_worst_offset_is_told_in_words_and_where_there_is_none_nothing_is(value: Any, words: str) -> None:
    assert words_of(clocks_of(events(value))) == words


def test_what_nobody_measured_is_not_taken_off() -> None:
    clocks = clocks_of(events({"walls_s": {"n1": 1.0}}, {"walls_s": {"n1": -0.5}}))
    assert [ahead_ns(clocks, node) for node in ("n1", "n2", "n3")] == [-500_000_000, 0, 0]


@pytest.mark.slow
def test_what_a_host_was_ahead_is_taken_off_the_times_in_its_nodes_logs(tmp_path: Path) -> None:
    plain = {log.node: log for log in node_logs(load(sample_run(tmp_path / "plain").path), [])}
    run = sample_run(tmp_path / "ahead", walls_s={"n1": 0.25})
    ahead = {log.node: log for log in node_logs(load(run.path), [])}
    assert [line.time_s for line in ahead["n1"].lines] == [(line.time_s or 0) - 0.25 for line in plain["n1"].lines]
    assert ahead["n2"] == plain["n2"]
    page = write_report(run.path).read_text()
    assert "within 250 ms of the controller" in page
