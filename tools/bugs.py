#!/usr/bin/env python3
"""Hunt the bugs that can be switched on, and write docs/bugs.md: what was found, by which checkers, how soon.

usage: tools/bugs.py [--budget SECONDS] [--draw default|chosen|store] [BUG...]     hunt these bugs; without any, all
       tools/bugs.py --write                                                       write the page again, hunt nothing

Each bug is hunted with the default draw and with a workload and nemeses that bring it out, some that are not the
metadata store's once more with one of its workloads, each until it is found or the budget of CPU seconds is used up
(default 240). docs/bugs.json keeps what was found; a later hunt of the same bug
replaces its entry. Two hunts run at a time, each on one core.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import hours
import msgspec
from hunts import COLUMNS, Hunt, ask, cells, head, hunt_of, row, side_by_side

from splitbrain.cluster.bugs import ALL, Bug

Draw: TypeAlias = Literal["default", "chosen", "store"]

DRAWS: Final[tuple[Draw, ...]] = get_args(Draw)

DOCS: Final = Path(__file__).parent.parent / "docs"
DATA: Final = DOCS / "bugs.json"
PAGE: Final = DOCS / "bugs.md"

CHOSEN: Final[dict[str, str]] = {
    "M01": "--workload register --nemesis kill,power --nodes 3,5 --interval 1",
    "M02": "--workload register --nemesis kill-all,kill --nodes 3,5 --interval 2",
    "M03": "--workload set --nemesis partition-leader,kill --nodes 3,5 --interval 1",
    "M04": "--workload register --nemesis partition-one-way,partition --nodes 3,5 --interval 1",
    "M05": "--workload register --nemesis kill-all --nodes 2,3",
    "M06": "--workload register --nemesis partition-one-way --nodes 3,5 --interval 14 --time-limit 55",
    "M07": "--workload register --nemesis membership-leave,partition-one --nodes 4,5 --interval 1",
    "M08": "--workload register --nemesis membership-learner,transfer-often --nodes 4 --interval 1 --rate 10"
    " --time-limit 30",
    "M09": "--workload register --nemesis partition-halves --nodes 4,6",
    "M10": "--workload register --nemesis packet-duplicate,kill-leader --nodes 5 --interval 1",
    "M11": "--workload register --nemesis power-all --nodes 3 --interval 1.5 --rate 50 --time-limit 60"
    " --world slow-disks --settings max-batch=1",
    "M12": "--workload register --nemesis partition-leader --nodes 3,5 --concurrency 3n --rate 200",
    "M13": "--workload set --nemesis partition-leader,disk-slow,power-majority --nodes 3,5 --interval 1 --rate 200",
    "M14": "--workload register --nemesis partition-mute-leader,power-all,power-majority --nodes 3 --interval 1.2"
    " --rate 100 --concurrency 10n --op-timeout 0.3 --time-limit 60 --world slow-disks",
    "M15": "--workload set --nemesis power-majority,power-leader --nodes 3,5 --interval 2",
    "M16": "--workload register --nemesis kill,power --nodes 3 --interval 1 --time-limit 20 --world slow-disks"
    " --settings checkpoint-interval=4",
    "M17": "--workload register --nemesis partition-leader --nodes 3,5",
    "M18": "--workload register --nemesis partition-one-way,pause-leader --nodes 3,5 --interval 2",
    "M19": "--workload register --nemesis partition-leader,kill-leader --nodes 5 --interval 1"
    " --rate 20 --concurrency 5n",
    "M20": "--workload set --nemesis packet-reorder,kill-leader --nodes 3,5 --interval 2 --rate 200",
    "M21": "--workload register --nemesis membership-leave,kill-one --nodes 4 --interval 10 --rate 10"
    " --time-limit 300 --world lan",
    "M22": "--workload register --nemesis partition-leader --nodes 3,5",
    "M23": "--workload register --nemesis partition-leader --nodes 3,5",
    "M24": "--workload register --nemesis kill-leader,pause-leader --nodes 3,5 --interval 1 --rate 200",
    "M25": "--workload register --nemesis partition-leader --nodes 3 --interval 2 --rate 200",
    "M26": "--workload register --nemesis clog-out,partition-one,partition-leader --nodes 3 --interval 0.5"
    " --rate 60 --time-limit 30 --world lan --settings heartbeat-ms=20,election-ms=100",
    "M27": "--workload register --nemesis pause-leader,partition-leader --nodes 3,5 --interval 2"
    " --settings lease-reads=1",
    "M28": "--workload fenced-reads --nemesis transfer-once,disk --nodes 3 --interval 0.5 --op-timeout 1"
    " --rate 50 --concurrency 5n",
    "M29": "--workload register --nemesis kill-all,cpu --nodes 3 --interval 2 --rate 200 --settings apply-slice=1",
    "M30": "--workload read-modes --nemesis rollback --nodes 3,5",
    "M31": "--workload counter --nemesis partition-leader,pause-leader --nodes 3,5 --interval 1 --op-timeout 5",
    "M32": "--workload counter --nemesis kill-leader,partition-leader --nodes 3,5 --interval 1"
    " --settings snapshot-interval=16",
    "M32B": "--workload counter --nemesis kill-leader,partition-leader --nodes 3,5 --interval 1",
    "M32C": "--workload counter --nemesis kill --nodes 3",
    "M33": "--workload register --nemesis kill-leader,partition-leader --nodes 3,5 --interval 1",
    "M34": "--workload rw-register --nemesis none --nodes 3,5 --rate 200 --concurrency 5n --time-limit 8",
    "M35": "--workload register --nemesis kill --nodes 3",
    "M36": "--workload register --nemesis kill --nodes 3",
    "M37": "--workload register --nemesis kill-all --nodes 3 --settings snapshot-interval=16",
    "M38": "--workload register --nemesis membership-leave --nodes 3,4 --interval 1 --rate 200 --time-limit 8"
    " --settings snapshot-interval=2",
    "M39": "--workload topology --nemesis partition-one --nodes 3 --interval 2 --time-limit 8"
    " --settings snapshot-interval=16",
    "M40": "--workload register --nemesis power --nodes 3 --interval 2 --settings checkpoint-interval=4,wal-bytes=1000",
    "M41": "--workload register --nemesis power --nodes 3 --interval 2 "
    "--settings checkpoint-interval=4,snapshot-interval=16",
    "M42": "--workload register --nemesis power --nodes 3 --interval 2 --settings checkpoint-interval=4",
    "M43": "--workload set --nemesis power --nodes 5 --interval 2 --rate 50",
    "M44": "--workload register --nemesis kill-all,kill --nodes 3 --interval 1 --rate 200 --settings wal-bytes=1000",
    "M45": "--workload register --nemesis groups-some,kill-all --nodes 3 --interval 1 --rate 10 --time-limit 20"
    " --settings checkpoint-interval=4096",
    "M46": "--workload register --nemesis membership-leave,kill-leader --nodes 3,5 --interval 0.5 --rate 200"
    " --settings chunk-bytes=100,snapshot-interval=16",
    "M47": "--workload register --nemesis membership-rash,partition-minority-leader --nodes 5"
    " --interval 1 --time-limit 20",
    "M48": "--workload register --nemesis membership-rash,partition-halves,partition-leader --nodes 4"
    " --interval 0.7 --rate 20 --time-limit 60 --world globe",
    "M49": "--workload register --nemesis membership-leave,kill-all --nodes 3,4,5 --interval 2"
    " --settings snapshot-interval=16384,checkpoint-interval=0",
    "M50": "--workload register --nemesis membership-rash,partition-leader --nodes 5 --interval 1"
    " --rate 20 --time-limit 60",
    "M51": "--workload register --nemesis membership-leave,packet-delay,packet-duplicate --nodes 3,4 --interval 1"
    " --rate 50 --time-limit 20",
    "M52": "--workload register --nemesis membership-leave --nodes 3 --interval 12 --rate 20 --time-limit 20"
    " --settings learners-first=1,snapshot-interval=1",
    "M53": "--workload tree --nemesis none --nodes 3 --time-limit 20",
    "M54": "--workload projections --nemesis none --nodes 3 --time-limit 20",
    "M55": "--workload tree --nemesis none --nodes 3 --time-limit 20",
    "M56": "--workload projections --nemesis none --nodes 3 --time-limit 20",
    "M57": "--workload topology --nemesis none --nodes 3 --time-limit 20",
    "M58": "--workload topology --nemesis partition-leader,kill-leader --nodes 3,5 --interval 1",
    "M59": "--workload topology --nemesis partition-one-way,partition-ring --nodes 3,5 --interval 3 --time-limit 20",
    "M64": "--workload migration --nemesis none --nodes 3 --rate 400 --concurrency 8n --world lan --time-limit 4",
    "M65": "--workload migration --nemesis none --nodes 3 --rate 200 --concurrency 10n --world lan --time-limit 6",
    "M66": "--workload migration --nemesis none --nodes 3 --rate 200 --concurrency 10n --world lan --time-limit 6",
    "M67": "--workload flags --nemesis kill-one --nodes 3 --interval 3 --rate 40 --concurrency 2n --time-limit 20"
    " --world lan",
    "M68": "--system formation --workload formation --nemesis discovery,kill-one,partition --nodes 5 --interval 2"
    " --rate 10 --time-limit 20 --world lan --settings discovery-retries=3",
    "M69": "--system formation --workload formation --nemesis discovery,kill-one,partition --nodes 5 --interval 2"
    " --rate 10 --time-limit 20 --world lan --settings discovery-retries=8",
    "M70": "--workload replicas --nemesis kill --nodes 5 --interval 8 --rate 20 --time-limit 40",
    "M71": "--workload poison --nemesis none --nodes 3 --rate 10 --concurrency 3 --time-limit 8",
    "M72": "--workload queue --nemesis kill --nodes 3 --interval 8 --rate 30 --time-limit 50"
    " --settings checkpoint-interval=1",
    "M73": "--workload single-active --nemesis kill-leader --nodes 3 --interval 12 --rate 200 --concurrency 2n"
    " --time-limit 60",
    "M75": "--workload poison --nemesis kill-all,kill-leader --nodes 3 --interval 1.5 --rate 100 --time-limit 15",
    "M76": "--workload replicas --nemesis kill --nodes 5 --interval 8 --rate 20 --time-limit 40",
    "M76B": "--workload replicas --nemesis kill --nodes 5 --interval 8 --rate 20 --time-limit 20",
    "M76C": "--workload replicas --nemesis kill --nodes 5 --interval 8 --rate 20 --time-limit 40",
    "M77": "--workload stream --nemesis kill-leader,partition --nodes 5 --rate 300 --interval 1 --time-limit 20",
    "M78": "--workload projections --nemesis kill --nodes 3 --interval 2 --time-limit 20",
    "M79": "--workload conversion --nemesis power --nodes 3 --interval 2 --rate 60 --time-limit 20",
    "M80": "--workload register --nemesis partition-one-way --nodes 3,5 --interval 14 --time-limit 55",
    "M81": "--workload records --nemesis partition --nodes 3,5",
    "M82": "--workload register --nemesis kill-all,kill-majority --nodes 3,5 --interval 8 --op-timeout 2",
    "M83": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 5"
    " --time-limit 30 --settings strategy=ignore,net-tick-ms=500",
    "M83B": "--system tables --workload declare --rate 20 --nemesis partition-bridge --nodes 3,5 --interval 5"
    " --time-limit 30 --settings strategy=ignore,net-tick-ms=500",
    "M83C": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 14"
    " --time-limit 60 --settings strategy=ignore,net-tick-ms=500",
    "M83D": "--system tables --workload declare --rate 20 --nemesis partition-bridge --nodes 3,5 --interval 14"
    " --time-limit 60 --settings strategy=pause-minority,net-tick-ms=500",
    "M83E": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 5"
    " --time-limit 30 --settings strategy=pause-minority,net-tick-ms=1000",
    "M83F": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 10"
    " --time-limit 60 --settings strategy=pause-minority,net-tick-ms=1000",
    "M84": "--system tables --workload declare --rate 20 --nemesis partition-halves --nodes 4 --interval 5"
    " --time-limit 30 --settings strategy=pause-minority,net-tick-ms=500",
    "M84B": "--system tables --workload set --rate 4 --nemesis partition-halves,kill-one --nodes 5 --interval 5"
    " --overlap 1 --time-limit 60 --settings strategy=pause-minority,net-tick-ms=500",
    "M84C": "--system tables --workload declare --rate 20 --nemesis partition-bridge,partition --nodes 4,5 --interval 4"
    " --time-limit 30 --settings strategy=pause-minority,net-tick-ms=500",
    "M84D": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 5"
    " --time-limit 30 --settings strategy=pause-minority,net-tick-ms=500",
    "M85": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 5"
    " --time-limit 30 --settings strategy=pause-if-all-down-ignore,net-tick-ms=500",
    "M85B": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 5"
    " --time-limit 30 --settings strategy=pause-if-all-down-ignore,preferred=2,net-tick-ms=500",
    "M86": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 5"
    " --time-limit 30 --settings strategy=autoheal,net-tick-ms=500",
    "M86B": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 5"
    " --time-limit 30 --settings strategy=autoheal,net-tick-ms=500",
    "M86C": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 25"
    " --time-limit 60 --settings strategy=autoheal,net-tick-ms=500",
    "M86D": "--system tables --workload declare --rate 20 --nemesis partition --nodes 3,5 --interval 5"
    " --time-limit 30 --settings strategy=autoheal,net-tick-ms=500",
    "M86E": "--system tables --workload declare --rate 20 --nemesis partition-halves --nodes 4 --concurrency 6"
    " --interval 5 --time-limit 30 --settings strategy=autoheal,net-tick-ms=500",
    "M87": "--system tables --workload set,register,declare --nemesis none --nodes 3,5",
    "M87B": "--system tables --workload register --nemesis none --nodes 3,5 --rate 200 --concurrency 5n",
    "M90": "--workload rw-register --nemesis none --nodes 3,5 --rate 200 --concurrency 5n --time-limit 8",
    "M91": "--workload rw-register --nemesis none --nodes 3,5 --rate 200 --concurrency 5n --time-limit 8",
    "M92": "--workload list-append --nemesis partition-leader --interval 2 --nodes 3,5 --rate 200"
    " --concurrency 5n --time-limit 8",
    "M93": "--workload rw-register --nemesis none --nodes 3,5 --rate 200 --concurrency 5n --time-limit 8",
    "M94": "--workload rw-register --nemesis none --nodes 3,5 --rate 200 --concurrency 5n --time-limit 8",
    "M95": "--workload counter --nemesis kill-leader,partition-leader --nodes 3,5 --interval 1",
    "M96": "--workload counter --nemesis none --nodes 3 --time-limit 8",
    "M97": "--workload long-fork --nemesis none --nodes 3,5 --rate 200 --concurrency 5n --time-limit 8",
    "M98": "--workload stream --nemesis kill-leader --nodes 5 --rate 60 --interval 1 --time-limit 20",
    "M99": "--workload stream --nemesis kill-leader,partition --nodes 5 --rate 60 --time-limit 20",
}
"""What brings a bug out: the options of its hunt."""

STORE: Final[dict[str, str]] = {
    "M28": "--workload projections --nemesis transfer-once,disk --nodes 3 --interval 0.5 --op-timeout 1",
    "M29": "--workload tree --nemesis cpu,kill-all --nodes 3 --interval 2 --rate 200 --time-limit 20 --op-timeout 5"
    " --world slow-cpu --settings apply-slice=1",
    "M31": CHOSEN["M31"],
    "M32": CHOSEN["M32"],
    "M39": CHOSEN["M39"],
}
"""What brings a bug out with a workload of the metadata store: tree, topology, projections, counter with triggers."""

AS_BY_DESIGN: Final = frozenset({"M87", "M87B"})
"""They look like what the table store loses in partitions by design: the default draw, with some, proves nothing."""

_OF_SYSTEMS: Final = {
    bug.id: "" if bug.of == "metadata" else f"--system {bug.of}" for bug in ALL.values() if bug.id not in AS_BY_DESIGN
}

OPTIONS: Final[dict[Draw, dict[str, str]]] = {"default": _OF_SYSTEMS, "chosen": CHOSEN, "store": STORE}

HEAD: Final = """# Bugs, and what finds them

