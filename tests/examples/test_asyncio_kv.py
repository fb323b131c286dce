"""The key-value server of the documentation: a hunt finds its bug, and what was made right of it survives."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.asyncio_kv import Node, Slots, applied
from examples.asyncio_kv_system import KVSession, System, WriteBack
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from tests.cli.support import answer, only_run, splitbrain

SYSTEM = "examples.asyncio_kv_system:System"
RIGHT = "examples.asyncio_kv_system:WriteBack"
FAR_APART = ["--nodes", "5", "--world", "wan", "--rate", "50", "--concurrency", "2n"]
HUNT = ["--workload", "register", "--nemesis", "partition,kill", "--no-canary", "--interval", "2", *FAR_APART]


def options(system: str, seed: int, nemesis: str, seconds: float) -> RunOptions:
    return RunOptions.of(
        workload="register",
        nemesis=nemesis,
        system=system,
        backend="sim",
        bug="",
        nodes="3",
        concurrency="1n",
        rate=20.0,
        time_limit=seconds,
        interval=1.0,
        op_timeout=2.0,
        recovery=20.0,
        seed=seed,
    )


@pytest.mark.parametrize("system", [SYSTEM, RIGHT])
def test_it_runs_in_simulation_and_every_function_works(system: str) -> None:
    left = simulate(compose(options(system, 1, "kill", 5.0)))
    assert left.failure is None
    assert {op.f for op in left.ops if op.type == "ok" and op.process >= 0} == {"read", "write", "cas"}
    assert {op.f for op in left.ops if op.process < 0 and op.type == "ok"} >= {"kill", "start"}
    assert any("n1 serves n1:7000" in line for line in left.logs["n1"])


def test_a_connection_that_is_open_when_the_simulation_ends_is_no_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[KVSession] = []

    async def stay_open(session: KVSession) -> None:
        kept.append(session)

    monkeypatch.setattr(KVSession, "close", stay_open)
    assert simulate(compose(options(RIGHT, 1, "none", 2.0))).failure is None
    assert kept
    kept.clear()
    gc.collect()  # pytest makes an error of a ResourceWarning


def test_the_two_variants_differ_by_an_argument_of_the_server() -> None:
    assert (System.arguments, WriteBack.arguments) == ((), ("--write-back",))


@pytest.mark.parametrize(
    ("request_", "before", "after", "answered"),
    [
        ({"do": "write", "value": 2}, 1, 2, True),
        ({"do": "cas", "expected": 1, "value": 2}, 1, 2, True),
        ({"do": "cas", "expected": 0, "value": 2}, 1, 1, False),
        ({"do": "create", "value": 2}, None, 2, True),
        ({"do": "create", "value": 2}, 1, 1, False),
        ({"do": "add", "value": 2}, [1], [1, 2], True),
        ({"do": "keep"}, 1, 1, 1),
    ],
)
def test_what_requests_make_of_a_value(
    request_: dict[str, object], before: object, after: object, answered: object
) -> None:
    assert applied(request_, before) == (after, answered)


def test_a_change_that_changed_nothing_is_not_tried_again(tmp_path: Path) -> None:
    """Another node may still try what was answered already; by then the value may be another."""

    async def scenario() -> list[object]:
        node = Node("n1", {}, Slots(str(tmp_path)), write_back=True)
        tried = {"do": "cas", "key": "x", "expected": 1, "value": 2, "change": "a"}
        answers = [await node.change(tried), await node.change({"do": "write", "key": "x", "value": 1})]
        return [*answers, await node.change(tried), await node.read("x")]

    assert asyncio.run(scenario()) == [False, True, False, 1]


def test_slots_are_found_again_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    Slots(str(tmp_path)).put("x", [[2, "n1"], [1, "n2"], 7, ["a"]])
    assert Slots(str(tmp_path)).get("x") == [[2, "n1"], [1, "n2"], 7, ["a"]]
    [file] = tmp_path.glob("*.slot")
    file.write_text(file.read_text().replace("7", "8"))
    with pytest.raises(SystemExit, match="damaged"):
        Slots(str(tmp_path))


@pytest.mark.slow
def test_a_hunt_finds_the_bug_and_makes_it_small_and_the_plan_repeats_it(tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "store")]
    limits = ["--time-limit", "20", "--seed", "13", "--runs", "3", "--jobs", "2", "--no-shrink"]
    hunted = splitbrain("hunt", "--system", SYSTEM, *HUNT, *limits, *store, "--json", timeout_s=3000)
    assert hunted.returncode == 1, hunted.stdout + hunted.stderr
    assert list(answer(hunted)["kinds"]) == ["linearizable: nonlinearizable"]
    plan = str(tmp_path / "small.json")
    shrunk = splitbrain("shrink", "latest", *store, "--budget", "12", "-o", plan, "--json", timeout_s=3000)
    smaller = answer(shrunk)
    assert smaller["after"]["ops"] <= smaller["before"]["ops"], "how much smaller depends on the time that there is"
    replayed = splitbrain("replay", plan)
    assert replayed.returncode == 1, replayed.stdout + replayed.stderr
    assert "Not linearizable" in replayed.stdout


@pytest.mark.slow
def test_the_server_that_writes_back_survives_a_hunt(tmp_path: Path) -> None:
    hunted = splitbrain(
        *(
            "hunt",
            "--system",
            RIGHT,
            *HUNT,
            "--time-limit",
            "12",
            "--seed",
            "1",
            "--runs",
            "4",
            "--budget",
            "3000",
            "--jobs",
            "2",
        ),
        *("--store", str(tmp_path / "store"), "--json"),
        timeout_s=3000,
    )
    found = answer(hunted)
    assert hunted.returncode == 0, found["kinds"]
    assert found["outcomes"]["pass"] > 0
    assert sum(found["outcomes"].values()) == 4


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("system", [SYSTEM, RIGHT])
def test_the_same_program_runs_as_processes(tmp_path: Path, system: str) -> None:
    done = splitbrain(
        *("run", "--system", system, "--workload", "register", "--nemesis", "kill", "--nodes", "3", "--rate", "40"),
        *("--time-limit", "10", "--interval", "3", "--seed", "1", "--store", "store", "--json"),
        cwd=tmp_path,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    run = only_run(tmp_path / "store")
    assert "serves" in (run / "nodes" / "n1" / "log").read_text()


def test_the_server_is_a_program_of_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.asyncio_kv", "--node", "n1"],
        cwd=Path(__file__).parents[2],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--listen" in done.stderr
