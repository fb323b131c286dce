from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from splitbrain.results import telemetry
from splitbrain.results.arrow import TELEMETRY_SCHEMA

START_NS = 1_700_000_000_000_000_000


def _line(offset_ns: int, event: str, **fields: Any) -> bytes:
    return json.dumps({"wall": START_NS + offset_ns, "event": event, **fields}, separators=(",", ":")).encode()


def test_lines_of_all_nodes_become_one_table_in_the_order_of_time(tmp_path: Path) -> None:
    one, two = tmp_path / "n1.jsonl", tmp_path / "n2.jsonl"
    one.write_bytes(
        b"\n".join(
            [
                _line(-5, "start"),
                _line(
                    20,
                    "role",
                    group="g",
                    term=2,
                    role="leader",
                    leader="n1",
                    commit=7,
                    applied=6,
                    voters=["n1", "n2"],
                    chain="c0",
                    state="s0",
                    projection="p0",
                    projected="q0",
                    count=6,
                    log_index=8,
                    log_term=2,
                    log="l0",
                    raised_by="n3#1",
                    members=["n1", "n2", "n3#1"],
                    counted_index=7,
                    counted={"n1": 7, "n2": 6, "n3#1": 8},
                ),
                b"",
            ]
        )
    )
    two.write_bytes(_line(10, "start") + b"\n")
    collected = telemetry.collect({"n1": one, "n2": two, "n3": tmp_path / "never started"}, telemetry.Start(START_NS))
    assert collected.unreadable == {}
    assert collected.table.schema.equals(TELEMETRY_SCHEMA)
    rows = collected.table.to_pylist()
    assert [(row["time"], row["node"], row["life"], row["event"]) for row in rows] == [
        (-5, "n1", 1, "start"),
        (10, "n2", 1, "start"),
        (20, "n1", 1, "role"),
    ]
    assert rows[2] == {
        "time": 20,
        "node": "n1",
        "group": "g",
        "life": 1,
        "event": "role",
        "term": 2,
        "role": "leader",
        "leader": "n1",
        "commit_index": 7,
        "applied_index": 6,
        "voters": ["n1", "n2"],
        "chain_hash": "c0",
        "state_hash": "s0",
        "last_index": None,
        "projection_hash": "p0",
        "projected_hash": "q0",
        "applied_count": 6,
        "log_index": 8,
        "log_term": 2,
        "log_hash": "l0",
        "raised_by": "n3#1",
        "members": "n1 n2 n3#1",
        "counted_index": 7,
        "counted": "n1=7 n2=6 n3#1=8",
    }


def test_a_torn_line_is_counted_and_the_next_life_on_the_same_line_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "n1.jsonl"
    torn = _line(2, "role", role="leader")[:-9]
    path.write_bytes(_line(1, "start") + b"\n" + torn + _line(3, "start") + b"\n" + _line(4, "role") + b"\n" + torn)
    collected = telemetry.collect({"n1": path}, telemetry.Start(START_NS))
    assert collected.unreadable == {"n1": 2}
    rows = [(row["time"], row["event"], row["life"]) for row in collected.table.to_pylist()]
    assert rows == [(1, "start", 1), (3, "start", 2), (4, "role", 2)]


def test_lines_of_another_shape_are_counted_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "n1.jsonl"
    path.write_bytes(b'{"wall":"noon","event":"start"}\n{"event":"start"}\n[]\n\xff\xfe\n' + _line(1, "start", new=1))
    collected = telemetry.collect({"n1": path}, telemetry.Start(START_NS))
    assert collected.unreadable == {"n1": 4}
    assert collected.table.num_rows == 1


def test_rows_of_a_node_stay_in_the_order_in_which_it_wrote_them_though_its_clock_was_set_back(tmp_path: Path) -> None:
    one, two = tmp_path / "n1.jsonl", tmp_path / "n2.jsonl"
    one.write_bytes(b"\n".join([_line(10, "start"), _line(40, "role"), _line(5, "commit"), _line(50, "stop")]))
    two.write_bytes(b"\n".join([_line(20, "start"), _line(45, "role")]))
    rows = telemetry.collect({"n1": one, "n2": two}, telemetry.Start(START_NS)).table.to_pylist()
    assert [(row["node"], row["time"]) for row in rows] == [
        ("n1", 10),
        ("n2", 20),
        ("n1", 40),
        ("n1", 5),
        ("n2", 45),
        ("n1", 50),
    ]


