"""Which rows of the table are shown, in which order, on which page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from splitbrain.results.errors import UsageError
from splitbrain.results.site.rows import STATES, Row

ROWS_A_PAGE: Final = 100

ASKED_MAX: Final = 1000
"""Characters of a filter."""

_KEYS: Mapping[str, Callable[[Row], Any]] = {
    "start": lambda row: row.run,
    "test": lambda row: row.test,
    "outcome": lambda row: STATES.index(row.state),
    "ops": lambda row: row.ops,
    "rate": lambda row: row.ok_per_s,
    "p99": lambda row: row.p99_ms,
    "available": lambda row: row.available,
    "recovery": lambda row: row.recovery_s,
    "leaders": lambda row: row.leader_changes,
    "marks": lambda row: row.marks,
}
_ISO_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
ORDERS: Final = tuple(_KEYS)
"""What rows can be sorted by."""

CHOICES: Final = ("outcome", "workload", "nemesis", "system", "backend", "test")
"""Filters that offer what the store has."""

FILTERS: Final = (*CHOICES, "nemeses", "bug", "since", "until", "text")
"""What rows can be chosen by."""


class Selection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reader wants to see.

    Attributes:
        outcome, workload, system, backend, test: exactly this; empty for all.
        nemesis: one of the names in a run's nemesis.
        nemeses: all of a run's nemesis as it was asked for, "none" if it had none.
        bug: the bugs that were switched on; "any" or "none".
        since, until: the first and the last day on which a run began (UTC), ISO 8601.
        text: words that all stand in what a row says of the run, in any case.
        sort: one of `ORDERS`.
        down: whether the largest comes first.
        page: from 1.
    """

    outcome: str = ""
    workload: str = ""
    nemesis: str = ""
    system: str = ""
    backend: str = ""
    test: str = ""
    nemeses: str = ""
    bug: str = ""
    since: str = ""
    until: str = ""
    text: str = ""
    sort: str = "start"
    down: bool = True
    page: int = 1

    def query(self, **changes: Any) -> str:
        """The query string of this selection with something changed."""
        changed = msgspec.to_builtins(msgspec.structs.replace(self, **changes))
        return urlencode({name: int(value) if name == "down" else value for name, value in changed.items()})


class Chosen(msgspec.Struct, frozen=True):
    """What a selection found.

    Attributes:
        rows: those on the page.
        matching: how many there are on all pages.
        total: how many runs the store has.
        page: the page, which exists.
        pages: how many there are, at least 1.
    """

    rows: list[Row]
    matching: int
    total: int
    page: int
    pages: int


def parse(query: Mapping[str, str]) -> Selection:
    """The selection that a query string asks for; names that it does not know are left alone.

    Raises:
        UsageError: an order, a page or a day that does not exist, or a filter longer than any that matches.
    """
    for name in FILTERS:
        if len(query.get(name, "")) > ASKED_MAX:
            raise UsageError(f"{name} is too long: give at most {ASKED_MAX} characters.")
    sort, page, down = query.get("sort") or "start", query.get("page") or "1", query.get("down") or "1"
    if sort not in ORDERS:
        raise UsageError(f"runs cannot be sorted by {sort!r}: there are {', '.join(ORDERS)}.")
    if not (page.isascii() and page.isdigit() and len(page) < 7):
        raise UsageError(f"{page!r} is no page: give a number from 1.")
    for name in ("since", "until"):
        parse_day(name, query.get(name, ""))
    chosen = {name: query.get(name, "").strip() for name in FILTERS}
    return Selection(**chosen, sort=sort, down=down != "0", page=max(int(page), 1))


def parse_day(name: str, text: str) -> date | None:
    """A day of a query, None without one.

    Raises:
        UsageError: there is no such day.
    """
    if not text.strip():
        return None
    found = _day(text.strip())
    if found is None:
        raise UsageError(f"{name} {text[:40]!r} is no day: give one as 2026-11-21.")
    return found


def day_of(row: Row) -> date | None:
    """The day on which a run began, as far as it says so."""
    return _day(row.start[:10])


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _ISO_DAY.fullmatch(text) else None
    except ValueError:
        return None


def none_if_empty(nemesis: str) -> str:
    """A run's whole nemesis as filters name it."""
    return nemesis or "none"


def choose(rows: Sequence[Row], wanted: Selection, per_page: int = ROWS_A_PAGE) -> Chosen:
    """The rows that are wanted; without a value to sort by they come last, whichever way."""
    found = [row for row in rows if _matches(row, wanted)]
    key: Callable[[Row], Any] = _KEYS[wanted.sort]
    known = [row for row in found if key(row) is not None]
    known.sort(key=key, reverse=wanted.down)
    ordered = [*known, *(row for row in found if key(row) is None)]
    pages = max(-(-len(ordered) // per_page), 1)
    page = min(wanted.page, pages)
    return Chosen(ordered[(page - 1) * per_page : page * per_page], len(ordered), len(rows), page, pages)


def choices(rows: Sequence[Row]) -> dict[str, list[str]]:
    """What each filter can be set to, as far as the store has it."""
    return {
        "outcome": [state for state in STATES if any(row.state == state for row in rows)],
        "workload": sorted({row.workload for row in rows if row.workload}),
        "nemesis": sorted({name for row in rows for name in _nemeses(row)}),
        "system": sorted({row.system for row in rows if row.system}),
        "backend": sorted({row.backend for row in rows if row.backend}),
        "test": sorted({row.test for row in rows}),
    }


def _matches(row: Row, wanted: Selection) -> bool:
    exact = (
        (wanted.outcome, row.state),
        (wanted.workload, row.workload),
        (wanted.system, row.system),
        (wanted.backend, row.backend),
        (wanted.test, row.test),
        (wanted.nemeses, none_if_empty(row.nemesis)),
    )
    if any(asked and asked != found for asked, found in exact):
        return False
    if wanted.nemesis and wanted.nemesis not in _nemeses(row):
        return False
    if wanted.bug and wanted.bug not in (row.bug or "none", "any" if row.bug else ""):
        return False
    began = row.start[:10] if wanted.since or wanted.until else ""
    if (wanted.since or wanted.until) and not (began and wanted.since <= began <= (wanted.until or began)):
        return False
    if not wanted.text:
        return True
    said = " ".join([row.name, row.state, row.says, row.nemesis, row.backend, row.bug, row.system]).casefold()
    return all(word in said for word in wanted.text.casefold().split())


def _nemeses(row: Row) -> list[str]:
    """The names in a run's nemesis, without weights."""
    return [name for each in row.nemesis.split(",") if (name := each.partition(":")[0].strip())]
