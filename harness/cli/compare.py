"""`splitbrain compare`: two runs, or two sets of runs, side by side."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import afar, completing, options, parsing
from splitbrain.results.errors import RunNotFoundError, UsageError
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from splitbrain.results.comparison import Comparison, FigureRow, Side, Spread
    from splitbrain.results.rundir import RunDir


_CHOSEN_BY = ("outcome", "workload", "nemesis", "nemeses", "system", "backend", "bug", "since", "until")
"""Filters of the site's table that can select a set of runs; see `splitbrain.results.site.selection`."""


@click.command("compare", cls=parsing.Command)
@click.argument(
    "a",
    metavar="A",
    shell_complete=completing.compared,
)
@click.argument(
    "b",
    metavar="B",
    shell_complete=completing.compared,
)
@options.stored_anywhere
@click.option(
    "--page",
    default=None,
    metavar="FILE",
    help="Write the comparison as an HTML page as well, with pictures of both sides over time.",
    shell_complete=completing.file,
)
@options.as_json
@click.pass_context
def command(ctx: click.Context, a: str, b: str, store: str, page: str | None, as_json: bool) -> None:
    """Compare two runs, sets of runs, or nights: outcomes, verdicts, figures, and what differs in what was tested.

    \b
    A and B are each
      a run        its folder, its name or the beginning of it, "latest"
      a test       its name: all its runs
      a pattern    of tests, of runs, or of both with a slash: 'metadata-*/202611*'
      filters      'system=etcd backend=local': all runs that match. There are outcome,
                   workload, nemesis (one of a run's), nemeses (all of them), system,
                   backend, bug (or any, none), since and until (days, as 2026-11-21)
      a folder     a store, or a test in one
      a night      its folder, its name, or night: with the beginning of its name or "latest"

    \b
    Examples:
      splitbrain compare latest 20261120T2301
      splitbrain compare 'system=etcd nemesis=partition' 'system=metadata nemesis=partition'
      splitbrain compare 'since=2026-11-20 until=2026-11-20' 'since=2026-11-21' --page days.html
      splitbrain compare night:20261120 night:latest --page nights.html

    First come differences in what was tested, then outcomes and verdicts with the number of runs, then figures: the
    value of a run, or the median of a set with its range and the number of runs (n). Recovery times are those after
    each operation of the nemesis in all runs of a side, as median and 95th percentile; "without" counts operations
    after which no node answered before the next one. A star marks a figure whose difference is larger than the spread
    within either side; that needs at least four values on each side.

    Two nights are compared by the figures of all their runs, also of those that were not stored: which figures moved
    and in which cells, which violations are new, which are fixed (docs/nightly.md).

    The exit code is always 0: verdicts are not judged again.
    """
    from splitbrain.results.comparison import compare
    from splitbrain.results.targets import check_target

    if page is not None:
        check_target("--page", page)
    there = afar.addressed(ctx, store)
    found_nights = _nights(ctx, there, store, (a, b))
    if any(found_nights):
        from splitbrain.harness.cli.comparenights import compare_nights

        compare_nights((a, b), found_nights, page, as_json=as_json)
        return
    copies = None if there is None else ctx.with_resource(afar.sketched(there[0]))
    store = store if copies is None else str(copies.root)
    selected = [_selected(each, store) for each in (a, b)]
    if {run.path.resolve() for run in selected[0]} == {run.path.resolve() for run in selected[1]}:
        raise UsageError(f"A {a!r} and B {b!r} are the same: give other runs as B.")
    if all(Path(each).is_dir() for each in (a, b)) and options.given(ctx, "store"):
        raise UsageError(f"--store {store}: A and B are both given as folders: remove --store.")
    if copies is not None:
        afar.fetch_selected(copies, [run for runs in selected for run in runs])
    (side_a, runs_a), (side_b, runs_b) = (_side(each, runs) for each, runs in zip((a, b), selected, strict=True))
    found = compare(side_a, side_b)
    if page is not None:
        _write(Path(page), found, runs_a, runs_b)
    if as_json:
        click.echo(msgspec.json.format(encoded(found)).decode())
    else:
        _print(found, page)


