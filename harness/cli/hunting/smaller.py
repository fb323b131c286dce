"""Making the first violation of a hunt smaller, as `splitbrain shrink` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from checkers.verdict import Outcome
from harness.cli.hunting.findings import Finding
from harness.cli.interrupts import Interrupts
from harness.cli.judging import Conclusion
from harness.cli.progress import Progress
from harness.cli.shrink import ENDING, ShrinkProgress
from harness.cli.shrinking import Smallest, difference, failure_of, smallest, store_run
from results.errors import SplitbrainError

BUDGET_S: Final = 120.0
"""How long a hunt works on a smaller plan, in seconds of real time; `splitbrain shrink` goes on from there."""


class Smaller(msgspec.Struct, frozen=True, kw_only=True):
    """The first violation of a hunt with as little as still fails.

    Attributes:
        smallest: what shrinking came to; None if it came to nothing.
        conclusion: of a run of the smallest plan, in the store.
        problem: why there is none, or in what its run is not what the plan expects.
    """

    smallest: Smallest | None = None
    conclusion: Conclusion | None = None
    problem: str | None = None


def shrink_first(findings: Sequence[Finding], store: Path, *, jobs: int, interrupts: Interrupts) -> Smaller | None:
    """Shrink the first violation that was kept; None if there is none, or somebody wants an end."""
    kept = [each.conclusion for each in findings if each.trial.outcome is Outcome.VIOLATION and each.problem is None]
    first = next((conclusion for conclusion in kept if conclusion is not None), None)
    if first is None or interrupts.seen:
        return None
    try:
        failure = failure_of(str(first.run.path), store)
        with interrupts.heard(ENDING), ShrinkProgress(f"shrinking {failure.source}") as shown:
            found = smallest(failure, jobs=jobs, budget_s=BUDGET_S, go_on=lambda: not interrupts.seen, show=shown.show)
        with Progress("running the smallest plan") as progress:
            conclusion = store_run(found.after, store, progress, failure.source)
    except SplitbrainError as error:
        return Smaller(problem=str(error))
    return Smaller(smallest=found, conclusion=conclusion, problem=difference(found.after, conclusion))
