"""A synthetic run in a store: five nodes, partitions, a kill and a pause, a register workload; as broken as asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from splitbrain.checkers.coverage import Coverage
from splitbrain.checkers.quorum.checker import QuorumProgress
from splitbrain.checkers.set_checker import SetChecker
from splitbrain.checkers.stats import Stats
from splitbrain.checkers.verdict import Verdict, outcome
from splitbrain.harness.contract.rng import Rng
from splitbrain.results.arrow import TELEMETRY_SCHEMA
from splitbrain.results.history import HARNESS, NEMESIS, Op, OpType
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

NODES = ("n1", "n2", "n3", "n4", "n5")
START_WALL_NS = 1_760_000_000_000_000_000

State: TypeAlias = Literal["pass", "violation", "wrong side", "inconclusive", "harness error", "unjudged", "no history"]


def sample_run(
    root: Path,
    state: State = "pass",
    *,
    seconds: float = 30.0,
    rate: float = 200.0,
    seed: int = 7,
    hostile: str | None = None,
    walls_s: dict[str, float] | None = None,
) -> RunDir:
    """Make a run folder.

    Args:
        root: the store.
        state: how the run ended; "violation" loses an acknowledged element, in "wrong side" n4 goes on to answer
            while it is cut off.
        seconds: length of the faults phase.
        rate: client ops per second.
        seed: of the random history.
        hostile: text that takes the place of values, keys, errors and names wherever a run can carry it.
        walls_s: how far the hosts' clocks were ahead, as the harness would have measured it.
    """
    document: dict[str, Any] = {
        "nodes": list(NODES),
        "began_wall_ns": START_WALL_NS,
        "options": {
            "workload": "set",
            "nemesis": "partition,kill,pause",
            "system": "metadata",
            "backend": "local",
            "bug": "M17" if state == "violation" else "",
            "nodes": "5",
            "concurrency": "10",
            "rate": rate,
            "time_limit": seconds,
            "seed": seed,
            **({"note": hostile} if hostile else {}),
        },
    }
    run = Store(root).create("metadata-set", seed, document, START_WALL_NS)
    if state != "no history":
        ops = _ops(state, seconds, rate, seed, hostile)
        if walls_s is not None:
            value = {"offsets_s": {}, "errors_s": dict.fromkeys(walls_s, 0.001), "walls_s": walls_s}
            end = ops[-1].time
            ops.append(Op(index=len(ops), time=end, process=HARNESS, type="info", f="clocks", value=value))
        writer = run.history_writer()
        for op in ops:
            writer.record(op)
        table = run.finish_history()
        run.write_telemetry(_telemetry(seconds))
        if state != "unjudged":
            _judge(run, table, state, hostile)
    run.release()
    _logs(run, hostile)
    return run


def _logs(run: RunDir, hostile: str | None) -> None:
    """Logs as our own nodes write them, etcd, and one that nobody can place in time."""
    began = datetime.fromtimestamp(START_WALL_NS / 1e9, tz=UTC)
    every = [0.5 * i for i in range(60)]
    ours = (f"{began + timedelta(seconds=at):%H:%M:%S.%f} n1 heard of it at {at:g} s" for at in every)
    theirs = (
        f'{{"level":"info","ts":"{began + timedelta(seconds=at):%Y-%m-%dT%H:%M:%S.%f}Z","msg":"raft at {at:g} s"}}'
        for at in every
    )
    (run.node_dir("n1") / "log").write_text("\n".join(ours) + "\n  a line of a stack trace\n")
    (run.node_dir("n2") / "etcd.log").write_text("\n".join(theirs))
    (run.node_dir("n3") / "node.log").write_bytes(b"no time here\n\xff\xfe\x00\x1b[2Jbinary\n" + b"y" * 2_000_000)
    if hostile:
        (run.node_dir("n4") / "log").write_text(f"{began:%H:%M:%S.%f} {hostile}\n" * 3, errors="replace")


def _judge(run: RunDir, table: pa.Table, state: State, hostile: str | None) -> None:
    verdicts = [
        SetChecker().check(table, {}),
        QuorumProgress().check(table, run.telemetry(), {"nodes": NODES, "recovery_bound_s": 1.5}),
        Stats().check(table, {}),
        Coverage().check(
            table, {"fs": ["add", "read"], "min_ok": 10**6 if state == "inconclusive" else 1, "faults": True}
        ),
    ]
    if hostile:
        verdicts.append(
            Verdict(
                checker=hostile,
                valid="false",
                sentence=hostile,
                anomalies=(hostile,),
                evidence={"ops": list(range(20, 60)), "words": hostile, "findings": _findings(hostile)},
            )
        )
    error = "node n3 did not come up: address already in use" if state == "harness error" else None
    run.write_verdicts(verdicts, outcome(verdicts, error).value, harness_error=error)


def _findings(hostile: str) -> list[dict[str, Any]]:
    row = {"node": "n2", "time_s": 3.0, "event": hostile, "role": hostile}
    return [{"rule": hostile, "sentence": hostile, "ops": [{"index": 30}], "rows": [row]}]


def _ops(state: State, seconds: float, rate: float, seed: int, hostile: str | None) -> list[Op]:
    """Events in order of time: clients in fixed steps with random latencies, nemesis and harness in between."""
    rng, events, added = Rng(seed), list[tuple[float, dict[str, Any]]](), list[int]()

    def event(time_s: float, process: int, how: OpType, f: str, value: Any = None, **more: Any) -> None:
        events.append((time_s, {"process": process, "type": how, "f": f, "value": value, **more}))

    event(0.0, HARNESS, "info", "phase", {"phase": "faults"})
    busy = [0.0] * 10
    crashes = [0] * 10
    for number in range(int(seconds * rate)):
        at = 0.01 + number / rate
        slot = next((i for i in range(10) if busy[i] < at), None)
        if slot is None:
            continue
        node = NODES[slot % 5]
        cut = 6.0 < at < 10.0 and node == "n4"
        dead = 16.0 < at < 20.0 and node == "n2"
        cut = cut and state != "wrong side"
        cut = cut or (22.9 < at < 26.0 and node == "n5")  # paused
        how: OpType = (
            "fail" if dead else "info" if cut and (rng.random() < 0.3 or node == "n5") else "fail" if cut else "ok"
        )
        took = 2.0 if how == "info" else 0.001 if dead else 0.002 + 0.004 / (0.02 + rng.random())
        element: Any = number
        process = slot + 10 * crashes[slot]
        more = {"node": node, "error": (hostile or "no leader") if how != "ok" else None}
        event(at, process, "invoke", "add", element, node=node)
        event(at + took, process, how, "add", element, term=4 if at < 7 else 5, **more)
        crashes[slot] += how == "info"
        busy[slot] = at + took
        if how == "ok":
            added.append(number)
    _nemesis(event, hostile)
    end = seconds + 2.0
    event(seconds, HARNESS, "info", "phase", {"phase": "heal"})
    event(seconds + 1.5, HARNESS, "info", "recovered", {"seconds": 1.5})
    event(end, HARNESS, "info", "phase", {"phase": "final"})
    kept = [e for e in added if not (state == "violation" and e == added[len(added) // 3])]
    for slot, node in enumerate(NODES):
        process = slot + 10 * crashes[slot]
        event(end + 0.1 * slot, process, "invoke", "read", node=node)
        event(end + 0.1 * slot + 0.05, process, "ok", "read", kept, node=node, term=6)
    if hostile:
        event(end + 1, 5 + 10 * crashes[5], "invoke", hostile, {"text": hostile}, key=hostile, node=hostile)
        event(
            end + 1.1, 5 + 10 * crashes[5], "info", hostile, {"text": hostile}, key=hostile, node=hostile, error=hostile
        )
    events.sort(key=lambda item: item[0])
    return [Op(index=i, time=round(at * 1e9), **fields) for i, (at, fields) in enumerate(events)]


def _nemesis(event: Any, hostile: str | None) -> None:
    cut = [[a, b] for a, b in (("n4", n) for n in NODES if n != "n4")]
    cut += [[b, a] for a, b in cut]
    calm: dict[str, Any] = {"cut": [], "down": [], "paused": []}
    steps: list[tuple[float, str, dict[str, Any], dict[str, Any]]] = [
        (
            6.0,
            "start-partition",
            {"fault": "partition", "action": "start", "shape": "isolate-leader"},
            {**calm, "cut": cut, "target": hostile or "n4 | n1 n2 n3 n5", "evidence": {"links_blocked": 8}},
        ),
        (
            10.0,
            "stop-partition",
            {"fault": "partition", "action": "stop"},
            {**calm, "target": "all links", "evidence": {"dropped": 412, "links_open": 20}},
        ),
        (
            16.0,
            "kill",
            {"fault": "kill", "action": "start", "spec": "one"},
            {
                **calm,
                "down": ["n2"],
                "target": "n2",
                "evidence": {
                    "n2": {"before": {"state": "running", "life": 1}, "after": {"state": "stopped", "life": 1}}
                },
            },
        ),
        (20.0, "start", {"fault": "kill", "action": "stop"}, {**calm, "target": "n2", "evidence": {"life": 2}}),
        (
            23.0,
            "pause",
            {"fault": "pause", "action": "start", "spec": "one"},
            {**calm, "paused": ["n5"], "target": "n5", "evidence": {"state": "T"}},
        ),
        (26.0, "resume", {"fault": "pause", "action": "stop"}, {**calm, "target": "n5", "evidence": {"state": "S"}}),
    ]
    for at, f, asked, done in steps:
        event(at, NEMESIS, "invoke", f, asked)
        event(at + 0.06, NEMESIS, "ok", f, {**asked, **done})


def _telemetry(seconds: float) -> pa.Table:
    """n4 leads in term 4 and keeps thinking so for a while after it was cut off; n1 leads in 5, n3 from 20 s in 6."""
    told = [
        (0.0, "n4", "leader", 4),
        *((0.0, node, "follower", 4) for node in ("n1", "n2", "n3", "n5")),
        (7.1, "n1", "leader", 5),
        (8.0, "n4", "follower", 4),
        (20.4, "n3", "leader", 6),
        (20.5, "n1", "follower", 6),
    ]
    rows = [
        {
            "time": round(at * 1e9),
            "node": node,
            "group": "metadata",
            "life": 1,
            "event": "role",
            "term": term,
            "role": role,
        }
        for at, node, role, term in told
        if at < seconds
    ]
    return pa.Table.from_pylist(rows, schema=TELEMETRY_SCHEMA)
