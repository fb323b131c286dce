"""The page of findings: what counts as one, and what is shown of it, from a small store of made-up runs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from splitbrain.checkers.verdict import Verdict
from splitbrain.results.history import NEMESIS, Op
from splitbrain.results.store import RunDir, Store

TOOLS = Path(__file__).parents[2] / "tools"


def tool(name: str) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(TOOLS))  # pyright: ignore[reportUnknownMemberType]
        return importlib.import_module(name)


findings, logs, matrix, runs = (
    tool(each) for each in ("findings", "findings_logs", "findings_matrix", "findings_runs")
)
pages = tool("findings_page")

CELL: Any = matrix.Cell(system="redis", workload="set", runs=3)
BEGAN_NS = 1_795_826_617_000_000_000
"""2026-11-28 00:43:37 UTC."""
SAID = "Lost: element 1 was acknowledged by n1 at 8.000 s and is missing."

LOG = """\
12:C 28 Nov 2026 00:43:37.100 # Redis version=7.0.15, bits=64
12:M 28 Nov 2026 00:43:42.100 # +odown master splitbrain 10.203.0.2 7000
12:M 28 Nov 2026 00:43:42.100 * DB saved on disk
12:X 28 Nov 2026 00:43:44.500 # +switch-master splitbrain 10.203.0.1 7000 10.203.0.2 7000
12:X 28 Nov 2026 00:44:30.000 # +switch-master after the violation was complete
12:X a line without a time: +switch-master
"""


def fault(at_s: float, f: str, action: str, **fields: Any) -> Op:
    value = {"fault": "kill", "action": action, **fields}
    return Op(process=NEMESIS, type="invoke", f=f, value=value, time=round(at_s * 1e9))


def stored(
    store: Path,
    seed: int,
    outcome: str,
    *,
    nemesis: str = matrix.FAULTS,
    schedule: str = "",
    faults: Sequence[Op] = (),
    **other: Any,
) -> RunDir:
    """A judged run of 60 s; a violation is complete at 10 s."""
    options: dict[str, Any] = {"system": "redis", "workload": "set", "read_mode": "linearizable", "settings": ""}
    options |= {"backend": "docker", "nodes": "3", "rate": 100.0, "recovery": 20.0, "time_limit": 60.0}
    document = {"nodes": ["n1", "n2"], "options": {**options, "nemesis": nemesis, "schedule": schedule, **other}}
    run = Store(store).create("redis-set", seed, {**document, "began_wall_ns": BEGAN_NS}, BEGAN_NS + seed)
    ops = [
        Op(process=0, type="invoke", f="add", value=1, node="n1", time=7_900_000_000),
        Op(process=0, type="ok", f="add", value=1, node="n1", time=8_000_000_000),
        Op(process=1, type="invoke", f="read", node="n2", time=9_000_000_000),
        Op(process=1, type="ok", f="read", value=[], node="n2", time=10_000_000_000),
    ]
    writer = run.history_writer()
    with_faults = sorted([*ops, *faults], key=lambda op: op.time)
    for number, op in enumerate(with_faults):
        writer.record(
            Op(index=number, time=op.time, process=op.process, type=op.type, f=op.f, value=op.value, node=op.node)
        )
    run.finish_history()
    (run.node_dir("n1")).mkdir(parents=True, exist_ok=True)
    (run.node_dir("n1") / "log").write_text(LOG)
    is_violation = outcome == "violation"
    verdict = Verdict(
        checker="set",
        valid="false" if is_violation else "true",
        algorithm="made up",
        sentence=SAID if is_violation else "All is there.",
        anomalies=("lost",) if is_violation else (),
        evidence={"ops": [number for number, op in enumerate(with_faults) if op.type == "ok"]},
    )
    error = "no node started" if outcome == "harness error" else None
    run.write_verdicts([verdict], outcome, engine="inline", harness_error=error)
    run.release()
    return run


KILL = [
    fault(2.0, "kill", "start", spec="one"),
    fault(4.0, "start", "stop"),
    fault(5.0, "kill", "start", spec="leader"),
]


def row(store: Path) -> Any:
    documents = [runs.Documented(system="redis", says="failovers lose writes.", source="its page")]
    [found] = runs.rows(store, [CELL], documents)
    return found


def test_a_finding_has_three_runs_and_one_without_faults(tmp_path: Path) -> None:
    for seed in (1, 2):
        stored(tmp_path, seed, "violation", faults=KILL)
    assert (row(tmp_path).state, row(tmp_path).why) == (
        "not yet",
        "there are 2 runs with faults, and at least 3 are needed",
    )
    stored(tmp_path, 3, "pass", faults=KILL)
    assert (row(tmp_path).state, row(tmp_path).why) == ("not yet", "no run without faults has tested enough")
    stored(tmp_path, 4, "pass", nemesis="none")
    assert row(tmp_path).state == "finding"
    assert [(each.checker, each.anomaly, each.runs) for each in row(tmp_path).found] == [("set", "lost", 2)]
    assert (row(tmp_path).runs, row(tmp_path).control, row(tmp_path).version) == (3, ["pass"], "7.0.15")


def test_what_happens_without_faults_as_well_is_shown_from_there_as_no_schedule_is_smaller(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        stored(tmp_path, seed, "violation", faults=KILL)
    stored(tmp_path, 4, "violation", nemesis="none")
    found = row(tmp_path)
    assert (found.state, found.faultless) == ("finding", ["set"])
    assert [(each.runs, each.seed, each.schedule) for each in found.found] == [(3, 4, [])]
    assert "no fault is needed" in pages.page([found])
    assert "No fault had begun by then." in pages.page([found])
    assert [line.at_s for line in found.found[0].log] == [7.5]
    assert "What nodes logged before the violation, up to its proof at 10.0 s:" in pages.page([found])
    assert "after the last fault" not in pages.page([found])


def test_what_a_broker_logs_of_clients_that_it_may_refuse_is_not_shown_and_a_queue_that_cannot_be_made_is() -> None:
    said = """\
