"""Each bug of the cluster is found by a checker that is made for it, with the options that bring it out."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from splitbrain.checkers.verdict import Outcome
from splitbrain.cluster.bugs import ALL
from splitbrain.harness.campaigns.hunting.trial import carry_out
from splitbrain.harness.campaigns.swarm import Asked, asked_for, draw
from splitbrain.harness.cli.hunt import command

TOOLS = Path(__file__).parents[2] / "tools"

RUNS = 25
"""The largest number of seeds that a bug may take."""

SLOW = frozenset(
    {
        *("M06", "M07", "M12", "M13", "M14", "M26", "M28", "M29", "M38", "M45", "M46", "M47", "M48", "M50"),
        "M65",
    }
)
"""These take more than some seconds, or are not found: `tools/bugs.py` hunts them, outside CI."""


def of_bugs() -> Any:
    """`tools/bugs.py`, which has the options and what is known of misses, by bug."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(TOOLS))  # pyright: ignore[reportUnknownMemberType]
        return importlib.import_module("bugs")


CHOSEN: Mapping[str, str] = of_bugs().CHOSEN


def asked(bug: str, options: str) -> Asked:
    """What a hunt with these options asks for."""
    of_draw = ("workload", "nemesis", "nodes", "system", "bug", "settings", "world", "concurrency", "rate")
    params: dict[str, Any] = command.make_context("hunt", ["--bug", bug, *shlex.split(options)]).params
    return asked_for(**{name: params[name] for name in (*of_draw, "time_limit", "interval", "op_timeout")})


@cache
def found(bug: str) -> str:
    """What checkers called the first violation; fails if there is none."""
    options = asked(bug, CHOSEN[bug])
    for seed in range(1, RUNS + 1):
        trial = carry_out(draw(seed, options))
        assert trial.outcome is not Outcome.HARNESS_ERROR, trial.harness_error
        if trial.outcome is Outcome.VIOLATION:
            return trial.kind
    pytest.fail(f"{RUNS} runs without a violation")


def test_there_are_options_for_every_bug() -> None:
    assert list(CHOSEN) == list(ALL)


def test_the_page_says_of_each_bug_that_the_default_draw_misses_what_no_run_reached() -> None:
    bugs = of_bugs()
    hunts = bugs.read()
    missed = {bug for bug, draws in hunts.items() if "default" in draws and not draws["default"].found}
    assert missed == set(bugs.MISSED), "hunt those again that are here and there no more, or say why they are missed"
    assert "no reason is known" not in bugs.page(hunts)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in ALL if bug not in SLOW])
def test_it_is_found_by_a_checker_that_is_made_for_it(bug: str) -> None:
    kind = found(bug)
    named = {part.partition(":")[0] for part in kind.split("; ")}
    assert named & set(ALL[bug].seen_by), kind


ISOLATION = {
    "M34": "G1a",
    "M90": "lost-update",
    "M91": "G2-item",
    "M92": "G-single-item-realtime",
    "M93": "G1a",
    "M94": "lost-update",
}


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "anomaly"), ISOLATION.items())
def test_a_bug_of_isolation_is_named_by_its_anomaly(bug: str, anomaly: str) -> None:
    """Which the checker of transactions alone names; M92 shows in real time only."""
    [named] = [part for part in found(bug).split("; ") if part.startswith(("list-append: ", "rw-register: "))]
    anomalies = named.partition(": ")[2].split(", ")
    assert anomaly in anomalies, named
    if bug == "M92":
        assert all(each.endswith("-realtime") for each in anomalies), named


@pytest.mark.slow
def test_reads_of_two_replicas_in_one_transaction_are_named_a_long_fork() -> None:
    assert "long-fork: long-fork" in found("M97").split("; ")


@pytest.mark.slow
def test_a_lost_write_that_is_never_read_is_seen_by_quorum_progress_alone() -> None:
    assert re.fullmatch(r"quorum-progress: (.*, )?Q2", found("M81"))
    assert ";" not in found("M81")


@pytest.mark.slow
def test_a_queue_that_is_gone_while_its_connection_serves_on_is_seen_over_that_connection() -> None:
    """Most runs of M59 show the queue lost to others first; some ask over its connection as well."""
    options = asked("M59", CHOSEN["M59"])
    kinds = (carry_out(draw(seed, options)).kind for seed in range(1, RUNS + 1))
    assert any("vanished" in kind for kind in kinds if kind is not None)
