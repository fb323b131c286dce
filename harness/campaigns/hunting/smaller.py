"""Making the first violation of a hunt smaller, as `splitbrain shrink` does."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.display import Displays, silent
from splitbrain.harness.campaigns.hunting.findings import Finding
from splitbrain.harness.campaigns.judging import Conclusion
from splitbrain.harness.campaigns.shrinking import Smallest, difference, failure_of, smallest, store_run
from splitbrain.nemesis.shrink import Step
from splitbrain.results.errors import SplitbrainError

StepDisplays: TypeAlias = Callable[[str], AbstractContextManager[Callable[[Step], None]]]
"""From a title to what shows each step of a search, for the length of a block."""


@contextmanager
def silent_steps(_title: str) -> Generator[Callable[[Step], None]]:
    """Show nothing."""
    yield lambda _: None


class Smaller(msgspec.Struct, frozen=True, kw_only=True):
    """The first violation of a hunt with as little as still fails.

    Attributes:
        smallest: what shrinking came to; None if it came to nothing.
        conclusion: of a run of the smallest plan, in the store.
        problem: why there is none, or how its run differs from what the plan expects.
    """

    smallest: Smallest | None = None
    conclusion: Conclusion | None = None
    problem: str | None = None


def shrink_first(
    findings: Sequence[Finding],
    store: Path,
    *,
    jobs: int,
    budget_s: float,
    go_on: Callable[[], bool],
    steps: StepDisplays = silent_steps,
    displays: Displays = silent,
) -> Smaller | None:
    """Shrink the first violation that was kept; None if there is none, or it is to end.

    Args:
        findings: what the hunt kept.
        store: where they are, and where the smallest run goes.
        jobs: processes that try plans.
        budget_s: the limit of the search, in CPU seconds of each process.
        go_on: called at intervals; False ends the search.
        steps: makes what shows the search.
        displays: makes what shows the run of the smallest plan.
    """
    violations = [each for each in findings if each.trial.outcome is Outcome.VIOLATION and each.problem is None]
    kept = [each.conclusion for each in violations if each.trial.difference is None]
    first = next((conclusion for conclusion in kept if conclusion is not None), None)
    if first is None or not go_on():
        return None
    try:
        failure = failure_of(str(first.run.path), store)
        with steps(f"shrinking {failure.source}") as show:
            found = smallest(failure, jobs=jobs, budget_s=budget_s, go_on=go_on, show=show)
        with displays("running the smallest plan") as display:
            conclusion = store_run(found.after, store, display, failure.source)
    except SplitbrainError as error:
        return Smaller(problem=str(error))
    return Smaller(smallest=found, conclusion=conclusion, problem=difference(found.after, conclusion))