def _nights(
    ctx: click.Context, there: tuple[str, tuple[str, ...]] | None, store: str, references: Sequence[str]
) -> list[Path | None]:
    """The folders of the nights that are named, or of their copies; None for what names no night."""
    from splitbrain.results.nightcomparison import find

    if there is None:
        return [find(each, Path(store)) for each in references]
    from splitbrain.results.remote.nights import Copies
    from splitbrain.results.remote.runs import RemoteStore

    copies = ctx.with_resource(Copies(RemoteStore(there[0])))
    return [copies.find(each) for each in references]


def _write(page: Path, found: Comparison, a: Sequence[RunDir], b: Sequence[RunDir]) -> None:
    """Write the page, with pictures of the runs of both sides.

    Raises:
        UsageError: the file cannot be written.
    """
    from splitbrain.results.atomic import replace_file
    from splitbrain.results.report.overlays import overlays
    from splitbrain.results.site.pages import comparison_page
    from splitbrain.results.tracks import tracks_of

    drawn = overlays(tracks_of(a), tracks_of(b))
    html = comparison_page(found, drawn, standalone=True).encode("utf-8", "backslashreplace")
    try:
        replace_file(page, lambda aside: aside.write_bytes(html))
    except OSError as error:
        raise UsageError(f"cannot write {page}: {error.strerror}. Choose another --page.") from error


# --- which runs -----------------------------------------------------------------------------------------------------


def _side(reference: str, selected: Sequence[RunDir]) -> tuple[Side, list[RunDir]]:
    """The selected runs, as they are compared, and their folders.

    Runs that cannot be read are printed and left out, unless there is no other.

    Raises:
        SplitbrainError: no run can be read.
    """
    from splitbrain.results.comparison import Side, Subject, subject_of
    from splitbrain.results.errors import SplitbrainError

    subjects: list[Subject] = []
    runs: list[RunDir] = []
    refused: list[SplitbrainError] = []
    for run in selected:
        try:
            subjects.append(subject_of(run))
            runs.append(run)
        except SplitbrainError as error:
            refused.append(error)
    if not subjects:
        raise refused[0]
    for error in refused:
        click.echo(f"left out: {error}", err=True)
    return Side(reference if len(subjects) > 1 else subjects[0].name, subjects), runs


def _selected(reference: str, store: str) -> list[RunDir]:
    """At least one run.

    Raises:
        RunNotFoundError: there is none.
    """
    from splitbrain.results.rundir import RunDir
    from splitbrain.results.store import Store

    words = [word.partition("=") for word in reference.split()]
    filters = {name: value for name, _, value in words}
    if filters and all(name in _CHOSEN_BY and value for name, value in filters.items()):
        if len(filters) < len(words):
            raise UsageError(f"{reference!r} has a filter twice: give each filter once.")
        return _that_fit(filters, store)
    if not reference.strip():
        raise RunNotFoundError(f"{reference!r} names no run: give a run, a test, a pattern, filters or a folder.")
    path = Path(reference)
    if path.is_dir() and not (path / "test.json").exists():
        runs = Store(path).runs() or [RunDir(each.parent) for each in sorted(path.glob("run=*/test.json"))]
        if not runs:
            raise RunNotFoundError(f"there is no run in the folder {reference}: it is neither a store nor a test.")
        return runs
    if not path.is_dir():
        runs = Store(Path(store)).runs()
        pattern = reference.replace("test=", "").replace("run=", "")
        if any(mark in reference for mark in "*?["):
            chosen = [run for run in runs if _fits(run, pattern)]
            if not chosen:
                raise RunNotFoundError(f"no run of the store {store} matches the pattern {reference!r}.")
            return chosen
        chosen = [run for run in runs if run.test_name == pattern.strip("/")]
        if chosen:
            return chosen
    return [Store(Path(store)).find(reference)]


