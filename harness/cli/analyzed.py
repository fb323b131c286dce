"""What `analyze --json` prints: a line for each run as soon as it is judged, and a last one with the sums.

Lines, and not one document: a reader has the first verdict after seconds, whether there are ten runs or 100,000, and
neither side needs memory for all of them. The shapes are described in docs/formats.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.many import Judged

LINES_FORMAT: Final = 2
"""The version of the lines. The first one was a single array of runs, printed at the end."""


def print_run(each: Judged) -> None:
    """Print what a run was judged to be.

    Raises:
        BrokenPipeError: nobody reads it any more.
    """
    from splitbrain.harness.campaigns.judging import damaged_document, stored_document

    found = damaged_document(each.run, each.said) if each.damaged else stored_document(each.run)
    found |= {"judged": each.since is None, "unchanged_since": each.since}
    _print({"kind": "run", "format": LINES_FORMAT, **found})


def print_sums(judged: Sequence[Judged], seconds: float) -> None:
    """Print the sums of an analysis.

    Args:
        judged: what became of each run, pages included.
        seconds: how long it took.
    """
    from splitbrain.checkers.verdict import worst

    outcome = worst(each.outcome for each in judged)
    unchanged = sum(each.since is not None for each in judged)
    outcomes = Counter(each.outcome.value for each in judged)
    _print(
        {
            "kind": "sums",
            "format": LINES_FORMAT,
            "runs": len(judged),
            "judged": len(judged) - unchanged,
            "unchanged": unchanged,
            "outcomes": dict(sorted(outcomes.items())),
            "outcome": outcome.value,
            "exit_code": outcome.exit_code,
            "problems": [
                {"run": str(each.run.path), "problem": each.problem} for each in judged if each.problem is not None
            ],
            "seconds": round(seconds, 3),
        }
    )


def _print(document: dict[str, Any]) -> None:
    click.echo(msgspec.json.encode(document))  # flushes
