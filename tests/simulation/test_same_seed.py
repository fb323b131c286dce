"""The same seed gives the same run: twice, in other processes, under other hash seeds, in other Pythons, with logging.

Each sample is a seed and what it runs; the runs are compared event by event where they are traced, so that a failure
names the first event in which two of them differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from splitbrain.harness.campaigns.compose import command_line, compose
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.simulation.trace import first_divergence
from splitbrain.results.arrow import history_hash
from splitbrain.results.rundir import RunDir
from tests.simulation.fingerprint import options
from tests.simulation.interpreters import pythons

SCRIPT = Path(__file__).with_name("fingerprint.py")
EVERYTHING = "partition,kill,pause,power,packet,clog,clock,disk,swizzle"


class Sample(NamedTuple):
    seed: int
    workload: str
    nemesis: str


SAMPLES = (
    Sample(1, "register", EVERYTHING),
    Sample(2, "set", EVERYTHING),
    Sample(3, "declare", EVERYTHING),
    Sample(4, "register", "partition,kill"),
    Sample(5, "register", "packet,clock"),
    Sample(6, "set", "power,disk"),
)


def run(sample: Sample, *arguments: str, python: Path | None = None, hash_seed: int = 0) -> str:
    """What the script prints in a process of its own."""
    done = subprocess.run(
        [str(python or sys.executable), str(SCRIPT), *map(str, sample), *arguments],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def traced(sample: Sample, folder: Path, hash_seed: int, *arguments: str) -> list[str]:
    """The events of a run in a process of its own."""
    file = folder / f"trace-{hash_seed}"
    run(sample, "--trace", str(file), *arguments, hash_seed=hash_seed)
    return file.read_text().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.seed}-{sample.workload}")
def test_two_processes_with_different_hash_seeds_see_the_same_events(sample: Sample, tmp_path: Path) -> None:
    one, other = traced(sample, tmp_path, 1), traced(sample, tmp_path, 2)
    assert first_divergence(one, other) is None
    assert len(one) > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("python", pythons(), ids=lambda python: python.parts[-3])
def test_every_python_and_three_hash_seeds_give_the_same_history(python: Path) -> None:
    simulated = simulate(compose(options(*SAMPLES[0])))
    ours = f"{simulated.history_hash} {simulated.fingerprint} {len(simulated.ops)}\n"
    assert [run(SAMPLES[0], python=python, hash_seed=seed) for seed in (0, 1, 2)] == [ours] * 3


@pytest.mark.slow
@pytest.mark.parametrize("python", pythons(), ids=lambda python: python.parts[-3])
def test_every_python_and_hash_seed_gives_a_program_in_plain_asyncio_the_same_history(python: Path) -> None:
    program = "examples.asyncio_kv_system:System"
    simulated = simulate(compose(options(*SAMPLES[0], system=program)))
    ours = f"{simulated.history_hash} {simulated.fingerprint} {len(simulated.ops)}\n"
    arguments = ("--system", program)
    assert [run(SAMPLES[0], *arguments, python=python, hash_seed=seed) for seed in (1, 2)] == [ours] * 2


@pytest.mark.slow
def test_twice_in_a_row_in_one_process_and_with_debug_logging_the_history_is_the_same() -> None:
    one, two = (simulate(compose(options(*SAMPLES[1]))) for _ in range(2))
    assert one.ops == two.ops
    assert one.logs == two.logs
    assert one.lines == two.lines
    assert one.fingerprint == two.fingerprint
    assert run(SAMPLES[1], "--debug").split()[0] == one.history_hash


@pytest.mark.slow
def test_the_command_line_records_the_same_history(tmp_path: Path) -> None:
    chosen = options(*SAMPLES[2])
    words = command_line(chosen).split()[1:]
    command = [str(Path(sys.executable).with_name("splitbrain")), *words, "--store", str(tmp_path / "store"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    stored = RunDir(Path(json.loads(done.stdout)["run"]))
    simulated = simulate(compose(chosen))
    assert history_hash(stored.history()) == simulated.history_hash
    assert stored.read_test()["simulation"]["fingerprint"] == simulated.fingerprint


@pytest.mark.slow
def test_another_seed_gives_another_history() -> None:
    histories = [simulate(compose(options(seed, "register", "kill", seconds=5.0))).history_hash for seed in range(5)]
    assert len(set(histories)) == 5


@pytest.mark.slow
def test_code_that_looks_at_the_order_of_a_set_is_found_out_and_the_first_event_named(tmp_path: Path) -> None:
    one, other = (traced(SAMPLES[4], tmp_path, seed, "--careless") for seed in (1, 2))
    told = first_divergence(one, other)
    assert told is not None
    assert "the traces part at event" in told
    assert " message client>" in told
