"""The page of a pushed run: made from a copy of all its files, beside sketches of other runs of its test."""

from __future__ import annotations

from collections.abc import Sequence

from splitbrain.results.damage import DAMAGE
from splitbrain.results.remote.copies import VERDICT, Copies, sketches
from splitbrain.results.remote.runs import RemoteRun
from splitbrain.results.report import REPORT, write_report
from splitbrain.results.report.past import RUNS_MAX


def write_report_there(copies: Copies, run: RemoteRun) -> str:
    """Write the page of a run, and put it beside the run; its address.

    Raises:
        SplitbrainError: the run cannot be read.
        RemoteStoreError: the store cannot be read or written.
    """
    fetch_for_page(copies, run, copies.store.runs())
    write_report(copies.of(run).path)
    copies.publish(run, [name for name in copies.made(run) if name not in (VERDICT, DAMAGE)])
    return copies.store.place.below(f"{run.folder}/{REPORT}")


def fetch_for_page(copies: Copies, run: RemoteRun, everyone: Sequence[RemoteRun]) -> None:
    """Copy what the page of a run shows.

    Args:
        copies: where to.
        run: the run.
        everyone: all runs of the store, oldest first.

    Raises:
        HistoryFormatError: a file of the run is damaged.
        RemoteStoreError: the store cannot be read.
    """
    lacking = [each for each in _neighbours(everyone, run) if not (copies.of(each).path / "test.json").exists()]
    sketches(copies, lacking, (VERDICT, DAMAGE), lambda: None)
    copies.fetch(run, whole=True)


def _neighbours(everyone: Sequence[RemoteRun], run: RemoteRun) -> list[RemoteRun]:
    """Runs of the same test that a page looks at: those nearest in time."""
    test = [each for each in everyone if each.test_name == run.test_name]
    here = next((place for place, each in enumerate(test) if each.name == run.name), len(test))
    return [*test[max(0, here - RUNS_MAX) : here], *test[here + 1 : here + 1 + RUNS_MAX]]
