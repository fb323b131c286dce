#!/usr/bin/env python3
"""Hunt the table store under each strategy for partitions, and write docs/strategies.md: what each does and loses.

usage: tools/strategies.py [--budget SECONDS] [--jobs N] [STRATEGY...]     hunt these; without any, all
       tools/strategies.py --write                                        write the page again, hunt nothing

Each strategy is hunted until docs/strategies.json has so many CPU seconds of it (default 240), in hunts of a few seeds
that go on where the last one ended: so it may be interrupted, and goes on. No switch is on: what is found is what the
store loses by design. Of each kind of violation one run is described, and the first one of each hunt is shrunk.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.parquet as pq
from hunts import HOUR_S, ask, head, row

from splitbrain.checkers.strategies.sights import Sight, reported, words_of

DOCS: Final = Path(__file__).parent.parent / "docs"
DATA: Final = DOCS / "strategies.json"
PAGE: Final = DOCS / "strategies.md"

RUNS: Final = 4
"""Seeds of one hunt: what an interruption loses."""

OPTIONS: Final = "--system tables --workload declare,set,register --nemesis partition"
TICK_MS: Final = 1000

PROMISES: Final[Mapping[str, tuple[str, str]]] = {
    "ignore": ("nothing (MN-4)", "nothing; it makes a partial partition whole (MN-8)"),
    "autoheal": (
        "one partition wins once all nodes see each other: by clients, nodes and names (MN-7)",
        "the nodes of all other partitions restart, and take the tables of the winner",
    ),
    "pause-minority": (
        "no minority and no half serves, once it has noticed (MN-5)",
        "a node that sees half of all nodes or fewer stops serving, until it sees a majority",
    ),
    "pause-if-all-down-ignore": (
        "a node that sees no listed node does not serve, once it has noticed (MN-6)",
        "such a node stops serving; where the listed nodes are split, as ignore",
    ),
    "pause-if-all-down-autoheal": (
        "a node that sees no listed node does not serve, once it has noticed (MN-6)",
        "such a node stops serving; where the listed nodes are split, as autoheal",
    ),
}
"""Of each strategy what it promises, and what it does."""

HUNTED: Final = ("ignore", "autoheal", "pause-minority", "pause-if-all-down-ignore", "pause-if-all-down-autoheal")

HEAD: Final = """# What strategies for partitions promise, do and lose

