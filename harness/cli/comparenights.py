"""`splitbrain compare` of two nights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.results.nightcomparison import NightComparison, Quantiles, Seen

SHOWN_MAX = 20
"""Lines of a kind that the terminal shows; the page and --json have all."""


def compare_nights(names: Sequence[str], found: Sequence[Path | None], page: str | None, *, as_json: bool) -> None:
    """Compare two nights, and print or write what was found.

    Args:
        names: what was asked for.
        found: the folders of these nights; None for what is none.
        page: where the page goes.
        as_json: whether the answer is printed as JSON.

    Raises:
        UsageError: one of them is no night, or both are the same.
    """
    from splitbrain.results.atomic import replace_file
    from splitbrain.results.nightcomparison import compare, load
    from splitbrain.results.site.nightpages import comparison_page

    a, b = found
    if a is None or b is None:
        other = names[0] if a is None else names[1]
        raise UsageError(f"{other!r} is no night of this store, and a night is compared with nights only: name two.")
    if a.resolve() == b.resolve():
        raise UsageError(f"A {names[0]!r} and B {names[1]!r} are the same night: give another one as B.")
    (night_a, table_a), (night_b, table_b) = load(a), load(b)
    compared = compare(night_a, night_b, table_a, table_b)
    if page is not None:
        html = comparison_page(compared, standalone=True).encode("utf-8", "backslashreplace")
        try:
            replace_file(Path(page), lambda aside: aside.write_bytes(html))
        except OSError as error:
            raise UsageError(f"cannot write {page}: {error.strerror}. Choose another --page.") from error
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(compared)).decode())
    else:
        _print(compared, page)


def _print(found: NightComparison, page: str | None) -> None:
    from splitbrain.results.nightmarkdown import change_line
    from splitbrain.results.quantities import counted

    for side, name, runs, revision in (
        ("A", found.a, found.runs_a, found.revision_a),
        ("B", found.b, found.runs_b, found.revision_b),
    ):
        click.echo(f"{side}  {name}  {counted(runs, 'run')}{f'  {revision[:12]}' if revision else ''}")
    if not found.same_matrix:
        click.echo("The matrix files are not the same.")
    _lines(found.notes)
    _lines(_seen("new", found.new))
    _lines(_seen("fixed", found.fixed))
    _lines(_seen("gone, but too few runs to say that it is fixed", found.gone))
    _lines(_seen("in both", found.both))
    for each in found.changes:
        click.echo(f"changed: {change_line(each)}")
        if each.cells:
            click.echo(f"    by themselves: {', '.join(each.cells)}")
    if not found.changes:
        click.echo(f"no figure changed, {counted(found.compared, 'comparison')}")
    _figures(found)
    _lines(f"cell {each.name}: {_counts(each.a)} -> {_counts(each.b)}" for each in found.cells)
    for side, names in (("A", found.only_a), ("B", found.only_b)):
        _lines([f"cells that only {side} ran: {_some(names)}"] if names else [])
    for side, names in (("A", found.marks_only_a), ("B", found.marks_only_b)):
        _lines([f"marks that only {side} reached: {_some(names)}"] if names else [])
    click.echo(f"page  {page}" if page is not None else "all of it: --page FILE")


def _lines(lines: Iterable[str]) -> None:
    listed = list(lines)
    for line in listed[:SHOWN_MAX]:
        click.echo(line)
    if len(listed) > SHOWN_MAX:
        click.echo(f"and {len(listed) - SHOWN_MAX} more")


def _seen(word: str, every: Sequence[Seen]) -> Iterable[str]:
    for each in every:
        chance = "" if each.chance is None else f", by chance in {each.chance:.1%} of such nights"
        rates = f"{each.runs_a} of {each.tried_a} -> {each.runs_b} of {each.tried_b} runs"
        yield f"{word}: {each.signature} {rates}{chance} {each.issue}".rstrip()


def _figures(found: NightComparison) -> None:
    from rich.table import Table
    from rich.text import Text

    from splitbrain.harness.cli.tables import print_whole

    if not found.figures:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("median, of counts the mean (quartiles), of all cells", overflow="fold")
    for name in ("A", "B", "B/A"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("")
    for group in dict.fromkeys(each.group for each in found.figures):
        table.add_row(Text(group, style="bold"))
        for each in found.figures:
            if each.group == group:
                style = "bold" if each.says == "changed" else ""
                sides = (_quantiles(each.a), _quantiles(each.b), _ratio(each.a, each.b))
                table.add_row(Text(each.label), *sides, each.says, style=style)
    print_whole(table)


def _quantiles(found: Quantiles | None) -> str:
    if found is None:
        return "-"
    return f"{_number(found.median)} ({_number(found.low)} to {_number(found.high)}, n={found.runs})"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.4g}"


def _ratio(a: Quantiles | None, b: Quantiles | None) -> str:
    if a is None or b is None or not a.median or b.median is None:
        return ""
    return f"{b.median / a.median:.2f}"


def _counts(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))


def _some(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
