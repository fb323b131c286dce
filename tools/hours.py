#!/usr/bin/env python3
"""Hunt the metadata cluster without any bug, hour after hour of simulated time; docs/hours.json keeps what was seen.

usage: tools/hours.py HOURS [--draw DRAW] [--jobs N] [--seed SEED]      until a draw has so many hours in all

A draw fixes something, with all that a hunt draws otherwise: `store` the workloads of the metadata store, `queues`
those of queues and streams, `strategies` what `tools/strategies.py` asks of the tables, here asked of the tree. Hours
are simulated ones. Seeds go on where the last ones of a draw ended, or at SEED behind them, so that no test is counted
twice, and each entry names the revision of the code. A violation ends it with exit code 1: it is a bug to mend, and its
seeds are not counted. docs/bugs.md quotes the sums.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from hunts import HOUR_S, ask

DATA: Final = Path(__file__).parent.parent / "docs" / "hours.json"

RUNS: Final = 50
"""Seeds of one hunt: what an interruption loses."""


Draw: TypeAlias = Literal["default", "store", "strategies", "queues"]

DRAWS: Final[Mapping[Draw, tuple[str, ...]]] = {
    "default": (),
    "store": ("--workload", "tree,topology,projections,counter"),
    "strategies": ("--workload", "declare,set,register,topology", "--nemesis", "partition"),
    "queues": ("--workload", "queue,stream,single-active,dead-letter,poison,replicas,conversion"),
}
"""What is fixed of what a hunt draws."""

TITLES: Final[Mapping[Draw, str]] = {
    "default": "the default draw",
    "store": "a workload of the metadata store",
    "strategies": "a workload and partitions that the tables lose writes to ([strategies.md](strategies.md))",
    "queues": "a workload of queues or streams",
}
"""What is fixed, in words."""


class Hours(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hunts of one revision of the code that found no violation.

    Attributes:
        draw: what was fixed of what a hunt draws.
        revision: of the code.
        seeds: ranges of them, both ends included.
        runs: how many.
        inconclusive: of the runs, those that tested too little to pass.
        reasons: of these, how many for which root cause, by code.
        simulated_h: simulated hours.
        cpu_s: CPU seconds.
    """

    revision: str
    seeds: list[tuple[int, int]]
    runs: int
    inconclusive: int
    simulated_h: float
    cpu_s: float
    draw: Draw = "default"
    reasons: dict[str, int] = {}

    def __add__(self, other: Hours) -> Hours:
        """Both together; seeds that follow each other become one range."""
        *before, (first, last) = self.seeds
        (begin, end), *behind = other.seeds
        joined = [(first, end)] if begin == last + 1 else [(first, last), (begin, end)]
        return Hours(
            draw=self.draw,
            revision=self.revision,
            seeds=[*before, *joined, *behind],
            runs=self.runs + other.runs,
            inconclusive=self.inconclusive + other.inconclusive,
            simulated_h=round(self.simulated_h + other.simulated_h, 3),
            cpu_s=round(self.cpu_s + other.cpu_s, 1),
            reasons=dict(Counter(self.reasons) + Counter(other.reasons)),
        )


def read() -> list[Hours]:
    """What there is, revision by revision."""
    return msgspec.json.decode(DATA.read_bytes(), type=list[Hours]) if DATA.exists() else []


def keep(found: Sequence[Hours]) -> None:
    """Write it."""
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(list(found)), indent=1) + b"\n")


def hunt(draw: Draw, seed: int, jobs: int) -> dict[str, Any]:
    """The answer of one hunt."""
    words = ["--seed", str(seed), "--runs", str(RUNS), "--budget", "100000", "--jobs", str(jobs), "--no-canary"]
    return ask([*DRAWS[draw], *words])


def of_answer(draw: Draw, answer: dict[str, Any]) -> Hours:
    """What one hunt adds."""
    figures = answer["figures"]
    return Hours(
        draw=draw,
        revision=str(answer["git"]["revision"])[:10],
        seeds=[(first, last) for first, last in answer["seeds"]],
        runs=figures["runs"],
        inconclusive=answer["outcomes"]["inconclusive"],
        simulated_h=round(figures["simulated_s"] / HOUR_S, 3),
        cpu_s=round(figures["cpu_s"], 1),
        reasons=answer["reasons"],
    )


def added(found: Sequence[Hours], new: Hours) -> list[Hours]:
    """With a hunt more; of one revision and draw there is one entry."""
    for at, each in enumerate(found):
        if (each.revision, each.draw) == (new.revision, new.draw):
            return [*found[:at], each + new, *found[at + 1 :]]
    return [*found, new]


def main(words: Sequence[str]) -> None:
    """Hunt until there are so many hours; keep each hunt as soon as it is there."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").partition("usage: ")[2].partition("\n\n")[0])
    parser.add_argument("hours", type=float)
    parser.add_argument("--draw", choices=get_args(Draw), default="default")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    found = read()
    while (there := sum(each.simulated_h for each in found if each.draw == given.draw)) < given.hours:
        last = max((last for each in found if each.draw == given.draw for _, last in each.seeds), default=0)
        seed = max(last + 1, given.seed)
        answer = hunt(given.draw, seed, given.jobs)
        if answer["findings"]:
            print(json.dumps(answer["findings"], indent=1))
            raise SystemExit(f"a hunt from seed {seed} on found something: mend it")
        found = added(found, of_answer(given.draw, answer))
        keep(found)
        print(f"{there:6.2f} h, next seed {seed + RUNS}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
