"""docs/findings.md, from what is known of each cell of the matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from findings_logs import KEPT
from findings_runs import Found, Row
from hunts import head, row

from splitbrain.results.quantities import counted

HEAD: Final = """# Findings about third-party systems

`tools/findings.py` writes this page from stored runs: do not edit it. Each run takes 60 s and has three nodes, and its
faults are drawn from its seed. Every test is also run without faults.

- A *finding* is what a checker proved from the answers that clients got. It needs at least three runs with faults, and
  one without that proved something. It is no bug where the vendor documents that behaviour: see "Known" below it.
- A run is *inconclusive* if it tested too little to prove anything.
- *Reads* are linearizable, or serializable: one node answers alone.
- Of RabbitMQ the table names the metadata store and the partition handling.
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
    lines += [*head("system", "setting", "reads", "workload", "faults", "runs with faults", "runs without", "found")]
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


def _faults(each: Row) -> str:
    return each.nemesis.replace(",", ", ")


def _cells(each: Row) -> tuple[str, ...]:
    runs = str(each.runs) if each.runs >= each.wanted else f"{each.runs} of {each.wanted}"
    notes = [f"{each.inconclusive} inconclusive"] if each.inconclusive else []
    notes += [f"{each.harness_errors} more failed in the harness"] if each.harness_errors else []
    outcomes = Counter(each.control)
    return (
        _title(each),
        _how(each) or "-",
        each.read_mode,
        f"`{each.workload}`",
        _faults(each),
        f"{runs} ({', '.join(notes)})" if notes else runs,
        ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in sorted(outcomes)) or "none yet",
        _found(each),
    )


def _found(each: Row) -> str:
    said = "; ".join(f"`{found.checker}`: {found.anomaly} in {found.runs} of {each.runs}" for found in each.found)
    if each.faultless:
        names = ", ".join(f"`{checker}`" for checker in each.faultless)
        said = "; ".join(part for part in (said, f"without faults as well: {names}") if part)
    if each.state == "finding":
        return said
    if each.state == "nothing found":
        return "nothing"
    return f"not decided: {each.why}" + (f" (so far {said})" if said else "")


def _section(each: Row) -> Iterator[str]:
    how = _how(each)
    yield ""
    yield f"### {_title(each)}, `{each.workload}`, {each.read_mode} reads{f', {how}' if how else ''}, {_faults(each)}"
    if each.state != "finding":
        yield ""
        yield f"Not decided: {each.why}."
    for found in each.found:
        yield from _one(each, found)


def _one(each: Row, found: Found) -> Iterator[str]:
    yield ""
    often = f"in {found.runs} of {counted(each.runs, 'run')}"
    also = " That happens without faults as well: no fault is needed." if found.checker in each.faultless else ""
    yield f"The checker `{found.checker}` found `{found.anomaly}` {often}.{also}"
    yield ""
    yield f"It says of the run with seed {found.seed}:"
    yield ""
    yield f"    {found.sentence}"
    yield ""
    if not found.schedule:
        yield "No fault had begun by then."
    else:
        shrunk = (
            "This run has one fault only, and that was enough" if found.shrunk else "These are its faults until then"
        )
        yield f"{shrunk}, as `--schedule` reads them (seconds of the run, what, which nodes):"
        yield ""
        yield from (f"    {msgspec.json.encode(line).decode()}" for line in found.schedule)
    if found.log:
        cut = f" (the first {KEPT} lines)" if len(found.log) == KEPT else ""
        until = f"up to its proof at {found.at_s:.1f} s{cut}"
        since = "after the last fault " if found.schedule else ""
        yield ""
        yield f"What nodes logged {since}before the violation, {until}:"
        yield ""
        yield from (f"    {line.at_s:8.3f} s  {line.node}  {line.text}" for line in found.log)
    yield ""
    if found.says:
        yield f"Known: {found.says} ({found.source})"
    else:
        yield "Nothing is known here that explains it."