Written by `tools/strategies.py` from its hunts: do not edit it. [tables.md](tables.md#strategies) says how strategies
work. The table store has no consensus, so that each of them loses acknowledged writes (MN-9); checkers of its own judge
whether a strategy does what it is there for, and found nothing in these runs unless a line below says so.
"""


FIGURES: Final = ("runs", "with a violation", "passed", "inconclusive", "CPU s", "simulated h")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of violation.

    Attributes:
        runs: how many runs showed it.
        sentence: what the checker said of the first of them; strategy and partition are in it.
        did: what the strategy did in that run.
        command: runs it again.
    """

    runs: int
    sentence: str
    did: str
    command: str


class Smallest(msgspec.Struct, frozen=True, kw_only=True):
    """The shortest plan that a violation was shrunk to: how many ops and faults, in words, and the run before that."""

    ops: int
    faults: int
    sentence: str
    command: str


class Hunted(msgspec.Struct, frozen=True, kw_only=True):
    """All hunts of a strategy.

    Attributes:
        revisions: of the code, in order.
        next_seed: with which the next hunt begins.
        outcomes: how many runs ended how.
        cpu_s: CPU seconds.
        simulated_h: simulated hours.
        found: kinds of violations.
        smallest: None as long as none was shrunk.
    """

    revisions: tuple[str, ...] = ()
    next_seed: int = 1
    outcomes: dict[str, int] = {}
    cpu_s: float = 0.0
    simulated_h: float = 0.0
    found: dict[str, Found] = {}
    smallest: Smallest | None = None


def hunt(strategy: str, seed: int, jobs: int, runs: int = RUNS) -> tuple[dict[str, Any], dict[str, str]]:
    """The answer of one hunt, and by kind what the strategy did in the run that was kept."""
    settings = f"strategy={strategy},net-tick-ms={TICK_MS}"
    words = [*OPTIONS.split(), "--settings", settings, "--seed", str(seed), "--runs", str(runs), "--budget", "100000"]
    with tempfile.TemporaryDirectory() as store:
        answer = ask([*words, "--jobs", str(jobs), "--keep-going", "--no-canary", "--store", store])
        did = {each["kind"]: _did(each["run"]) for each in answer["findings"]}
    return answer, did


def _did(run: str | None) -> str:
    """What the strategy did in a stored run, by what nodes reported."""
    if run is None:
        return "the run could not be kept"
    sights = reported(pq.read_table(Path(run) / "telemetry.parquet")).sights
    return "; ".join(_acts(sights)) or "nothing: no node ran apart from another one, or stopped"


def _acts(sights: Sequence[Sight]) -> Iterator[str]:
    apart = Counter(each.node for each in sights if each.event == "sees" and each.apart)
    if apart:
        yield f"{words_of(apart)} ran apart from others"
    stopped = Counter(each.node for each in sights if each.event in ("pauses", "loses"))
    if stopped:
        yield f"it stopped {words_of(stopped)}, {_times(stopped)}, and started them again {_times(_again(sights))}"
    elif apart:
        yield "it stopped no node"
    partial = Counter(each.node for each in sights if each.event == "partial")
    if partial:
        yield f"{words_of(partial)} learned of a partial partition, {_times(partial)}"
    for each in sights:
        if each.event == "decides":
            yield f"at {each.time / 1e9:.1f} s {each.node} let {each.other} win, and {words_of(each.alive)} lose"


def _again(sights: Sequence[Sight]) -> Counter[str]:
    """How often the strategy started a database that it had stopped: not at the start of a process."""
    stopped, found = set[str](), Counter[str]()
    for each in sights:
        if each.event in ("pauses", "loses"):
            stopped.add(each.node)
        elif each.event == "resumes" and each.node in stopped:
            stopped.remove(each.node)
            found[each.node] += 1
    return found


def _times(counts: Mapping[str, int]) -> str:
    number = sum(counts.values())
    return "once" if number == 1 else f"{number} times"


def added(known: Hunted, answer: Mapping[str, Any], did: Mapping[str, str], runs: int = RUNS) -> Hunted:
    """With a hunt more."""
    found = dict(known.found)
    counts: Mapping[str, int] = answer["kinds"]
    for each in answer["findings"]:
        kind, before = str(each["kind"]), found.get(str(each["kind"]))
        if before is None:
            sentence = each["sentences"][0] if each["sentences"] else each["harness_error"] or ""
            command = each["command"].partition(" --store ")[0]
            found[kind] = Found(runs=0, sentence=sentence, did=did[kind], command=command)
        found[kind] = msgspec.structs.replace(found[kind], runs=found[kind].runs + counts.get(kind, 1))
    figures = answer["figures"]
    revision = "" if answer["git"] is None else str(answer["git"]["revision"])[:10]
    return Hunted(
        revisions=tuple(dict.fromkeys([*known.revisions, revision])),
        next_seed=known.next_seed + runs,
        outcomes=dict(Counter(known.outcomes) + Counter(answer["outcomes"])),
        cpu_s=round(known.cpu_s + figures["cpu_s"], 1),
        simulated_h=round(known.simulated_h + figures["simulated_s"] / HOUR_S, 3),
        found=found,
        smallest=_smaller(known.smallest, answer),
    )


def _smaller(known: Smallest | None, answer: Mapping[str, Any]) -> Smallest | None:
    smaller = answer["smaller"]
    if not smaller or smaller["problem"] or not smaller["after"]:
        return known
    after = smaller["after"]
    new = Smallest(
        ops=after["ops"],
        faults=after["faults"],
        sentence=smaller["sentence"],
        command=answer["findings"][0]["command"].partition(" --store ")[0],
    )
    return new if known is None or (new.faults, new.ops) < (known.faults, known.ops) else known


def read() -> dict[str, Hunted]:
    """What earlier hunts found, by strategy."""
    return msgspec.json.decode(DATA.read_bytes(), type=dict[str, Hunted]) if DATA.exists() else {}


def keep(found: Mapping[str, Hunted]) -> None:
    """Write data and page."""
    ordered = {name: found[name] for name in PROMISES if name in found}
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    PAGE.write_text(page(ordered))


def page(found: Mapping[str, Hunted]) -> str:
    """The page in Markdown."""
    lines = [
        HEAD,
        f"Hunts: `splitbrain hunt {OPTIONS} --settings strategy=NAME,net-tick-ms={TICK_MS} --keep-going`.",
        "",
    ]
    lines += head(
        "strategy", "promises", "does", "runs", "with a violation", "passed", "inconclusive", "CPU s", "simulated h"
    )
    for name, each in found.items():
        promises, does = PROMISES[name]
        counts = [str(each.outcomes.get(outcome, 0)) for outcome in ("violation", "pass", "inconclusive")]
        figures = [str(sum(each.outcomes.values())), *counts, f"{each.cpu_s:g}", f"{each.simulated_h:g}"]
        lines.append(row(f"`{name}`", promises, does, *figures))
    for name, each in found.items():
        lines += ["", f"## {name}", "", *_details(each)]
    return "\n".join(lines) + "\n"


def _details(hunted: Hunted) -> Iterator[str]:
    if not hunted.found:
        yield "Nothing was found."
        return
    yield from head("what checkers called it", "runs", "in one of them", "what the strategy did in that run", "again")
    for kind, each in sorted(hunted.found.items(), key=lambda item: -item[1].runs):
        cells = [text.replace("|", "\\|").replace("\n", " ") for text in (kind, each.sentence, each.did)]
        yield row(cells[0], str(each.runs), cells[1], cells[2], f"`{each.command}`")
    if hunted.smallest is not None:
        small = hunted.smallest
        yield ""
        yield (
            f"The smallest schedule that shows a violation has {small.faults} fault{'s' if small.faults != 1 else ''} "
            f"and {small.ops} operations:"
        )
        yield f"{small.sentence} It was shrunk from `{small.command}`."
    yield ""
    yield f"Seeds 1 to {hunted.next_seed - 1}; revisions {', '.join(hunted.revisions)}."


def main(words: Sequence[str]) -> None:
    """Hunt until each strategy has its CPU seconds; keep each hunt as soon as it is there."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").partition("usage: ")[2].partition("\n\n")[0])
    parser.add_argument("strategies", nargs="*", choices=[*PROMISES, []], metavar="STRATEGY")
    parser.add_argument("--budget", type=float, default=240.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args(words)
    if given.write:
        keep(read())
        return
    wanted = given.strategies or HUNTED
    while True:
        found = read()
        left = [name for name in wanted if found.get(name, Hunted()).cpu_s < given.budget]
        if not left:
            return
        name = min(left, key=lambda each: found.get(each, Hunted()).cpu_s)
        known = found.get(name, Hunted())
        found[name] = added(known, *hunt(name, known.next_seed, given.jobs))
        keep(found)
        print(f"{name}: {found[name].cpu_s:g} CPU s, {found[name].outcomes}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
