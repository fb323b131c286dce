"""The site's pages as HTML. Templates escape all that they are given; nothing here marks a value as safe."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import jinja2
import msgspec
from markupsafe import Markup

from splitbrain.results.comparison import Comparison, Subject
from splitbrain.results.report import REPORT
from splitbrain.results.report.overlays import Overlays, what
from splitbrain.results.report.svg import PLOTS_STYLE
from splitbrain.results.site.beneath import Entry
from splitbrain.results.site.files import PAGES
from splitbrain.results.site.matrix import DAYS, SPANS, Matrix
from splitbrain.results.site.rows import Row
from splitbrain.results.site.selection import CHOICES, FILTERS, Chosen, Selection
from splitbrain.results.site.trends import HEIGHT, WIDTH, Trend
from splitbrain.results.templates import environment

STATIC: Final = {
    "site.css": "text/css; charset=utf-8",
    "plots.css": "text/css; charset=utf-8",
    "site.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""Files that pages load, with their types."""

TEXT_MAX: Final = 2000
"""Characters of a value that a page shows; a run's files have all of it."""

_TEMPLATES: Final = Path(__file__).parent / "templates"

_COLUMNS: Final = (
    ("outcome", "outcome", ""),
    ("test", "test and run", ""),
    ("start", "began (UTC)", ""),
    ("ops", "ops", "n"),
    ("rate", "ok/s", "n"),
    ("p99", "p99 ms", "n"),
    ("available", "available", "n"),
    ("recovery", "recovery s", "n"),
    ("leaders", "leader changes", "n"),
    ("marks", "marks", "n"),
)


def static(name: str) -> bytes:
    """A file that pages load."""
    return (PLOTS_STYLE if name == PLOTS_STYLE.name else _TEMPLATES / name).read_bytes()


def table_page(
    store: str, chosen: Chosen, wanted: Selection, choices: dict[str, list[str]], drawn: Sequence[Trend]
) -> str:
    """The table of runs, under the pictures of its test where one test is chosen."""
    return render(
        "table.html.j2",
        store=store,
        chosen=chosen,
        wanted=wanted,
        choices=choices,
        offered=CHOICES,
        columns=_COLUMNS,
        trends=drawn,
        width=WIDTH,
        height=HEIGHT,
        filtered=any(getattr(wanted, name) for name in FILTERS),
    )


def run_page(row: Row, before: Row | None, subject: Subject | None, files: Sequence[Entry], most: int) -> str:
    """A run: what was found, its figures, its files; and the way to the run of the same test before it."""
    names = {entry.path for entry in files if entry.refused is None}
    return render(
        "run.html.j2",
        row=row,
        before=before,
        subject=subject,
        figures=subject.figures if subject is not None else None,
        files=files[:most],
        cut=len(files) > most,
        most=most,
        stored_pages=[page for page in PAGES if page in names or (page == REPORT and row.state != "damaged")],
    )


def matrix_page(store: str, found: Matrix, asked: str) -> str:
    """The nightly page.

    Args:
        store: its path.
        found: what is shown.
        asked: the day that was asked for, empty for the latest.
    """
    return render("matrix.html.j2", store=store, found=found, asked=asked, spans=DAYS, length=SPANS)


def comparison_page(found: Comparison, drawn: Overlays | None, *, standalone: bool) -> str:
    """Two sides.

    Args:
        found: what they have in common, and what not.
        drawn: one over the other; None where there is nothing to draw.
        standalone: a file that needs nothing else, instead of a page of the site.
    """
    # Our own files: no value of a run is in them.
    style = Markup("\n".join(static(name).decode() for name in STATIC if name.endswith(".css"))) if standalone else None
    return render("compare.html.j2", found=found, drawn=drawn, what=what, standalone=standalone, style=style)


def error_page(title: str, sentence: str) -> str:
    """A page that says what is wrong."""
    return render("error.html.j2", title=title, sentence=sentence)


def visible(text: str) -> str:
    """Text with control and direction characters, and bytes that are no text, as their escapes."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode() for each in text
    )


def render(template: str, **values: Any) -> str:
    """A template of the site, filled in."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> jinja2.Environment:
    return environment([_TEMPLATES], clip=_clip, size=_size, number=_number, percent=_percent, plain=_plain, part=_part)


def _clip(value: Any, most: int = TEXT_MAX) -> str:
    """A value as visible text, with a note of what was cut."""
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    shown = visible(text[:most])
    return shown if len(text) <= most else f"{shown}… ({len(text):,} characters)"


def _plain(path: str) -> str:
    """A file's name that may hold bytes that are no text, which a page cannot carry."""
    return _clip(path, 400)


def _part(name: str) -> str:
    """A name, of any bytes, as one part of an address."""
    return quote(name.encode("utf-8", "surrogateescape"), safe="")


def _size(size: int) -> str:
    number, unit = float(size), "B"
    for larger in ("kB", "MB", "GB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"


def _number(value: float | None, digits: int = 3) -> str:
    """A figure with at most this many digits after the point; a dash where there is none."""
    if value is None:
        return "-"
    if value and abs(value) < 0.1 and digits:
        return f"{value:.2g}"
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
