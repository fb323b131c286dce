#!/usr/bin/env python3
"""How well signatures tell bugs apart: simulate bugs over random seeds, and count the signatures of their violations.

usage: tools/signatures.py [--violations N] [--cpu SECONDS] [--seed N] [BUG...]

For each bug (default: ten of the metadata cluster) seeds are simulated, with the options that bring it out
(`tools/bugs.py`), until N runs failed (default 20) or the CPU seconds are used up (default 120). A run counts by its
leading signature. The table is printed in Markdown as it grows; the last line says how many bugs share a signature.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from bugs import CHOSEN
from hunts import head, row

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.hunting.trial import Trial, carry_out
from splitbrain.harness.campaigns.swarm import Asked, asked_for, draw
from splitbrain.harness.cli.hunt import command

BUGS: Final = ("M02", "M09", "M15", "M17", "M22", "M23", "M31", "M34", "M36", "M92")
SEEDS_EACH: Final = 10
"""A bug that few seeds show is given up after so many seeds for each violation."""


def asked(bug: str) -> Asked:
    """What a hunt of this bug draws from."""
    context = command.make_context("hunt", ["--bug", bug, *shlex.split(CHOSEN[bug])])
    drawn = set(Asked.__struct_fields__) - {"workloads", "nemeses"} | {"workload", "nemesis"}
    return asked_for(**{name: value for name, value in context.params.items() if name in drawn})


def violations(bug: str, first: int, most: int, cpu_s: float) -> Iterator[Trial]:
    """Runs that failed with this bug."""
    found, ends_s, what = 0, time.process_time() + cpu_s, asked(bug)
    for seed in range(first, first + most * SEEDS_EACH):
        if found == most or time.process_time() > ends_s:
            return
        trial = carry_out(draw(seed, what))
        if trial.outcome is Outcome.VIOLATION:
            found += 1
            yield trial


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").partition("usage: ")[2].partition("\n\n")[0])
    parser.add_argument("bugs", nargs="*", metavar="BUG")
    parser.add_argument("--violations", type=int, default=20)
    parser.add_argument("--cpu", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    print("\n".join(head("bug", "violations", "leading signatures", "all signatures", "the leading ones")))
    owners: dict[str, set[str]] = {}
    total = 0
    for bug in given.bugs or BUGS:
        trials = list(violations(bug, given.seed, given.violations, given.cpu))
        leading = Counter(str(trial.signatures[0]) for trial in trials)
        every = {str(each) for trial in trials for each in trial.signatures}
        first = ", ".join(f"`{name}` {count}" for name, count in leading.most_common())
        print(row(f"`{bug}`", str(len(trials)), str(len(leading)), str(len(every)), first), flush=True)
        total += len(trials)
        for name in leading:
            owners.setdefault(name, set()).add(bug)
    shared = {name: sorted(bugs) for name, bugs in owners.items() if len(bugs) > 1}
    print(f"\n{total} violations, {len(owners)} leading signatures, {len(shared)} of them shared by bugs: {shared}")


if __name__ == "__main__":
    main()