def _that_fit(filters: dict[str, str], store: str) -> list[RunDir]:
    """The runs that the site's table shows with these filters, oldest first.

    Raises:
        RunNotFoundError: there is none.
        UsageError: a day does not exist.
    """
    from splitbrain.results.rundir import RunDir
    from splitbrain.results.site.rows import Index
    from splitbrain.results.site.selection import choose, parse

    rows = Index(Path(store)).rows()
    chosen = choose(rows, parse({**filters, "sort": "start", "down": "0"}), per_page=max(len(rows), 1)).rows
    if not chosen:
        words = " ".join(f"{name}={value}" for name, value in filters.items())
        raise RunNotFoundError(f"no run of the store {store} matches {words!r}: splitbrain serve shows all runs.")
    return [RunDir(Path(store, *row.parts)) for row in chosen]


def _fits(run: RunDir, pattern: str) -> bool:
    """A pattern without a slash is a pattern of tests or of runs."""
    names = [f"{run.test_name}/{run.name}"] if "/" in pattern else [run.test_name, run.name]
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


# --- for people -----------------------------------------------------------------------------------------------------


def _print(found: Comparison, page: str | None) -> None:
    from rich.text import Text

    from splitbrain.harness.cli.tables import print_whole

    for side, label, runs in (("A", found.a, found.runs_a), ("B", found.b, found.runs_b)):
        print_whole(Text(f"{side}  {label}{f'  ({len(runs)} runs)' if len(runs) > 1 else ''}", style="bold"))
    for note in found.notes:
        print_whole(Text(note, style="yellow"))
    _print_tested(found)
    for title, rows in (("outcomes", found.outcomes), ("verdicts", found.verdicts)):
        table = _table(title, "A", "B")
        for row in rows:
            table.add_row(Text(row.name, style="" if row.a == row.b else "bold"), str(row.a), str(row.b))
        print_whole(table)
    _print_figures(found)
    for side, marks in (("A", found.marks_only_a), ("B", found.marks_only_b)):
        if marks:
            print_whole(Text(f"marks that only {side} reached: {', '.join(marks)}"))
    for side, said in (("A", found.sentences_a), ("B", found.sentences_b)):
        for sentence in said:
            print_whole(Text(f"{side}: {sentence}", style="red"))
    print_whole(Text(f"page  {page}") if page is not None else Text("drawn over time: --page FILE", style="dim"))


def _print_tested(found: Comparison) -> None:
    from rich.text import Text

    from splitbrain.harness.cli.tables import print_whole

    if not found.tested:
        print_whole(Text(f"The same test on both sides. {found.seeds}".rstrip()))
        return
    print_whole(Text(f"This is not the same test on both sides. {found.seeds}".rstrip(), style="bold yellow"))
    table = _table("what was tested", "A", "B", right=False)
    for row in found.tested:
        table.add_row(Text(row.what), *(Text(_short(" | ".join(values))) for values in (row.a, row.b)))
    print_whole(table)


def _print_figures(found: Comparison) -> None:
    from rich.text import Text

    from splitbrain.harness.cli.tables import print_whole

    for title, pooled in (("figures", False), ("recovery after an operation of the nemesis", True)):
        rows = [row for row in found.figures if row.pooled == pooled]
        if not rows:
            continue
        table = _table(title, "A", "B", "B/A", "")
        for row in rows:
            name = f"{row.name} ({row.unit})" if row.unit else row.name
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            style = "bold" if row.differs else ""
            table.add_row(Text(name), *_sides(row), ratio, "*" if row.differs else "", style=style)
        print_whole(table)
    print_whole(Text(found.flagged, style="dim"))


def _sides(row: FigureRow) -> tuple[str, str]:
    return _spread(row.a, row.missing_a, row.pooled), _spread(row.b, row.missing_b, row.pooled)


def _table(title: str, *columns: str, right: bool = True) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    return table


def _spread(found: Spread | None, missing: int, pooled: bool) -> str:
    """A figure of one side: its median, its range if there are several values, and how many runs had none."""
    if found is None:
        return f"- ({missing} without)" if missing else "-"
    far = f"p95 {_number(found.p95)}" if pooled else f"{_number(found.low)} to {_number(found.high)}"
    many = f" ({far}, n={found.count})" if found.count > 1 else ""
    return f"{_number(found.median)}{many}{f' ({missing} without)' if missing else ''}"


def _number(value: float) -> str:
    if value and abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def _short(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
