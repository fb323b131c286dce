"""Figures of a run: what they count, that quorum-progress counts the same, and when a stored file is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from splitbrain.checkers.quorum.checker import QuorumProgress
from splitbrain.results import counts
from splitbrain.results.arrow import TELEMETRY_SCHEMA, to_table
from splitbrain.results.figures import FIGURES, figures, figures_of, stored_figures, write_figures
from splitbrain.results.history import HARNESS, NEMESIS, Op, OpType
from splitbrain.results.judgement import plain_verdict
from splitbrain.results.loaded import load
from splitbrain.results.manifest import write_manifest
from splitbrain.results.report.quorum import quorum_of
from tests.report.sample import NODES, sample_run

NO_TELEMETRY = TELEMETRY_SCHEMA.empty_table()


def history(*events: tuple[float, int, OpType, str, str | None, object]) -> list[Op]:
    """Ops from (seconds, process, type, node or function, error, value)."""
    return [
        Op(
            index=index,
            time=round(at * 1e9),
            process=process,
            type=how,
            f=where if process < 0 else "write",
            node=None if process < 0 else where,
            error=error,
            value=value,
        )
        for index, (at, process, how, where, error, value) in enumerate(events)
    ]


CUT = {"fault": "partition", "action": "start", "target": "n1 | n2 n3"}


def test_an_answer_is_ok_or_decided_and_recovery_counts_nodes_that_answered_after_the_fault() -> None:
    ops = history(
        (0.1, 0, "invoke", "n1", None, 1),
        (0.2, 0, "ok", "n1", None, 1),
        (1.0, NEMESIS, "invoke", "start-partition", None, CUT),
        (1.1, 1, "invoke", "n2", None, 1),  # before the fault is there: its answer is none after it
        (1.2, NEMESIS, "ok", "start-partition", None, CUT),
        (1.3, 1, "ok", "n2", None, 1),
        (2.1, 1, "invoke", "n2", None, 1),
        (2.5, 1, "fail", "n2", "mismatch", 1),  # the state said so: an answer
        (3.1, 2, "invoke", "n3", None, 1),
        (3.2, 2, "fail", "n3", "no leader", 1),  # a refusal
        (4.1, 2, "invoke", "n3", None, 1),
        (4.5, 2, "ok", "n3", None, 1),
        (5.1, 0, "invoke", "n1", None, 1),
        (6.0, HARNESS, "info", "recovered", None, {"seconds": 0.75}),
    )
    found = figures(to_table(ops), NO_TELEMETRY, (), ("n1", "n2", "n3"), {"seen": 2, "never": 0})
    [cut] = found.recoveries
    assert (cut.fault, cut.action, cut.target, cut.time_s) == ("partition", "start", "n1 | n2 n3", 1.0)
    assert (cut.first_s, cut.majority_s, cut.all_s) == (1.5, 3.5, None)
    assert (found.ops, found.ok, found.fail, found.info) == (6, 3, 2, 1)
    assert found.available_ops == round(4 / 6, 6)
    assert found.available_time == round(4 / 6, 6)  # in seconds 3 and 5 of 0 to 5 no op was completed with an answer
    assert found.healed_s == 0.75
    assert found.leader_changes is None
    assert found.marks == {"seen": 2, "never": 0}


def test_a_run_without_client_ops_has_figures() -> None:
    found = figures(to_table([]), NO_TELEMETRY, (), NODES, None)
    assert (found.ops, found.latency_ms, found.available_time, found.recoveries) == (0, {}, None, ())


def test_quorum_progress_counts_the_same(tmp_path: Path) -> None:
    run = sample_run(tmp_path, rate=50.0)
    verdict = plain_verdict(QuorumProgress().check(run.history(), run.telemetry(), {"nodes": list(NODES)}))
    without = figures(run.history(), run.telemetry(), (), NODES, None)
    assert figures(run.history(), run.telemetry(), [verdict], NODES, None) == without
    assert without.recoveries


def test_a_verdict_of_quorum_progress_has_the_word(tmp_path: Path) -> None:
    run = sample_run(tmp_path, rate=50.0)
    shares: dict[str, Any] = {"time": 0.25, "ops": 0.5, "silent": []}
    told: dict[str, Any] = {"availability": {"cluster": shares}, "recovery": []}
    verdicts: list[dict[str, Any]] = [{"checker": "quorum-progress", "figures": told}]
    found = figures(run.history(), run.telemetry(), verdicts, NODES, None)
    assert (found.available_time, found.available_ops, found.recoveries) == (0.25, 0.5, ())


def test_leader_changes_are_terms_with_a_leader_after_the_first(tmp_path: Path) -> None:
    run = sample_run(tmp_path, rate=50.0)  # n4 leads in term 4, n1 in 5, n3 in 6
    assert figures_of(run).leader_changes == 2


def test_what_is_stored_is_read_and_what_is_not_is_computed(tmp_path: Path) -> None:
    run = sample_run(tmp_path, rate=50.0)
    assert stored_figures(run.path) is None
    written = write_figures(load(run), run.read_verdicts())
    assert stored_figures(run.path) == written
    changed = msgspec.structs.replace(written, ops=12345)
    (run.path / FIGURES).write_bytes(msgspec.json.encode(changed))
    assert figures_of(run).ops == 12345


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}'])
def test_a_file_that_cannot_be_used_is_computed_again(tmp_path: Path, text: str) -> None:
    run = sample_run(tmp_path, rate=50.0)
    expected = write_figures(load(run), run.read_verdicts())
    (run.path / FIGURES).write_text(text)
    assert figures_of(run) == expected


@pytest.mark.parametrize("count", [1 << 63, -1, 10**400])
@pytest.mark.parametrize("name", ["ops", "leader_changes", "marks"])
def test_counts_that_no_run_has_cost_neither_the_run_nor_the_table_of_its_store(
    tmp_path: Path, name: str, count: int
) -> None:
    """`manifest` ended with an OverflowError for all runs."""
    run = sample_run(tmp_path, rate=50.0)
    expected = write_figures(load(run), run.read_verdicts())
    document = json.loads((run.path / FIGURES).read_bytes())
    document[name] = {"a mark": count} if name == "marks" else count
    (run.path / FIGURES).write_text(json.dumps(document))
    assert stored_figures(run.path) is None
    assert figures_of(run) == expected
    assert write_manifest(tmp_path) == 1


def test_what_an_older_version_counted_as_availability_is_counted_again(tmp_path: Path) -> None:
    """It took a second for served in which an op only began; what it wrote has no list of silent seconds."""
    run = sample_run(tmp_path, rate=50.0)
    expected = figures_of(run).available_time
    old = json.loads(msgspec.json.encode(write_figures(load(run), run.read_verdicts()))) | {
        "format": 1,
        "available_time": 0.25,
    }
    (run.path / FIGURES).write_text(json.dumps(old))
    assert figures_of(run).available_time == expected
    shares = {"cluster": {"time": 0.25, "ops": 0.5}, "nodes": {"n1": {"time": 0.25, "ops": 0.5}}}
    verdicts: list[dict[str, Any]] = [{"checker": "quorum-progress", "figures": {"availability": shares}}]
    assert figures(run.history(), run.telemetry(), verdicts, NODES, None).available_time == expected
    shown = quorum_of(verdicts).figures
    assert shown is not None
    assert (shown.availability.cluster.time, shown.availability.nodes) == (None, {})


def test_a_file_of_another_version_is_computed_again(tmp_path: Path) -> None:
    run = sample_run(tmp_path, rate=50.0)
    expected = write_figures(load(run), run.read_verdicts())
    document = json.loads((run.path / FIGURES).read_text()) | {"format": 3, "ops": 1}
    (run.path / FIGURES).write_text(json.dumps(document))
    assert figures_of(run) == expected


def test_marks_that_have_other_names_by_now_are_read_as_they_were_stored(tmp_path: Path) -> None:
    run = sample_run(tmp_path, rate=50.0)
    old = {"election won by nobody": 1, "everybody reached a majority": 0, "nobody to strike": 2}
    run.write_marks(old)
    assert figures_of(run).marks == old


def test_damaged_marks_cost_the_marks_only(tmp_path: Path) -> None:
    run = sample_run(tmp_path, rate=50.0)
    run.marks_path.write_text("{")
    assert figures_of(run).marks is None


def test_quantiles_are_those_of_numpy() -> None:
    draw = np.random.default_rng(3)
    for size in [*range(1, 40), 1000, 4097]:
        latencies = draw.exponential(7.0, size)
        found = counts._quantiles(latencies)  # pyright: ignore[reportPrivateUsage]
        expected = np.quantile(latencies, [0.5, 0.95, 0.99, 1.0])
        assert list(found.values()) == [round(float(value), 3) for value in expected], size
