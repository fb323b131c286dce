"""Schedule files: what is in them happens, at its time, and nothing else; what is wrong with them is told by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.campaigns import planned
from splitbrain.harness.campaigns.compose import RunOptions, command_line, compose
from splitbrain.harness.campaigns.schedules import read
from splitbrain.harness.contract.faults import Support
from splitbrain.harness.running.plan import decode
from splitbrain.results.errors import FaultNotSupportedError, UsageError
from splitbrain.results.history import NEMESIS
from splitbrain.results.rundir import RunDir
from tests.cli.support import ROOT, answer, only_run, splitbrain
from tests.cli.test_arguments import OPTIONS

FIVE = ("n1", "n2", "n3", "n4", "n5")
EXAMPLE = ROOT / "examples" / "stale-leader.schedule"


def schedule(folder: Path, *lines: str) -> str:
    file = folder / "faults.schedule"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def chosen(path: str, **given: Any) -> RunOptions:
    return RunOptions.of(**{**OPTIONS, "backend": "sim", "schedule": path, **given})


@pytest.mark.slow
def test_what_a_file_says_happens_at_its_time_and_nothing_else_and_again_in_a_replay(tmp_path: Path) -> None:
    again = ["--schedule", str(EXAMPLE), "--backend", "sim", "--time-limit", "20", "--seed", "3", "--json"]
    done = splitbrain("run", *again, "--store", str(tmp_path), timeout_s=300)
    assert done.returncode == 0, done.stderr
    assert f"--schedule {EXAMPLE}" in answer(done)["command"]
    assert "--nemesis" not in answer(done)["command"]
    run = RunDir(only_run(tmp_path))
    ops = [op for op in run.history().to_pylist() if op["process"] == NEMESIS]
    begun = [(op["f"], round(op["time"] / 1e9)) for op in ops if op["type"] == "invoke" and op["time"] < 20e9]
    assert begun == [(fault.f, fault.at_ns // 10**9) for fault in read(str(EXAMPLE), FIVE, 20.0)]
    assert len(begun) == 6
    assert run.read_test()["test"].endswith("-schedule")
    replayed = splitbrain("replay", "--store", str(tmp_path), run.name, timeout_s=300)
    assert replayed.returncode == 0, replayed.stderr
    assert "the same history" in replayed.stdout
    # The plan of a run is a schedule as well: of the same faults.
    faults = read(str(run.plan_path), FIVE, 20.0)
    assert faults == decode(run.plan_path.read_bytes()).faults
    assert [(fault.f, fault.value) for fault in faults] == [
        (fault.f, fault.value) for fault in read(str(EXAMPLE), FIVE, 20.0)
    ]


def test_the_file_decides_which_kinds_are_healed_and_what_a_backend_must_be_able_to_do(tmp_path: Path) -> None:
    file = schedule(tmp_path, '[1, "start-packet", {"disturb": {"mtu": 500}}]', "", "# and", '[2.5, "pause", {}]')
    test = compose(chosen(file))
    assert test.nemesis.faults == {"mtu", "pause"}
    assert test.nemesis.nemesis is not None
    assert test.nemesis.nemesis.fs == {"start-packet", "stop-packet", "pause", "resume"}
    assert test.name == "metadata-register-schedule"
    Path(file).unlink()
    again = compose(RunOptions.of(**test.options))
    assert again.nemesis.faults == test.nemesis.faults, "the options hold what was in the file"
    assert f"--schedule {file}" in command_line(
        chosen(str(EXAMPLE), schedule=file, scheduled=test.options["scheduled"])
    )


def test_a_fault_that_the_backend_cannot_inject_is_refused_before_anything_starts(tmp_path: Path) -> None:
    from splitbrain.harness.backends.sim import SimBackend
    from splitbrain.harness.running.lifecycle import check_support

    class Poor(SimBackend):
        def support(self) -> dict[str, Support]:
            return {**super().support(), "mtu": Support(False, "no such thing.")}

    test = compose(chosen(schedule(tmp_path, '[1, "start-packet", {"disturb": {"mtu": 500, "loss": 0.1}}]')))
    with pytest.raises(FaultNotSupportedError, match="cannot inject 'mtu' here: no such thing"):
        check_support(test, Poor())
    scripted = planned.test_of(chosen(str(EXAMPLE)), decode_plan(tmp_path))
    assert scripted.nemesis.faults == {"loss"}, "a plan needs what it strikes with, not what its names could"


def decode_plan(folder: Path) -> Any:
    plan: dict[str, Any] = {
        "format": 1,
        "options": {},
        "nodes": ["n1", "n2"],
        "placement": ["n1"],
        "end_ns": 10**9,
        "faults": [{"at_ns": 5, "f": "start-packet", "value": {"fault": "packet", "disturb": {"loss": 0.5}}}],
    }
    return decode(json.dumps(plan).encode())


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (['[1, "kill"]', "", "[2, "], "line 3: this is not JSON"),
        (['[1, "kill"]', '{"at": 2}'], "line 2: an op is [seconds, function, request]"),
        (["[1]"], "line 1: an op is [seconds"),
        (["[1, 2, 3]"], "line 1: an op is [seconds"),
        (['["soon", "kill"]'], "line 1: the time of an op is in seconds"),
        (['[-1, "kill"]'], "line 1: the time of an op is in seconds"),
        (['[true, "kill"]'], "line 1: the time of an op is in seconds"),
        (["# nothing", '[3, "kil"]'], "line 2: there is no nemesis op 'kil'. Did you mean 'kill'"),
        (['[3, "start-packet", {"disturb": {"los": 1}}]'], "line 1: there is no field 'los' of disturb"),
        (['[30.5, "kill"]'], "line 1: kill is due at 30.5 s, after the faults phase of 30 s: raise --time-limit"),
        (["# nothing", ""], "there is no op in it"),
        (['{"format": 1}'], "this is not a plan"),
        (["[" * 5000], "line 1: this is not JSON"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_its_line(tmp_path: Path, lines: list[str], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(schedule(tmp_path, *lines), FIVE, 30.0)
    assert told in str(refused.value)
    assert "faults.schedule" in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, why in (
        ("none", "cannot be read: No such file"),
        ("binary", "not UTF-8 text"),
        (".", "directory"),
        ("\0", "null byte"),
    ):
        with pytest.raises(UsageError, match=why):
            read(str(tmp_path / name), FIVE, 30.0)


@pytest.mark.parametrize(
    ("op", "told"),
    [
        ('"start-packet", {"disturb": {"delay_ms": -5}}', "delay_ms is a number of 0 to 3,600,000 ms, not -5"),
        ('"start-packet", {"disturb": {"loss": 7.0}}', "loss is a number of 0 to 1 of all, not 7.0"),
        ('"start-packet", {"disturb": {"loss": true}}', "disturb: Expected `float`, got `bool`"),
        ('"start-packet", {"disturb": {"rate_kbit": 1e300}}', "disturb: Expected `int`, got `float`"),
        ('"start-clock", {"spec": "all", "skew": {"n1": {"drift_ppm": -1e6}}}', "drift_ppm is a number of -900,000 to"),
        ('"start-clock", {"skew": {"n1": {"offset_ms": 5, "strobe_ms": 1e-7}}}', "strobe_ms is a number of 1 to"),
        ('"start-clock", {"skew": {"n1": {"strobe_ms": 10}}}', "has a strobe without an offset"),
        ('"start-disk", {"spoil": {"rot": -1}}', "rot is a whole number of 0 to 1,000 sectors, not -1"),
        ('"start-cpu", {"share": 1e-9}', "share is a number of 0.001 to 1 of a CPU"),
        ('"bounce", {"nodes": ["n1"], "pauses_ms": [1e99]}', "got `float` - at `$.pauses_ms[0]`"),
        ('"bounce", {"nodes": ["n1"], "pauses_ms": [99999999]}', "pauses_ms is a whole number of 0 to 60,000 ms"),
        ('"kill", {"order": ["n1", "n1"]}', "order names a node twice"),
        ('"kill"], ["stop-packet"', "this is not JSON"),
        ('"start"', "start heals a kill fault, and no such fault begins before it"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line_before_anything_starts(tmp_path: Path, op: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        chosen(schedule(tmp_path, "# what cannot be", f"[1, {op}]"))
    assert "line 2: " in str(refused.value)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_lines_that_are_not_in_the_order_of_their_times_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"line 2: kill is due at 0.25 s, before the previous op \(9 s\)"):
        read(schedule(tmp_path, '[9, "pause"]', '[0.25, "kill", {"spec": "all"}]'), FIVE, 30.0)


@pytest.mark.slow
def test_an_impossible_schedule_ends_the_command_with_254_and_leaves_nothing(tmp_path: Path) -> None:
    file = schedule(tmp_path, '[1, "start-packet", {"disturb": {"delay_ms": -5}}]')
    done = splitbrain("run", "--schedule", file, "--backend", "sim", "--store", str(tmp_path / "store"))
    assert done.returncode == 254
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_a_schedule_and_a_nemesis_are_not_given_at_once(tmp_path: Path) -> None:
    done = splitbrain("run", "--schedule", str(EXAMPLE), "--nemesis", "kill", "--backend", "sim", cwd=tmp_path)
    assert done.returncode == 254
    assert "remove --nemesis" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_is_left_out_of_a_mix_is_told_at_once_in_the_log_and_in_the_test(tmp_path: Path) -> None:
    program = (
        "from splitbrain.harness.backends.sim import SimBackend\n"
        "from splitbrain.harness.contract.faults import Support\n"
        "real = SimBackend.support\n"
        "SimBackend.support = lambda self: {**real(self), 'reset': Support(False, 'nobody resets here.')}\n"
        "from splitbrain.harness.cli.main import main; main(['run', '--nemesis', 'packet', '--backend', 'sim', "
        "'--time-limit', '5', '--interval', '1', '--store', '.', '--json'])\n"
    )
    import subprocess
    import sys

    from tests.cli.support import environment

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    line = "packet: without reset (nobody resets here)"
    assert f"left out: {line}" in done.stderr
    assert answer(done)["outcome"] in ("pass", "inconclusive"), "what it says on stdout is JSON only"
    run = RunDir(only_run(tmp_path))
    assert run.read_test()["left_out"] == [line]
    assert run.log_path.read_text().startswith(f"left out: {line}\n")
