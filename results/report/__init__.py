"""report.html: one page per run that opens from disk without a network, and its plots as SVG files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from splitbrain.results.atomic import replace_file
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.plainfile import refuse_others
from splitbrain.results.report.page import render
from splitbrain.results.report.past import Past
from splitbrain.results.report.run_view import RunView, load

__all__ = ["REPORT", "mark_in", "rendered", "write_page", "write_report"]

REPORT: Final = "report.html"
"""The page's name in the folder of a run."""


def write_report(run_dir: Path) -> Path:
    """Write `report.html` and `plots/*.svg` of a run, even if it is damaged or unfinished; returns the page's path.

    A run that is under way, was never judged, or has no readable history gets a page that says so.

    Raises:
        RunNotFoundError: this is not the folder of a run.
        StoreVersionError: a newer splitbrain wrote it; nothing is touched.
        HistoryFormatError: test.json or verdict.json is damaged.
    """
    return write_page(load(run_dir))


def rendered(run_dir: Path) -> str:
    """The page of a run as `write_report` writes it; writes nothing."""
    return render(load(run_dir)).html


def write_page(view: RunView, past: Past | None = None) -> Path:
    """Write the same of a run that was read, and return the page's path; `past`: what other runs show, if known."""
    page = render(view, past)
    plots = view.run.plots_dir()
    for name, text in page.plots.items():
        _write(plots / f"{name}.svg", text)
    path = view.run.path / REPORT
    _write(path, page.html)
    return path


def mark_in(run_dir: Path) -> str | None:
    """By what the page of a run is known (`splitbrain.results.report.past.mark_of`); None if it has nothing like it."""
    try:
        refuse_others(run_dir / REPORT)
        with (run_dir / REPORT).open("rb") as page:
            found = _MARK.search(page.read(_HEAD_BYTES))
    except (OSError, HistoryFormatError):
        return None
    return None if found is None else found[1].decode()


_MARK: Final = re.compile(rb'<meta name="splitbrain-mark" content="([0-9a-f]+)">')
_HEAD_BYTES: Final = 2_048


def _write(path: Path, text: str) -> None:
    replace_file(path, lambda aside: aside.write_text(text, encoding="utf-8"))
