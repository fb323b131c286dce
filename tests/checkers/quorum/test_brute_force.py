"""The checker says of random runs what the definitions say, spelt out naively; and this comparison can fail."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import HealthCheck, given, settings

from splitbrain.checkers.quorum.checker import QuorumProgress
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import from_table
from splitbrain.results.history import HARNESS, NEMESIS
from tests.checkers.quorum import brute_force
from tests.checkers.quorum.brute_force import Judgement
from tests.checkers.support import Script
from tests.checkers.telemetry import row, told

TICK_S = 0.5
"""Times are multiples of it, so that much happens at once and at the borders of windows."""

END = 24
FAULTS = ("partition", "kill", "pause", "packet", "clock")
ERRORS = (None, None, "mismatch", "no_leader", "not_found: queue 'q'")


@st.composite
def runs(draw: st.DrawFn) -> tuple[pa.Table, pa.Table, dict[str, Any]]:
    """A history, telemetry and options: few nodes, few instants, and faults as dense as ops."""
    nodes = [f"n{number + 1}" for number in range(draw(st.sampled_from([3, 3, 4, 5])))]
    events: list[tuple[float, int, int, str, str, Any, dict[str, Any]]] = []
    _faults(draw, nodes, events)
    _harness(draw, nodes, events)
    _ops(draw, nodes, events)
    script = Script()
    for time_s, _, process, how, f, value, rest in sorted(events, key=lambda event: event[:2]):
        script.event(process, how, f, value, time_s=time_s, **rest)  # pyright: ignore[reportArgumentType]
    options = {
        "nodes": nodes,
        "recovery_bound_s": draw(st.sampled_from([0.5, 1.0, 2.0])),
        "op_timeout_s": draw(st.sampled_from([0.5, 1.0])),
        "attempts": draw(st.integers(1, 3)),
        "lease_s": draw(st.sampled_from([0.0, 0.0, 0.5, 1.5])),
        "clock_offset_s": draw(st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0])),
        "groups": draw(st.sampled_from([[], [], ["g"], ["h"], ["g", "h"]])),
    }
    return script.table(), _telemetry(draw, nodes), options


def _faults(draw: st.DrawFn, nodes: list[str], events: list[Any]) -> None:
    time = draw(st.integers(0, 6))
    for number in range(draw(st.integers(0, 5))):
        fault = draw(st.sampled_from(FAULTS))
        completes = draw(st.integers(0, 9))
        end = time + draw(st.sampled_from([0, 1, 1, 2, 5]))
        events.append((time * TICK_S, 10 * number, NEMESIS, "invoke", fault, {"fault": fault}, {}))
        if completes:
            what = _wrong(draw, nodes, fault) if completes > 1 else None
            how = "ok" if completes > 2 else "info"
            events.append((end * TICK_S, 10 * number + 1, NEMESIS, how, fault, what, {}))
        time = draw(st.integers(time, end)) if draw(st.integers(0, 5)) == 0 else end + draw(st.integers(0, 7))


def _wrong(draw: st.DrawFn, nodes: list[str], fault: str) -> dict[str, Any]:
    """What is wrong after a fault, now and then beside what an earlier one did; parts may be untold."""
    links = list(permutations(nodes, 2))
    some = st.lists(st.sampled_from(nodes), max_size=len(nodes), unique=True)
    told: dict[str, Any] = {"fault": fault, "cut": [], "down": [], "paused": []}
    shape = draw(st.sampled_from(["none", "none", "sides", "sides", "one way", "any"]))
    if shape == "sides":
        group = draw(some)
        told["cut"] = [list(link) for link in links if (link[0] in group) != (link[1] in group)]
    elif shape == "one way":
        deaf = draw(st.sampled_from(nodes))
        told["cut"] = [list(link) for link in links if link[1] == deaf]
    elif shape == "any":
        told["cut"] = [list(link) for link in draw(st.lists(st.sampled_from(links), unique=True))]
    if fault == "packet":
        told["links"] = [list(link) for link in draw(st.lists(st.sampled_from(links), unique=True))]
    if fault in ("kill", "pause"):
        told["down" if fault == "kill" else "paused"] = draw(some)
    if fault == "clock":
        told["clocks"] = draw(some)
    for part in draw(st.sampled_from([(), (), (), (), ("cut",), ("down", "paused")])):
        del told[part]
    return told


def _harness(draw: st.DrawFn, nodes: list[str], events: list[Any]) -> None:
    def note(tick: int, f: str, value: Any) -> None:
        events.append((tick * TICK_S, draw(st.integers(0, 60)), HARNESS, "info", f, value, {}))

    note(0, "phase", {"phase": "faults"})
    if draw(st.integers(0, 3)) == 0:
        note(
            draw(st.integers(0, END)), draw(st.sampled_from(["crash", "halt"])), {"node": draw(st.sampled_from(nodes))}
        )
    if draw(st.integers(0, 4)) == 0:
        note(draw(st.integers(0, END)), "stall", {"gap_ms": draw(st.sampled_from([250, 1000]))})
    if draw(st.booleans()):
        heal = draw(st.integers(8, 18))
        note(heal, "phase", {"phase": "heal"})
        over = heal + draw(st.integers(1, 3))
        if draw(st.booleans()):
            note(over, "healed", {})
        if draw(st.integers(0, 4)):
            seconds = draw(st.sampled_from([1.0, 1.0, 1.0, None]))
            note(over + draw(st.integers(1, 3)), "recovered", {"seconds": seconds})
    if draw(st.integers(0, 2)) == 0:
        note(END, "phase", {"phase": "quiet"})
    note(END + draw(st.integers(0, 6)), "phase", {"phase": "end"})


def _ops(draw: st.DrawFn, nodes: list[str], events: list[Any]) -> None:
    asked = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 20), st.integers(0, 9)), max_size=4))
    single = [(draw(st.integers(0, END)), draw(st.integers(0, 4)), 1) for _ in range(draw(st.integers(0, 8)))]
    rounds = [(begin, length, kind) for kind, begin, length in asked]
    targets = [draw(st.sampled_from(nodes)) for _ in rounds]
    if draw(st.integers(0, 2)) == 0:  # most of the nodes answer all the time
        busy = draw(st.lists(st.sampled_from(nodes), min_size=len(nodes) - 1, unique=True))
        rounds, targets = [*rounds, *((0, END, 0) for _ in busy)], [*targets, *busy]
    process = 0
    for (begin, length, kind), node in zip(rounds, targets, strict=True):  # asked again and again, it answers alike
        for tick in range(begin, min(begin + length, END)):
            process += 1
            _op(events, process, node, tick, tick + kind % 2, "ok" if kind < 4 else "info", None, None)
    for begin, length, _ in single:
        process += 1
        node = draw(st.sampled_from([*nodes, *nodes, None, "stranger"]))
        how = draw(st.sampled_from(["ok", "ok", "ok", "fail", "info", "open"]))
        error = draw(st.sampled_from(ERRORS)) if how == "fail" else None
        _op(events, process, node, begin, min(begin + length, END), how, draw(st.sampled_from([None, 1, 2, 3])), error)


def _op(
    events: list[Any],
    process: int,
    node: str | None,
    begin: int,
    end: int,
    how: str,
    term: int | None,
    error: str | None,
) -> None:
    # at one instant ops end before, amid or after what else happens then
    events.append((begin * TICK_S, process % 60, process, "invoke", "write", 1, {"node": node}))
    if how != "open":
        told = {"node": node, "term": term, "error": error}
        events.append((end * TICK_S, 60 + process % 60, process, how, "write", 1, told))


def _telemetry(draw: st.DrawFn, nodes: list[str]) -> pa.Table:
    sets = [nodes, nodes[:3], nodes[:2], nodes[1:], []]
    rows: list[dict[str, Any]] = []
    group = draw(st.sampled_from(["g", "g", "g", "h", None])) if draw(st.integers(0, 4)) == 0 else "g"
    for _ in range(draw(st.integers(0, 8))):
        leads = draw(st.booleans())
        rows.append(
            row(
                draw(st.integers(0, 2 * END)) * TICK_S / 2,
                draw(st.sampled_from(nodes)),
                "role" if leads else "commit",
                group=group if draw(st.integers(0, 9)) else "g",
                term=draw(st.sampled_from([1, 2, 3, None])),
                role="leader" if leads else "follower",
                commit_index=draw(st.sampled_from([0, 1, 2, 3, None])),
                last_index=draw(st.sampled_from([None, 1, 2])) if leads else None,
                applied_index=draw(st.sampled_from([None, 2, 2, 3])),
                state_hash=draw(st.sampled_from([None, "a", "a", "b"])),
                voters=draw(st.sampled_from([None, None, *sets])),
            )
        )
    for of in draw(st.sampled_from([(), (), ("g",), ("g", "h")])):  # somebody is elected, and commits
        led: dict[str, Any] = {"group": of, "term": draw(st.sampled_from([2, 3])), "role": "leader"}
        elected, node = draw(st.integers(0, END)), draw(st.sampled_from(nodes))
        rows.append(row(elected * TICK_S / 2, node, "role", **led, last_index=1))
        rows.append(row((elected + draw(st.integers(0, 8))) * TICK_S / 2, node, **led, commit_index=2))
    if draw(st.booleans()):  # all tell where they are in the end
        rows += [
            row(END * TICK_S, node, applied_index=draw(st.sampled_from([3, 3, 3, 4])), state_hash="a") for node in nodes
        ]
    return told(*sorted(rows, key=lambda each: each["time"]))


def naive(history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Judgement:
    """What the definitions say."""
    events = [
        {
            name: getattr(op, name)
            for name in ("index", "time", "process", "type", "f", "value", "node", "term", "error")
        }
        for op in from_table(history)
    ]
    return brute_force.judge(events, telemetry.to_pylist(), options)


def told_by_checker(history: pa.Table, verdict: Verdict) -> dict[str, Any]:
    """The verdict in the shape of `expected`."""
    figures = verdict.figures
    return {
        "windows": [
            (
                round(row["start_s"] * 1e9),
                round(row["end_s"] * 1e9),
                {frozenset(voters) for voters in row["configurations"]},
                set(row["capable"]),
                set(row["possibly_capable"]),
                set(row["possibly_served"]),
                {frozenset(core) for core in row["cores"]},
                row["Q3"],
            )
            for row in figures["windows"]
        ],
        "ops": {
            rule: {row["op"] for row in figures["violations"] if row["rule"] == rule}
            for rule in ("Q1", "Q2", "Q8", "Q10")
        },
        "Q3": any(row["rule"] == "Q3" for row in figures["violations"]),
        "Q4": {
            row["op"]: {node: None if s is None else round(s * 1e9) for node, s in row["nodes"].items()}
            for row in figures["recovery"]
        },
        "Q7": figures["rules"]["Q7"],
        "Q9": {
            **{node: (of["time"], of["ops"]) for node, of in figures["availability"]["nodes"].items()},
            None: (figures["availability"]["cluster"]["time"], figures["availability"]["cluster"]["ops"]),
        },
    }


def expected(history: pa.Table, judgement: Judgement) -> dict[str, Any]:
    """What the verdict should say, answers by the index of their completion."""
    completion: dict[int, int] = {}
    begun: dict[int, int] = {}
    for op in from_table(history):
        if op.process >= 0 and op.type == "invoke":
            begun[op.process] = op.index
        elif op.process >= 0:
            completion[begun[op.process]] = op.index
    return {
        "windows": [
            (
                window.start,
                window.end,
                set(window.configs),
                window.capable,
                window.possibly_capable,
                window.possibly_served,
                window.cores,
                results,
            )
            for window, results in zip(judgement.windows, judgement.progress, strict=True)
        ],
        "ops": {rule: {completion[index] for index in found} for rule, found in judgement.ops.items()},
        "Q3": "violated" in judgement.progress,
        "Q4": judgement.recovery,
        "Q7": judgement.converged,
        "Q9": {
            node: tuple(None if share is None else round(share, 6) for share in shares)
            for node, shares in judgement.availability.items()
        },
    }


def agree(run: tuple[pa.Table, pa.Table, dict[str, Any]]) -> None:
    """The checker and the naive judge agree."""
    history, telemetry, options = run
    verdict = QuorumProgress().check(history, telemetry, options)
    assert told_by_checker(history, verdict) == expected(history, naive(*run))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(runs())
def test_the_checker_says_what_the_definitions_say(run: tuple[pa.Table, pa.Table, dict[str, Any]]) -> None:
    agree(run)