2026-11-28 00:43:38.000000+00:00 [error] <0.1.0> Channel error on connection <0.1.0>, channel 1:
2026-11-28 00:43:38.000000+00:00 [error] <0.1.0> operation queue.declare caused a channel exception resource_locked: x
2026-11-28 00:43:39.000000+00:00 [error] <0.1.0> operation queue.bind caused a channel exception not_found: no queue 'q'
2026-11-28 00:43:39.500000+00:00 [warning] <0.2.0> some other thing
"""
    more = "2026-11-28 00:43:40.000000+00:00 [error] <0.3.0>     reason: {already_started,<0.5018.0>}\n"

    def shown(text: str) -> list[str]:
        times = {"began_s": BEGAN_NS / 1e9, "from_s": 0.0, "until_s": 9.0}
        found = logs.beside("rabbitmq", {"n1": text.splitlines()}, addresses={}, **times)
        return [line.text for line in found]

    assert shown(said) == ["[warning] some other thing"]
    assert shown(said + more) == ["[error] reason: {already_started,}"]


def test_what_a_vendor_says_is_about_the_workloads_that_it_names_and_about_all_if_it_names_none(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        stored(tmp_path, seed, "violation", faults=KILL)

    def said(*workloads: str) -> str:
        documents = [runs.Documented(system="redis", says="writes go.", source="its page", workloads=workloads)]
        [found] = runs.rows(tmp_path, [CELL], documents)
        return found.found[0].says

    assert [said(), said("declare", "set"), said("declare")] == ["writes go.", "writes go.", ""]


def test_a_run_under_another_load_or_on_another_backend_is_no_run_of_the_cell(tmp_path: Path) -> None:
    stored(tmp_path, 1, "violation")
    changes: list[dict[str, Any]] = [{"backend": "local"}, {"rate": 50.0}, {"recovery": 90.0}, {"nodes": "5"}]
    for seed, other in enumerate(changes, 2):
        stored(tmp_path, seed, "violation", **other)
    assert row(tmp_path).runs == 1


def test_runs_that_tested_too_little_do_not_show_that_there_is_nothing(tmp_path: Path) -> None:
    stored(tmp_path, 1, "pass", nemesis="none")
    for seed, outcome in enumerate(("pass", "inconclusive", "pass"), 2):
        stored(tmp_path, seed, outcome)
    assert (row(tmp_path).state, row(tmp_path).inconclusive) == ("not yet", 1)
    assert "not decided: there are 2 runs with faults that tested enough" in pages.page([row(tmp_path)])
    stored(tmp_path, 5, "pass")
    assert row(tmp_path).state == "nothing found"


def test_a_test_without_runs_with_faults_is_not_shown(tmp_path: Path) -> None:
    stored(tmp_path, 1, "pass", nemesis="none")
    assert runs.rows(tmp_path, [CELL], []) == []


def test_what_a_vendor_says_of_partitions_is_not_about_a_violation_before_any(tmp_path: Path) -> None:
    stored(tmp_path, 1, "violation", faults=KILL)
    for after, said in ((("start-partition",), ""), (("start-partition", "kill"), "sides differ.")):
        documents = [runs.Documented(system="redis", says="sides differ.", source="its page", after=after)]
        [found] = runs.rows(tmp_path, [CELL], documents)
        assert found.found[0].says == said


def test_runs_in_which_the_harness_failed_count_for_nothing(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        stored(tmp_path, seed, "pass" if seed < 3 else "harness error")
    stored(tmp_path, 4, "harness error", nemesis="none")
    assert (row(tmp_path).runs, row(tmp_path).harness_errors, row(tmp_path).state) == (2, 1, "not yet")


def test_what_is_found_without_faults_is_said_to_be(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        stored(tmp_path, seed, "violation")
    stored(tmp_path, 4, "violation", nemesis="none")
    assert (row(tmp_path).state, row(tmp_path).faultless) == ("finding", ["set"])
    assert "no fault is needed" in pages.page([row(tmp_path)])


def test_the_shortest_schedule_is_shown_with_the_log_up_to_the_violation(tmp_path: Path) -> None:
    stored(tmp_path, 1, "violation", faults=[*KILL, fault(20.0, "start", "stop")])
    stored(tmp_path, 2, "violation", faults=[fault(1.0, "kill", "start", spec="one"), *KILL])
    [found] = row(tmp_path).found
    assert found.schedule == [[2.0, "kill", {"spec": "one"}], [4.0, "start"], [5.0, "kill", {"spec": "leader"}]]
    assert (found.at_s, found.says) == (10.0, "failovers lose writes.")
    assert [(line.node, line.at_s) for line in found.log] == [("n1", 5.1), ("n1", 7.5)]
    assert "10.203" not in pages.page([row(tmp_path)])
    assert "n1 7000 n2 7000" in found.log[1].text or "(address)" in found.log[1].text


def test_addresses_become_names_of_nodes_where_there_is_one_for_each() -> None:
    both = {"n1": ["from 10.1.0.1", "to 10.1.0.2:7000"], "n2": []}
    assert logs.addresses(both) == {"10.1.0.1": "n1", "10.1.0.2": "n2"}
    assert logs.addresses({"n1": ["10.1.0.1", "10.1.0.9", "10.1.0.7"], "n2": []}) == {}
    asked = "* MASTER MODE enabled (user request from 'id=10 addr=10.1.0.2:50 name=sentinel')"
    assert logs.plain(asked, {"10.1.0.2": "n2"}) == "* MASTER MODE enabled"
    assert logs.plain("<0.12.0> to 10.1.0.2:7000, 8.8.8.8", {"10.1.0.2": "n2"}) == "to n2, (address)"


def test_a_shorter_schedule_counts_as_the_smallest_and_as_no_further_run(tmp_path: Path) -> None:
    stored(tmp_path, 1, "violation", faults=KILL)
    stored(tmp_path, 2, "violation", nemesis="", schedule="shorter.schedule", faults=KILL[2:])
    found = row(tmp_path)
    assert (found.runs, found.found[0].runs, found.found[0].shrunk) == (1, 1, True)
    assert found.found[0].schedule == [[5.0, "kill", {"spec": "leader"}]]
    assert "one fault only" in pages.page([found])


def test_only_missing_runs_are_made_and_a_shorter_schedule_is_tried_once(tmp_path: Path) -> None:
    def words(store: Path) -> list[tuple[str, int]]:
        tasks = findings.missing(runs.judged(store), [CELL])
        return [(task.words[task.words.index("--nemesis") + 1], len(task.schedule)) for task in tasks]

    assert words(tmp_path) == [(matrix.FAULTS, 0)] * 3 + [("none", 0)]
    killed = [*KILL, fault(12.0, "start", "stop")]
    for seed in (1, 2):
        stored(tmp_path, seed, "violation", faults=killed)
    stored(tmp_path, 3, "pass", nemesis="none")
    assert words(tmp_path) == [(matrix.FAULTS, 0), (matrix.FAULTS, 2)]
    stored(tmp_path, 4, "pass", nemesis="", schedule="shorter.schedule")
    assert words(tmp_path) == [(matrix.FAULTS, 0)]
    stored(tmp_path, 5, "inconclusive", faults=killed)
    assert words(tmp_path) == [(matrix.FAULTS, 0)], "that run proves nothing: another one is made"
    for seed in range(6, 10):
        stored(tmp_path, seed, "inconclusive", faults=killed)
    assert words(tmp_path) == [], "but not for ever"


def test_a_fault_that_the_end_of_its_phase_healed_has_no_end_in_a_shorter_schedule(tmp_path: Path) -> None:
    stored(tmp_path, 1, "violation", faults=[*KILL, fault(60.14, "start", "stop")])
    assert runs.shorter_schedule(runs.judged(tmp_path)[0]) == [[5.0, "kill", {"spec": "leader"}]]


def test_a_fault_at_the_very_end_of_its_phase_makes_no_shorter_schedule(tmp_path: Path) -> None:
    """A file without a fault would be no schedule, and the whole run would be made again each time."""
    read = [Op(process=2, type="invoke", f="read", node="n1", time=60_000_000_000)]
    read.append(Op(process=2, type="ok", f="read", value=[], node="n1", time=60_100_000_000))
    stored(tmp_path, 1, "violation", faults=[*KILL, fault(59.998, "kill", "start", spec="one"), *read])
    assert runs.shorter_schedule(runs.judged(tmp_path)[0]) is None


def test_every_cell_of_the_matrix_is_another_test() -> None:
    assert len({tuple(cell.words(cell.nemesis)) for cell in matrix.CELLS}) == len(matrix.CELLS)


def test_what_was_decided_in_another_store_stays_and_what_was_not_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = matrix.Cell(system="etcd", workload="set", runs=3)
    known: dict[str, Any] = {"nemesis": matrix.FAULTS, "read_mode": "linearizable", "workload": "set", "settings": {}}
    decided = runs.Row(system="redis", wanted=3, runs=3, state="nothing found", **known)
    begun = runs.Row(system="etcd", wanted=3, runs=1, **known)
    still, cells_asked = iter([findings.Task(CELL.words("none"))]), list[Any]()
    data, made = tmp_path / "findings.json", list[str]()
    monkeypatch.setattr(findings, "DATA", data)
    monkeypatch.setattr(findings, "PAGE", tmp_path / "findings.md")
    monkeypatch.setattr(findings, "CELLS", [CELL, other])

    def run(task: Any, _: Path) -> str:
        made.append(" ".join(task.words))
        stored(tmp_path / "store", len(made), "pass")
        return "exit 0"

    def missing(_: object, cells: Any) -> Any:
        cells_asked.append(cells)
        return still

    monkeypatch.setattr(findings, "run", run)
    monkeypatch.setattr(findings, "missing", missing)
    findings.write([decided, begun])
    findings.main(["--store", str(tmp_path / "store"), "--budget", "1"])
    assert cells_asked[0] == [other]
    assert len(made) == 1
    assert findings.stated() == [decided, begun], "a store with less takes nothing away"

    def without_image(*_: object) -> str:
        return "exit 255: no image"

    monkeypatch.setattr(findings, "run", without_image)
    still = iter([findings.Task(CELL.words("none"))])
    with pytest.raises(SystemExit, match=r"left no verdict.*exit 255: no image"):
        findings.main(["--store", str(tmp_path / "store"), "--budget", "1"])
    now = runs.Row(system="etcd", wanted=3, runs=2, **known)
    again = runs.Row(system="redis", wanted=3, runs=1, **known)
    assert findings.together([decided, begun], [again, now], [CELL, other]) == [decided, now]
