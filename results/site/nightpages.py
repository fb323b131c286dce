"""Pages of nights as HTML: trends, the runs of a night, and two nights side by side."""

from __future__ import annotations

from typing import Any, Final

from markupsafe import Markup

from splitbrain.results.nightcomparison import NightComparison
from splitbrain.results.nightmarkdown import change_line, headline
from splitbrain.results.site.nightly import HEIGHT, WIDTH, RunsOfNight, TrendsOfNights
from splitbrain.results.site.pages import render, static

CHANGES_MAX: Final = 50
"""Change points that a page lists."""


def trends_page(store: str, found: TrendsOfNights) -> str:
    """The figures of nights, a picture for each."""
    return render(
        "trends.html.j2",
        store=store,
        found=found,
        width=WIDTH,
        height=HEIGHT,
        change_line=change_line,
        headline=headline,
        most=CHANGES_MAX,
    )


def night_page(found: RunsOfNight) -> str:
    """The runs of a night."""
    return render("night.html.j2", found=found, change_line=change_line, headline=headline, most=CHANGES_MAX)


def comparison_page(found: NightComparison, *, standalone: bool) -> str:
    """Two nights side by side.

    Args:
        found: what they have in common, and what not.
        standalone: a file that needs nothing else, instead of a page of the site.
    """
    style = Markup(static("site.css").decode()) if standalone else None  # our own file: no value of a run is in it
    return render("nights.html.j2", found=found, standalone=standalone, style=style, change_line=change_line)


def trends_document(found: TrendsOfNights) -> dict[str, Any]:
    """The same as the page of trends, for machines."""
    return {
        "of": found.of,
        "cell": found.cell,
        "versions": found.versions,
        "nights": [{"name": each.name, "runs": 0 if each.table is None else each.table.runs} for each in found.nights],
        "figures": [
            {
                "figure": picture.figure,
                "label": picture.label,
                "versions": {
                    line.version: [{"night": dot.night, "quantiles": dot.found} for dot in line.dots]
                    for line in picture.lines
                },
            }
            for picture in found.pictures
        ],
        "changes": found.changes,
    }
