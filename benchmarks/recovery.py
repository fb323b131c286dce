"""The metadata cluster and etcd under the same partitions: recovery times side by side.

    python benchmarks/recovery.py [--backend docker] [--rounds 3] [--store DIR] [--json]

One schedule of partitions is written (drawn from --schedule-seed) and run against both systems in turn, metadata, etcd,
metadata, etcd, ..., so that noise of the machine meets both: the same nodes, workload, rate, clients, backend and, in
each round, the same seed. Each run is what `splitbrain run --schedule` does, and is stored; what `splitbrain compare`
says of the two sets comes last. examples/partitions.schedule is the schedule that is written by default, with the three
commands that do the same by hand.

How to read it:

  cut     from the invocation of a partition to the first answer to an op that needs a quorum. "a whole core" is until
          every node of a majority of linked nodes had answered one; nodes that are cut off recover with the heal.
  healed  likewise from the heal, until all nodes had.
  a node  these times of all nodes, pooled; "never" counts nodes that had not answered when the nemesis acted again.

Only ops count that were invoked when the nemesis had seen every link changed, which takes a few tenths of a second
("links set", the median): no figure is below it. A leader that is cut off is missed after an election timeout, and the
systems come with different ones; they are printed, and recoveries should be read as multiples of them. What a system
takes after a heal hangs on when its nodes connect anew: TCP waits twice as long before each retransmission, so that a
connection that outlives a cut may stay silent for as long again.

etcd is asked through its JSON gateway, a hop more than metadata's clients take: latencies are not like for like. The
docker backend brings an etcd of its own, the local one takes this machine's: etcd 3.4 asks for no votes in advance
by default, so that a node that comes back after a cut deposes the leader.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recovery_figures import Measured, longest, measured, recovery_table, run_table, silent
from splitbrain.harness.cli.compare import command as compare_command
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.systems import catalogue
from splitbrain.results.comparison import Side, compare, subject_of
from splitbrain.results.errors import HarnessError, SplitbrainError
from splitbrain.results.rundir import RunDir

SYSTEMS: Final = ("metadata", "etcd")
SHAPES: Final = ("leader-in-minority", "halves", "one-way-deaf-leader", "one-way-mute-leader", "bridge")
NODES: Final = ("n1", "n2", "n3", "n4", "n5")
BEGIN_S: Final = 4.0
"""When the first partition is injected: before that, clients use the system without faults."""

RATE: Final = 50
CLIENTS: Final = "15n"
"""An op that waits for a leader keeps its client busy until it times out. With so many clients at so low a rate one is
always free to ask: an answer is seen within a tenth of a second of when it could be given."""

_JUDGED: Final = (0, 1, 2)
"""Exit codes of a run that was judged: its figures count with any verdict."""


@dataclass(frozen=True)
class Plan:
    """What all runs have in common."""

    schedule: Path
    time_limit_s: float
    backend: str
    store: Path


def schedule(seed: int, fault_s: float, healed_s: float) -> list[tuple[float, str, dict[str, Any] | None]]:
    """Each shape once, in an order drawn from the seed, as are the nodes of those shapes that do not follow the leader.

    Returns:
        Ops as a schedule file has them: seconds since the test began, function, request.
    """
    draw = random.Random(seed)
    at_s, ops = BEGIN_S, list[tuple[float, str, dict[str, Any] | None]]()
    for shape in draw.sample(SHAPES, len(SHAPES)):
        ops.append((at_s, "start-partition", {"shape": shape, "order": draw.sample(NODES, len(NODES))}))
        ops.append((at_s + fault_s, "stop-partition", None))
        at_s += fault_s + healed_s
    return ops


def write_schedule(path: Path, ops: Sequence[tuple[float, str, dict[str, Any] | None]]) -> None:
    """Write a file for `splitbrain run --schedule`."""
    lines = [json.dumps(list(op) if op[2] is not None else list(op[:2])) for op in ops]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# --- runs ---------------------------------------------------------------------------------------------------------


def run_once(plan: Plan, system: str, seed: int) -> Measured:
    """One run in a process of its own, as people start it.

    Raises:
        HarnessError: it was not judged; what it said is on standard error.
    """
    words = ["run", "--system", system, "--schedule", str(plan.schedule), "--time-limit", f"{plan.time_limit_s:g}"]
    words += ["--backend", plan.backend, "--rate", str(RATE), "--concurrency", CLIENTS, "--seed", str(seed)]
    words += ["--nodes", ",".join(NODES), "--store", str(plan.store), "--json"]
    python = [sys.executable, "-c", "from splitbrain.harness.cli.main import main; main()"]
    root = str(Path(__file__).resolve().parent.parent)
    paths = os.pathsep.join(each for each in (root, os.environ.get("PYTHONPATH")) if each)
    with subprocess.Popen(
        [*python, *words], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    ) as process:
        try:
            said, _ = process.communicate()
        except KeyboardInterrupt:
            process.wait()  # it heard of the interrupt too, and must heal what it broke
            raise
    if process.returncode not in _JUDGED:
        raise HarnessError(f"splitbrain {' '.join(words)} ended with exit code {process.returncode}.")
    return measured(RunDir(Path(json.loads(said)["run"])), os.getloadavg()[0])


def run_all(plan: Plan, rounds: int) -> dict[str, list[Measured]]:
    """All rounds, the systems in turn."""
    found: dict[str, list[Measured]] = {system: [] for system in SYSTEMS}
    for number in range(1, rounds + 1):
        for system in SYSTEMS:
            began = time.perf_counter()
            done = run_once(plan, system, number)
            found[system].append(done)
            took_s = time.perf_counter() - began
            line = f"round {number} of {rounds}: {system}: {done.outcome} after {took_s:.0f} s, {done.run}"
            print(line, file=sys.stderr, flush=True)
    return found


# --- the output ---------------------------------------------------------------------------------------------------


def conditions(plan: Plan, found: Mapping[str, Sequence[Measured]]) -> list[str]:
    """What one must know of both systems to compare them."""
    loads = [run.load for each in found.values() for run in each]
    set_s = statistics.median(one.set_s for each in found.values() for run in each for one in run.recovered)
    same = f"{len(NODES)} nodes on the {plan.backend} backend, {CLIENTS} clients, {RATE} ops/s, {plan.time_limit_s:g} s"
    machine = f"{os.cpu_count()} CPUs, load average {min(loads):.1f} to {max(loads):.1f}"
    lines = [f"{same}; {machine}; links set after {set_s:.2f} s."]
    for system, runs in found.items():
        timeout_s, bound_s, per_outage = _elections(system).timeout_s, runs[0].bound_s, runs[0].bound_per_outage
        allowed = f"{bound_s:g} s{f' and {per_outage:g} s per second of outage' if per_outage else ''}"
        lines.append(f"{system}: election timeout at most {timeout_s:g} s.")
        for what, took_s in (("cut", longest(runs, healed=False)), ("healed", longest(runs, healed=True))):
            if took_s is not None:
                line = f"longest from links set until a whole core had answered {took_s:.2f} s; allowed {allowed}."
                lines.append(f"{system}, {what}: {line}")
        lines += [f"{system}: no answer before the nemesis acted again: {each}" for each in silent(runs)]
    return lines


def document(plan: Plan, found: Mapping[str, Sequence[Measured]]) -> dict[str, Any]:
    """All of it, for a machine."""
    sides = [Side(system, [subject_of(RunDir(Path(run.run))) for run in runs]) for system, runs in found.items()]
    return {
        "schedule": plan.schedule.read_text(encoding="utf-8").splitlines(),
        "backend": plan.backend,
        "elections": {system: msgspec.to_builtins(_elections(system)) for system in found},
        "runs": {system: msgspec.to_builtins(runs) for system, runs in found.items()},
        "comparison": msgspec.to_builtins(compare(sides[0], sides[1])),
    }


def show(plan: Plan, found: Mapping[str, Sequence[Measured]]) -> None:
    """Tables, and what `splitbrain compare` says."""
    print("\n".join([*conditions(plan, found), "", *recovery_table(found), "", *run_table(found), ""]))
    names = [RunDir(Path(found[system][0].run)).test_name for system in SYSTEMS]
    print(f"splitbrain compare {' '.join(names)} --store {plan.store}\n", flush=True)
    compare_command.main([*names, "--store", str(plan.store)], standalone_mode=False)


def _elections(system: str) -> Elections:
    found = catalogue.build(system).capabilities.elections
    assert found is not None, f"{system} has no elections"
    return found


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("docker", "local"), default="docker", help="where nodes live (docker)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each system is run (3)")
    parser.add_argument("--fault-s", type=float, default=8.0, help="how long each partition lasts (8)")
    parser.add_argument("--healed-s", type=float, default=14.0, help="how long it is healed before the next (14)")
    parser.add_argument("--schedule-seed", type=int, default=1, help="what the schedule is drawn from (1)")
    parser.add_argument("--store", type=Path, help="where runs are kept (a new folder under store/recovery)")
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    options = parser.parse_args()
    if options.rounds < 1 or min(options.fault_s, options.healed_s) <= 0:
        parser.error("give at least one round, and seconds above 0.")
    store = options.store or Path("store", "recovery", time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    store.mkdir(parents=True, exist_ok=True)
    ops = schedule(options.schedule_seed, options.fault_s, options.healed_s)
    plan = Plan(store / "partitions.schedule", ops[-1][0] + options.healed_s, options.backend, store)
    write_schedule(plan.schedule, ops)
    try:
        found = run_all(plan, options.rounds)
        if options.json:
            print(json.dumps(document(plan, found), indent=2))
        else:
            show(plan, found)
    except SplitbrainError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
