"""A night as a page in the style of the site, self-contained: it opens from the disk without a network."""

from __future__ import annotations

import os
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from splitbrain.results.nightmarkdown import by_cell, change_line, first_line, grouped
from splitbrain.results.nights import Night
from splitbrain.results.templates import environment
from splitbrain.results.text import clip

_FOLDER: Final = Path(__file__).parent
_STYLE: Final = _FOLDER / "site" / "templates" / "site.css"


def document(night: Night, folder: Path) -> str:
    """The page.

    Args:
        night: the night.
        folder: where the page is going to lie: links to reports are relative to it.
    """
    classes = {name: grouped(night.of_class(name)) for name in ("new", "flaky", "known")}
    return (
        _environment()
        .get_template("night.html.j2")
        .render(
            night=night,
            first_line=first_line(night),
            classes=classes,
            style=Markup(_STYLE.read_text()),
            by_cell=by_cell,
            link=partial(_link, folder),
            change_line=change_line,
        )
    )


def _link(folder: Path, report: str) -> str:
    return quote(os.path.relpath(report, folder))


@cache
def _environment() -> jinja2.Environment:
    filters: dict[str, Any] = {"clip": clip}
    return environment([_FOLDER], **filters)