def test_numbers_that_no_column_can_hold_make_a_line_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "n1.jsonl"
    path.write_bytes(b"\n".join([_line(1, "start"), _line(2, "commit", commit=2**70), _line(2**70, "commit")]))
    collected = telemetry.collect({"n1": path}, telemetry.Start(START_NS))
    assert (collected.table.num_rows, collected.unreadable) == (1, {"n1": 2})


def test_lines_in_memory_have_their_true_times_whatever_the_nodes_clocks_said() -> None:
    lines = {
        "n2": [(30, _line(900, "start")), (50, _line(7, "role", term=1, role="leader"))],
        "n1": [(10, _line(20, "start")), (40, b"no line"), (60, _line(5, "start", commit=3))],
    }
    table = telemetry.table_of(lines)
    assert table.schema.equals(TELEMETRY_SCHEMA)
    assert [(row["time"], row["node"], row["life"], row["event"]) for row in table.to_pylist()] == [
        (10, "n1", 1, "start"),
        (30, "n2", 1, "start"),
        (50, "n2", 1, "role"),
        (60, "n1", 2, "start"),
    ]
    assert telemetry.table_of({}).num_rows == 0


MONO_NS = 7_000_000_000_000
"""What the controller's monotonic clock showed when the test began."""


def _placed(path: Path, start: telemetry.Start, *lines: bytes) -> list[int]:
    path.write_bytes(b"\n".join(lines))
    return [row["time"] for row in telemetry.collect({"n1": path}, start).table.to_pylist()]


def test_lines_are_placed_by_the_hosts_monotonic_clock_whatever_the_wall_clock_says(tmp_path: Path) -> None:
    ahead_ns = -123_000_000_000
    lines = [
        _line(3_600_000_000_000, "start", mono=MONO_NS + ahead_ns + 10),
        _line(-5, "role", mono=MONO_NS + ahead_ns + 20),
    ]
    start = telemetry.Start(START_NS, MONO_NS, {"n1": ahead_ns, "n2": 0})
    assert _placed(tmp_path / "n1.jsonl", start, *lines) == [10, 20]


def test_lines_that_the_controller_wrote_are_placed_by_its_own_clock(tmp_path: Path) -> None:
    start = telemetry.Start(START_NS, MONO_NS, {"n1": 999_999})
    assert _placed(tmp_path / "n1.jsonl", start, _line(70, "start", at=MONO_NS + 30)) == [30]


def test_without_a_monotonic_clock_to_compare_lines_are_placed_by_the_wall_clock(tmp_path: Path) -> None:
    told = _line(40, "start", mono=MONO_NS + 10, at=MONO_NS + 20)
    assert _placed(tmp_path / "n1.jsonl", telemetry.Start(START_NS), told) == [40]
    unknown_host = telemetry.Start(START_NS, MONO_NS, {"n2": 0})
    assert _placed(tmp_path / "n1.jsonl", unknown_host, _line(40, "start", mono=MONO_NS + 10)) == [40]
    older_line = telemetry.Start(START_NS, MONO_NS, {"n1": 0})
    assert _placed(tmp_path / "n1.jsonl", older_line, _line(40, "start")) == [40]


def test_each_group_of_a_node_counts_its_own_lives(tmp_path: Path) -> None:
    path = tmp_path / "n1.jsonl"
    lines = [("start", "g"), ("start", "g1"), ("commit", "g"), ("start", "g"), ("commit", "g"), ("commit", "g1")]
    path.write_bytes(b"\n".join(_line(at, event, group=group) for at, (event, group) in enumerate(lines)))
    rows = telemetry.collect({"n1": path}, telemetry.Start(START_NS)).table.to_pylist()
    assert [(row["group"], row["life"]) for row in rows] == [
        ("g", 1),
        ("g1", 1),
        ("g", 1),
        ("g", 2),
        ("g", 2),
        ("g1", 1),
    ]


def test_groups_that_some_node_deleted_are_no_groups_of_clients(tmp_path: Path) -> None:
    path = tmp_path / "n1.jsonl"
    lines = [("start", "g"), ("start", "g1"), ("delete", "g1"), ("start", "g1#1")]
    path.write_bytes(b"\n".join(_line(at, event, group=group) for at, (event, group) in enumerate(lines)))
    table = telemetry.collect({"n1": path}, telemetry.Start(START_NS)).table
    assert telemetry.of_lasting_groups(table)["group"].to_pylist() == ["g", "g1#1"]
    lasting = table.slice(0, 1)
    assert telemetry.of_lasting_groups(lasting) is lasting
