"""The logs that nodes left, on the time of the run: lines of all nodes can be read beside its ops.

Three kinds of time stamps are known at the beginning of a line:

    2026-11-21T14:49:49.462707Z   a date, as etcd (`"ts":"..."`) and RabbitMQ write it; UTC where it names no zone
    14:40:05.255                  a time of day, UTC; of the day on which it is nearest to the beginning of the run
    7.813154                      seconds since a simulated world began

A line without one (a stack trace) has the time of the line before it. What a host's clock was ahead of the controller's
is taken off where it was measured (`splitbrain.results.report.hostclocks`); else, and under faults of clocks, what is
shown is what the node said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from splitbrain.results.clocks import clocks_of
from splitbrain.results.report.hostclocks import ahead_ns
from splitbrain.results.report.run_view import RunView
from splitbrain.results.text import visible

SIMULATED_EPOCH_NS: Final = 1_577_836_800_000_000_000
"""When simulated worlds begin (2020-01-01), in nanoseconds since the Unix epoch."""

LINES_MAX: Final = 12_000
"""The largest number of lines of all nodes together in a page."""

LINE_MAX: Final = 300
"""The largest number of characters of a line in a page."""

READ_MAX: Final = 16_000_000
"""The largest number of bytes of a file that are read: half at its beginning, half at its end."""

EXCERPT_MAX: Final = 40
"""Lines of an excerpt."""

_BEFORE: Final = 2
_FILES: Final = re.compile(r"(?:^|[._-])(?:log|out|err|txt)(?:$|[._-])", re.IGNORECASE)
_NOT_LOGS: Final = ("data", "aside")
_DATE: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d)?",
)
_TIME_OF_DAY: Final = re.compile(r"\s*(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\b")
_SECONDS: Final = re.compile(r"\s*(\d{1,9}\.\d{3,9})\s")
_HEAD: Final = 120
"""The number of characters in which a time stamp is searched."""

_DAY_NS: Final = 86_400_000_000_000


class Line(NamedTuple):
    """A line of a log: seconds since the test began, None before the first stamp of its file, and what it says."""

    time_s: float | None
    text: str


class NodeLog(NamedTuple):
    """What is shown of one file.

    Attributes:
        node: whose it is.
        file: its path in the folder of the run.
        lines: those that are shown, in the order of the file.
        gaps: for each of these how many lines are left out right before it.
        total: how many lines the file has, as far as it was read.
        unread: bytes in the middle of the file that were not read.
    """

    node: str
    file: str
    lines: list[Line]
    gaps: list[int]
    total: int
    unread: int

    @property
    def left_out(self) -> int:
        """How many of the lines that were read are not shown."""
        return self.total - len(self.lines)


def node_logs(view: RunView, moments_s: Sequence[float], most: int = LINES_MAX) -> list[NodeLog]:
    """The logs under nodes/, the nodes in their order.

    Args:
        view: the run.
        moments_s: of what matters, in seconds; of a log with too many lines those nearest to one are kept.
        most: lines to keep of all files together.
    """
    found = [(node, path) for node in _folders(view) for path in _files(view.run.path / "nodes" / node)]
    share = most // max(len(found), 1)
    began_ns, clocks = _began_ns(view.document), clocks_of(view.events)
    return [
        _read(view.run.path, node, path, began_ns + ahead_ns(clocks, node), moments_s, share) for node, path in found
    ]


def excerpt(logs: Sequence[NodeLog], begin_s: float, end_s: float) -> tuple[list[tuple[str, Line]], int]:
    """What was logged in a stretch of time, and the last words of each node before it, by time; how much is left out.

    Of too many lines those at the beginning are kept.
    """
    found: list[tuple[str, Line]] = []
    for log in logs:
        timed = [line for line in log.lines if line.time_s is not None]
        before = [line for line in timed if line.time_s is not None and line.time_s < begin_s]
        inside = [line for line in timed if line.time_s is not None and begin_s <= line.time_s <= end_s]
        found += [(log.node, line) for line in (*before[-_BEFORE:], *inside)]
    found.sort(key=lambda pair: pair[1].time_s or 0.0)
    return found[:EXCERPT_MAX], max(len(found) - EXCERPT_MAX, 0)


def _folders(view: RunView) -> list[str]:
    folder = view.run.path / "nodes"
    there = {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set[str]()
    named = [node for node in view.nodes if node in there]
    return [*named, *sorted(there.difference(named))]


def _files(folder: Path) -> list[Path]:
    """Text logs in a node's folder; files in its data folder are the system's, and binary."""
    inside = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sorted(
        path
        for path in inside
        if _FILES.search(path.name) and not set(path.relative_to(folder).parts[:-1]) & set(_NOT_LOGS)
    )


def _began_ns(document: Mapping[str, Any]) -> int:
    began = document.get("began_wall_ns") or document.get("start_wall_ns")
    return began if isinstance(began, int) else 0


def _read(root: Path, node: str, path: Path, began_ns: int, moments_s: Sequence[float], most: int) -> NodeLog:
    raw, unread = _bytes(path)
    lines: list[Line] = []
    time_s: float | None = None
    for piece in raw.split(b"\n"):
        if not piece.strip():
            continue
        text = piece[: 4 * LINE_MAX].decode(errors="backslashreplace")
        stamp_ns = stamp(text[:_HEAD], began_ns)
        time_s = time_s if stamp_ns is None else stamp_ns / 1e9
        cut = f"… ({len(piece):,} bytes)" if len(text) > LINE_MAX or len(piece) > 4 * LINE_MAX else ""
        lines.append(Line(time_s, visible(text[:LINE_MAX].rstrip("\r")) + cut))
    kept = _nearest(lines, moments_s, most)
    gaps = np.diff(kept, prepend=-1) - 1
    name = path.relative_to(root).as_posix()
    return NodeLog(node, name, [lines[i] for i in kept.tolist()], gaps.tolist(), len(lines), unread)


def _bytes(path: Path) -> tuple[bytes, int]:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= READ_MAX:
            return file.read(READ_MAX), 0
        head = file.read(READ_MAX // 2)
        file.seek(size - READ_MAX // 2)
        return head + b"\n" + file.read(READ_MAX // 2), size - READ_MAX


def _nearest(lines: Sequence[Line], moments_s: Sequence[float], most: int) -> Any:
    """Numbers of the lines to keep: all, or those nearest in time to what matters; without moments the first ones."""
    if len(lines) <= most:
        return np.arange(len(lines))
    if not len(moments_s):
        return np.arange(most)
    times = np.array([0.0 if line.time_s is None else line.time_s for line in lines])
    moments = np.sort(np.asarray(moments_s, dtype=np.float64))
    after = np.minimum(np.searchsorted(moments, times), len(moments) - 1)
    before = np.maximum(after - 1, 0)
    away = np.minimum(np.abs(moments[after] - times), np.abs(times - moments[before]))
    return np.sort(np.argsort(away, kind="stable")[:most])


def stamp(head: str, began_ns: int) -> int | None:
    """The time at the beginning of a line, in nanoseconds since the test began; None if it has none that is known.

    Args:
        head: the beginning of the line.
        began_ns: when the test began, in nanoseconds since the Unix epoch.
    """
    if (found := _SECONDS.match(head)) is not None:
        whole, _, part = found[1].partition(".")
        return SIMULATED_EPOCH_NS + int(whole) * 10**9 + _fraction_ns(part) - began_ns
    if (found := _TIME_OF_DAY.match(head)) is not None:
        of_day_ns = (int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])) * 10**9 + _fraction_ns(found[4])
        return (of_day_ns - began_ns + _DAY_NS // 2) % _DAY_NS - _DAY_NS // 2
    if (found := _DATE.search(head)) is not None:
        return _dated_ns(found, began_ns)
    return None


def _dated_ns(found: re.Match[str], began_ns: int) -> int | None:
    try:
        when = datetime.fromisoformat(f"{found[1]}T{found[2]}").replace(tzinfo=UTC)
    except ValueError:
        return None
    if found[4] not in (None, "Z"):
        hours, minutes = int(found[4][1:3]), int(found[4][-2:])
        away = timedelta(hours=hours, minutes=minutes)
        when = when + away if found[4][0] == "-" else when - away
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + _fraction_ns(found[3]) - began_ns


def _fraction_ns(digits: str | None) -> int:
    return int((digits or "0").ljust(9, "0"))
