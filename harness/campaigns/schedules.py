"""Schedule files (`--schedule`): which nemesis op comes when, written by a person or taken from a run that was.

A line for each op, in JSON: when it is due, in seconds since the test began; its function; its request.

    # the leader loses its links for five seconds
    [2.0, "start-partition", {"shape": "isolate-leader"}]
    [7.0, "stop-partition"]

Empty lines and those that begin with # say nothing. A `plan.json` of a run is a schedule as well: its faults, without
its client ops (`splitbrain replay` repeats both).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from splitbrain.harness.generators.script import ScriptedFault
from splitbrain.harness.running.plan import load
from splitbrain.nemesis.requests import check_sequence, complete
from splitbrain.results.errors import UsageError

LINES_MAX = 100_000
"""Ops in one file."""


def read(path: str, nodes: Sequence[str], time_limit_s: float, named: Sequence[str] = ()) -> tuple[ScriptedFault, ...]:
    """The ops in a file, in the order of their times; requests are whole, with all that may be left out of the file.

    Args:
        path: of the file.
        nodes: of the test.
        time_limit_s: of the test, in seconds.
        named: names of `--nemesis`, which may bring kinds of faults of other packages.

    Raises:
        UsageError: the file cannot be read, or a line is wrong, which is named.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--schedule {path}: it cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"--schedule {path}: this is not UTF-8 text.") from None
    except ValueError as error:
        raise UsageError(f"--schedule {path!r}: it cannot be read: {error}.") from None
    places = list(_of_plan(path)) if text.lstrip().startswith("{") else list(_of_lines(path, text))
    if not places:
        raise UsageError(f'--schedule {path}: there is no op in it; a line is [2.5, "kill", {{"spec": "leader"}}].')
    found: list[ScriptedFault] = []
    for place, fault in places:
        if fault.at_ns > time_limit_s * 1e9:
            raise UsageError(
                f"{place}: {fault.f} is due at {fault.at_ns / 1e9:g} s, after the faults phase of {time_limit_s:g} s: "
                f"raise --time-limit."
            )
        try:
            request = complete(fault.f, fault.value, nodes, named)
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None
        found.append(msgspec.structs.replace(fault, value=request))
    check_sequence(places, named)
    return tuple(found)


def _of_plan(path: str) -> Iterator[tuple[str, ScriptedFault]]:
    for place, fault in enumerate(load(path).faults):
        yield f"{path}, faults[{place}]", fault


def _of_lines(path: str, text: str) -> Iterator[tuple[str, ScriptedFault]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if number > LINES_MAX:
            raise UsageError(f"--schedule {path}: it has more than {LINES_MAX:,} lines.")
        if line.strip() and not line.lstrip().startswith("#"):
            place = f"{path}, line {number}"
            yield place, _of_line(place, line)


def _of_line(place: str, line: str) -> ScriptedFault:
    try:
        parts: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{place}: this is not JSON: {error}.") from None
    listed = cast("list[Any]", parts) if isinstance(parts, list) else []
    if len(listed) not in (2, 3) or not isinstance(listed[1], str):
        raise UsageError(f"{place}: an op is [seconds, function, request] or [seconds, function], not {line.strip()}.")
    at_s: Any = listed[0]
    if isinstance(at_s, bool) or not isinstance(at_s, (int, float)) or not 0 <= at_s < 10**6:
        raise UsageError(f"{place}: the time of an op is in seconds since the test began, 0 or more, not {at_s!r}.")
    return ScriptedFault(at_ns=round(at_s * 1e9), f=listed[1], value=listed[2] if len(listed) == 3 else None)
