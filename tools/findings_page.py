"""docs/findings.md, from what is known of each cell of the matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from findings_runs import Found, Row
from hunts import head, row

from splitbrain.results.quantities import counted

HEAD: Final = """# Findings about third-party systems

Written by `tools/findings.py` from stored runs: do not edit it. Each run takes 60 s, with three nodes, under faults
that are drawn from its seed; a counter-check is a run without faults. A finding has at least three runs with faults and
a counter-check; anything less is "not yet". A finding is what a checker proved of what clients saw; it is no bug where
the vendor documents it.
"""

_NAMES: Final = {
    "etcd": "etcd",
    "rabbitmq": "RabbitMQ",
    "redis": "Redis with Sentinel",
    "zookeeper": "ZooKeeper",
}


def page(rows: Sequence[Row]) -> str:
    """The page in Markdown."""
    lines = [HEAD]
    lines += [*head("system", "store, strategy", "reads", "workload", "faults", "runs", "without faults", "found")]
    lines += [row(*_cells(each)) for each in rows]
    for system in dict.fromkeys(each.system for each in rows):
        own = [each for each in rows if each.system == system and each.found]
        if own:
            lines += ["", f"## {_NAMES.get(system, system)}"]
            for each in own:
                lines += _section(each)
    return "\n".join(lines) + "\n"


def _title(each: Row) -> str:
    return f"{_NAMES.get(each.system, each.system)} {each.version}"


def _how(each: Row) -> str:
    return ", ".join(part for part in (each.store, each.strategy, each.queues) if part)


def _cells(each: Row) -> tuple[str, ...]:
    runs = f"{each.runs} of {each.wanted}"
    notes = [f"{each.inconclusive} inconclusive"] if each.inconclusive else []
    notes += [f"{each.harness_errors} more failed in the harness"] if each.harness_errors else []
    return (
        _title(each),
        _how(each) or "-",
        each.read_mode,
        f"`{each.workload}`",
        each.nemesis,
        f"{runs} ({', '.join(notes)})" if notes else runs,
        ", ".join(each.control) or "none yet",
        _found(each),
    )


def _found(each: Row) -> str:
    said = "; ".join(f"{found.checker}: {found.anomaly} in {found.runs} of {each.runs}" for found in each.found)
    if each.faultless:
        said += f"; without faults as well: {', '.join(each.faultless)}"
    if each.state == "finding":
        return said
    if each.state == "nothing found":
        return "nothing"
    return f"not yet: {each.why}" + (f" (so far {said})" if said else "")


def _section(each: Row) -> Iterator[str]:
    how = _how(each)
    yield ""
    yield f"### {_title(each)}, `{each.workload}`, {each.read_mode} reads{f', {how}' if how else ''}, {each.nemesis}"
    if each.state != "finding":
        yield ""
        yield f"Not yet a finding: {each.why}."
    for found in each.found:
        yield from _one(each, found)


def _one(each: Row, found: Found) -> Iterator[str]:
    yield ""
    often = f"in {found.runs} of {counted(each.runs, 'run')}"
    also = " It does so without faults as well: no fault is needed." if found.checker in each.faultless else ""
    yield f"`{found.checker}` names {found.anomaly} {often}.{also} In the run of seed {found.seed}:"
    yield ""
    yield f"    {found.sentence}"
    yield ""
    if not found.schedule:
        yield "No fault had begun by then."
    else:
        how = "One fault alone, in a run of its own, was enough" if found.shrunk else "The shortest schedule of faults"
        yield f"{how} ({counted(len(found.schedule), 'op')} until then):"
        yield ""
        yield from (f"    {msgspec.json.encode(line).decode()}" for line in found.schedule)
    if found.log:
        yield ""
        yield f"What nodes logged from the fault before it on, until the violation was complete at {found.at_s:.1f} s:"
        yield ""
        yield from (f"    {line.at_s:8.3f} s  {line.node}  {line.text}" for line in found.log)
    yield ""
    if found.says:
        yield f"Documented: {found.says} ({found.source})"
    else:
        yield "Nothing is noted here of what the vendor documents about this."
