"""One hunt as a command of its own, and what is kept of it: for the tools that hunt one thing after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
R = TypeVar("R")

SPLITBRAIN: Final = (str(Path(sys.executable).with_name("splitbrain")),)
"""The command, as it is installed beside this interpreter."""

HOUR_S: Final = 3600.0


class Hunt(msgspec.Struct, frozen=True, kw_only=True):
    """How one hunt went.

    Attributes:
        found: whether a checker named a violation, one that can see what was hunted.
        outcome: of the first finding, "violation" or "harness error"; empty if there was none.
        kind: what the checkers called it, or the harness error; empty if there was nothing.
        cpu_s: CPU seconds that it took.
        simulated_h: simulated hours.
        runs: seeds that were tried.
        ops: of the plan once it was shrunk, None if it was not.
        command: runs the finding again; that of the hunt if there is none.
        revision: of the code.
    """

    found: bool
    outcome: str = ""
    kind: str
    cpu_s: float
    simulated_h: float
    runs: int
    ops: int | None
    command: str
    revision: str


def ask(
    words: Sequence[str], *, program: Sequence[str] = SPLITBRAIN, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The answer of `splitbrain hunt` with these options, as JSON.

    Args:
        words: the options.
        program: what stands for `splitbrain`.
        environment: of its process; None for that of this one.

    Raises:
        SystemExit: it gave no answer.
    """
    line = [*program, "hunt", *words, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    if not done.stdout:
        raise SystemExit(f"splitbrain hunt {' '.join(words)} gave no answer: {done.stderr.strip()}")
    return json.loads(done.stdout)


def hunt_of(answer: Mapping[str, Any], command: str, seen_by: Iterable[str] | None = None) -> Hunt:
    """What is kept of an answer.

    Args:
        answer: of `ask`.
        command: of the hunt.
        seen_by: the checkers that can see what was hunted; None for any.
    """
    findings: list[dict[str, Any]] = answer["findings"]
    first = findings[0] if findings else None
    kind = "" if first is None else str(first["kind"])
    named = {part.partition(":")[0] for part in kind.split("; ")}
    is_seen = seen_by is None or bool(named & set(seen_by))
    smaller, figures = answer["smaller"], answer["figures"]
    return Hunt(
        found=first is not None and first["outcome"] == "violation" and is_seen,
        outcome="" if first is None else str(first["outcome"]),
        kind=kind,
        cpu_s=round(figures["cpu_s"], 1),
        simulated_h=round(figures["simulated_s"] / HOUR_S, 2),
        runs=figures["runs"],
        ops=None if not smaller or smaller["problem"] else smaller["after"]["ops"],
        command=command if first is None else first["command"].partition(" --store ")[0],
        revision="" if answer["git"] is None else str(answer["git"]["revision"])[:10],
    )


def side_by_side(work: Callable[[T], R], wanted: Iterable[T], jobs: int) -> Iterator[tuple[T, R]]:
    """Do some work for each, so many at a time; each with its result, as soon as that is there."""
    with ThreadPoolExecutor(jobs) as pool:
        begun = {pool.submit(work, each): each for each in wanted}
        try:
            for done in as_completed(begun):
                yield begun[done], done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def cells(hunt: Hunt) -> str:
    """The cells of a row of a table with the columns of `COLUMNS`."""
    said = hunt.kind.replace("|", "\\|") or "nothing"
    ops = "" if hunt.ops is None else str(hunt.ops)
    return (
        f"{'yes' if hunt.found else 'no'} | {hunt.cpu_s} | {hunt.simulated_h} | {hunt.runs} | {said} | {ops} | "
        f"`{hunt.command}`"
    )


COLUMNS: Final = ("found", "CPU s", "simulated h", "runs", "what the checkers said", "shrunk to ops", "again")


def row(*columns: str) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(columns)} |"


def head(*columns: str) -> list[str]:
    """The head of a table in Markdown."""
    return [row(*columns), row(*("---" for _ in columns))]
