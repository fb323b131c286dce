"""Logs of nodes are put on the time of the run, whatever their stamps look like, and what is cut off is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain.harness.simulation.clock import EPOCH_NS
from splitbrain.results.report.nodelogs import LINE_MAX, SIMULATED_EPOCH_NS, Line, NodeLog, excerpt, node_logs, stamp
from splitbrain.results.report.run_view import load
from tests.report.sample import sample_run

BEGAN_NS = 1_795_272_006_166_143_139
"""2026-11-21 14:40:06.166143139 UTC."""


@pytest.mark.parametrize(
    ("line", "time_s"),
    [
        ("14:40:05.255 n1 serves 10.0.0.1:7000", -0.911143139),
        ("14:40:10 n1 serves", 3.833856861),
        ('{"level":"warn","ts":"2026-11-21T14:40:07.166143Z","caller":"embed/config.go:689"}', 0.999999861),
        ("2026-11-21 15:40:07.166143+01:00 [info] <0.208.0> Feature flags", 0.999999861),
        ("2026-11-21 13:10:07,166143-0130 [info]", 0.999999861),
        ("2026-11-21 14:40:07 no zone is UTC", 0.833856861),
        ("  at some.Class(File.java:12)", None),
        ("2026-99-21T14:40:07Z", None),
        ("", None),
    ],
)
def test_a_stamp_is_read_in_every_form_that_nodes_write(line: str, time_s: float | None) -> None:
    found = stamp(line, BEGAN_NS)
    assert (found if found is None else found / 1e9) == time_s


def test_a_time_of_day_after_midnight_belongs_to_the_next_day() -> None:
    before_midnight_ns = 1_795_305_599_000_000_000
    assert stamp("00:00:01.000 n1 up", before_midnight_ns) == 2_000_000_000
    assert stamp("23:59:58.000 n1 up", before_midnight_ns) == -1_000_000_000


def test_the_seconds_of_a_simulated_node_count_from_where_simulated_worlds_begin() -> None:
    assert SIMULATED_EPOCH_NS == EPOCH_NS
    assert stamp("     7.813154 starts in term 1", EPOCH_NS + 1_278_395_804) == 6_534_758_196


def test_lines_without_a_stamp_stand_at_the_time_of_the_line_before(tmp_path: Path) -> None:
    logs = {log.file: log for log in node_logs(load(sample_run(tmp_path).path), [])}
    assert list(logs) == ["nodes/n1/log", "nodes/n2/etcd.log", "nodes/n3/node.log"]
    assert logs["nodes/n1/log"].lines[-1] == Line(29.5, "  a line of a stack trace")
    assert logs["nodes/n2/etcd.log"].lines[3].time_s == 1.5
    assert {line.time_s for line in logs["nodes/n3/node.log"].lines} == {None}


def test_binary_and_endless_lines_are_made_visible_and_cut(tmp_path: Path) -> None:
    (log,) = [log for log in node_logs(load(sample_run(tmp_path).path), []) if log.node == "n3"]
    assert log.lines[1].text == r"\xff\xfe\x00\x1b[2Jbinary"
    assert log.lines[2].text == "y" * LINE_MAX + "… (2,000,000 bytes)"


@pytest.mark.slow
def test_of_too_many_lines_those_near_to_what_matters_stay_and_the_rest_is_counted(tmp_path: Path) -> None:
    view = load(sample_run(tmp_path).path)
    log = next(log for log in node_logs(view, [10.0, 20.0], most=18) if log.node == "n1")
    assert [line.time_s for line in log.lines] == [9.5, 10.0, 10.5, 19.5, 20.0, 20.5]
    assert log.gaps == [19, 0, 0, 17, 0, 0]
    assert (log.total, log.left_out) == (61, 55)


def test_data_of_the_system_is_not_taken_for_a_log_nor_is_a_link_out_of_the_run(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    (run.node_dir("n1") / "data").mkdir()
    (run.node_dir("n1") / "data" / "log").write_text("SBLG")
    (run.node_dir("n1") / "other.log").symlink_to("/etc/passwd")
    assert [log.file for log in node_logs(load(run.path), []) if log.node == "n1"] == ["nodes/n1/log"]


def test_an_excerpt_has_the_last_words_of_every_node_before_it() -> None:
    talks = NodeLog("n1", "nodes/n1/log", [Line(float(i), f"a{i}") for i in range(10)], [0] * 10, 10, 0)
    silent = NodeLog("n2", "nodes/n2/log", [Line(None, "?"), Line(0.5, "b")], [0] * 2, 2, 0)
    lines, more = excerpt([talks, silent], 4.5, 6.5)
    assert [(node, line.text) for node, line in lines] == [
        ("n2", "b"),
        ("n1", "a3"),
        ("n1", "a4"),
        ("n1", "a5"),
        ("n1", "a6"),
    ]
    assert more == 0
