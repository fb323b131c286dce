"""What a node says of the first entry of a term in its log."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from splitbrain.cluster.chain import EMPTY, LogChain
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.log import Log
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.telemetry import Sources, Telemetry
from splitbrain.cluster.wire import Status


def entry(index: int, term: int) -> Entry:
    return Entry(index, term, "command", b"")


def test_behind_a_snapshot_that_took_the_place_of_as_many_entries_of_an_earlier_term_no_term_begins() -> None:
    lines: list[dict[str, Any]] = []
    log = Log([])
    clock = SimpleNamespace(wall_ns=lambda: 0, monotonic_ns=lambda: 0)

    def note(line: bytes) -> None:
        lines.append(json.loads(line))

    runtime = SimpleNamespace(clock=clock, telemetry=note)
    status = Status("n1", "follower", 2, None, 0, 0, "", "")
    sources = Sources(
        voters=lambda: (),
        members=lambda: (),
        member="n1",
        status=lambda: status,
        projections=lambda: ("", ""),
        log=LogChain(log, lambda: (log.base_index, EMPTY)),
        version=lambda _: 1,
        configured=lambda _: (0, Configuration(())),
    )
    telemetry = Telemetry(cast(Runtime, runtime), "g", sources)

    def append(*entries: Entry) -> None:
        log.append(entries)
        telemetry.appended(entries)

    append(entry(1, 1), entry(2, 1), entry(3, 1))
    log.replace(3, 2)
    telemetry.installed(3, 2)
    append(entry(4, 2))
    append(entry(5, 3))
    assert [(line["log_index"], line["log_term"]) for line in lines if line["event"] == "first"] == [(1, 1), (5, 3)]