Written by `tools/bugs.py`: do not edit it. Each bug is a switch of the metadata cluster (`splitbrain run --bug M23`),
of the table store (`splitbrain run --system tables --bug M84`), or of nodes that find each other
(`splitbrain run --system formation --bug M68`). Each was hunted twice, from seed 1 until it was
found or its budget of CPU seconds was used up: with the default draw, and with options that bring it out. Some were
hunted once more, with a workload of the metadata store. CPU seconds are those of one busy machine: compare them with
each other only. What checkers said of runs of the table store includes what it loses without a switch; so `M87` and
`M87B`, which look like these losses, were not hunted with the default draw.
"""


TITLES: Final[dict[Draw, str]] = {
    "default": "the default draw",
    "chosen": "the chosen draw",
    "store": "a workload of the metadata store",
}


def hunt(bug: Bug, draw: Draw, budget_s: float) -> Hunt:
    """Hunt one bug on one core."""
    words = ["--bug", bug.id, *shlex.split(OPTIONS[draw][bug.id]), "--seed", "1"]
    with tempfile.TemporaryDirectory() as store:
        answer = ask([*words, "--jobs", "1", "--budget", f"{budget_s:g}", "--store", store])
    return hunt_of(answer, shlex.join(["splitbrain", "hunt", *words]), bug.seen_by)


def read() -> dict[str, dict[Draw, Hunt]]:
    """What earlier hunts found."""
    return msgspec.json.decode(DATA.read_bytes(), type=dict[str, dict[Draw, Hunt]]) if DATA.exists() else {}


def keep(found: dict[str, dict[Draw, Hunt]]) -> None:
    """Write data and page."""
    ordered = dict(sorted(found.items()))
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    PAGE.write_text(page(ordered))


MISSED: Final[dict[str, str]] = {
    "M14": "a follower's sync must be under way while a new leader replaces what is being synced, its late report must"
    " make the majority, and power must be lost before the next sync ends. That takes a disk slower than an election",
    "M16": "a checkpoint must be written while entries in it wait for the log's sync, and power be lost in between: on"
    " slow disks alone, with an interval of a few entries. A draw in which another seed had such a disk found it once",
    "M30": "only a node that goes back to an earlier version is in that state, and the default draw has no `rollback`:"
    " a correct cluster need not bear it",
    "M46": "a leader must be lost while a follower has a part of its snapshot. Parts of 100 bytes make that moment long"
    " enough, but the default draw has them only in tests in which leaders stay",
    "M83D": "the tables lose writes in partitions without the switch as well, and a hunt ends with the first of these"
    " losses: none of them is counted as found",
}
"""Why the default draw does not find a bug: the state that no run reached."""


def page(found: dict[str, dict[Draw, Hunt]]) -> str:
    """The page in Markdown."""
    lines = [HEAD]
    for draw in DRAWS:
        hunts = [hunts[draw] for hunts in found.values() if draw in hunts]
        if hunts:
            found_here = sum(hunt.found for hunt in hunts)
            lines.append(f"Found with {TITLES[draw]}: {found_here} of {len(hunts)} hunted.\n")
    lines += _without(hours.read())
    lines += head("bug", "what is broken", "source", "can be seen by")
    lines += [row(f"`{bug.id}`", bug.line, bug.source, ", ".join(bug.seen_by)) for bug in ALL.values()]
    for draw in DRAWS:
        lines += ["", f"## With {TITLES[draw]}", "", *_table(found, draw)]
        if draw == "default":
            lines += _missed(found)
    return "\n".join(lines) + "\n"


def _without(found: Sequence[hours.Hours]) -> Iterable[str]:
    """What was hunted without a bug, draw by draw; nothing was found, or it would not be counted."""
    for draw in hours.DRAWS:
        ours = [each for each in found if each.draw == draw]
        if ours:
            runs, inconclusive = sum(each.runs for each in ours), sum(each.inconclusive for each in ours)
            simulated_h, revisions = sum(each.simulated_h for each in ours), ", ".join(each.revision for each in ours)
            yield (
                f"Without a bug, with {hours.TITLES[draw]}: no violation in {simulated_h:.1f} simulated hours, "
                f"{runs} seeds, {inconclusive} of which tested too little to pass. What was found on the way was "
                f"mended, with a test, and its seeds were hunted again (`tools/hours.py`; revisions {revisions})."
            )
            yield ""


def _missed(found: dict[str, dict[Draw, Hunt]]) -> Iterable[str]:
    missed = [bug for bug, hunts in found.items() if "default" in hunts and not hunts["default"].found]
    if missed:
        yield from ("", "What it did not find, and why:", "")
        yield from (f"- `{bug}`: {MISSED.get(bug, 'no reason is known yet')}" for bug in missed)


def _table(found: dict[str, dict[Draw, Hunt]], draw: Draw) -> Iterable[str]:
    yield from head("bug", *COLUMNS)
    for bug, hunts in found.items():
        if draw in hunts:
            yield row(f"`{bug}`", cells(hunts[draw]))


def main(words: Sequence[str]) -> None:
    """Hunt what is asked for; keep each result as soon as it is there."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").partition("usage: ")[2].partition("\n\n")[0])
    parser.add_argument("bugs", nargs="*", choices=[*ALL, []], metavar="BUG")
    parser.add_argument("--budget", type=float, default=240.0)
    parser.add_argument("--draw", choices=DRAWS)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args(words)
    found = read()
    if given.write:
        keep(found)
        return
    wanted: list[tuple[Bug, Draw]] = [
        (ALL[bug], draw)
        for draw in DRAWS
        if given.draw in (None, draw)
        for bug in given.bugs or ALL
        if bug in OPTIONS[draw]
    ]

    def hunted(each: tuple[Bug, Draw]) -> Hunt:
        return hunt(*each, given.budget)

    for (bug, draw), result in side_by_side(hunted, wanted, 2):
        word = "found" if result.found else "NOT FOUND"
        print(f"{bug.id} {draw:8} {word:9} {result.cpu_s:6.1f} s  {result.kind}", flush=True)
        found.setdefault(bug.id, {})[draw] = result
        keep(found)


if __name__ == "__main__":
    main(sys.argv[1:])
