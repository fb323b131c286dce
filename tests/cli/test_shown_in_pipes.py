"""What is shown where there is no terminal: lines that live through long work, and tables that can be searched."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from splitbrain.harness.cli import progress, steps
from splitbrain.harness.cli.progress import Progress
from splitbrain.harness.cli.steps import Steps
from splitbrain.harness.cli.tables import print_whole
from splitbrain.results.history import NEMESIS, Op


class Clock:
    """Time that passes only where somebody waits for it; after `waits` waits the work is done."""

    def __init__(self, waits: int) -> None:
        self.now_s = 0.0
        self.waited: list[float] = []
        self._left = waits
        self._over = False

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, timeout: float) -> bool:
        if self._left == 0 or self._over:
            self._over = True
            return True
        self._left -= 1
        self.waited.append(timeout)
        self.now_s += timeout
        return False

    def set(self) -> None:
        pass


class Threads:
    """Stands for `threading`: its only thread runs when it is joined, its event is the clock's."""

    def __init__(self, clock: Clock) -> None:
        self.Event = lambda: clock
        self.Lock = steps.threading.Lock

    class Thread:
        def __init__(self, target: Any, **_: Any) -> None:
            self._target = target

        def start(self) -> None:
            pass

        def join(self) -> None:
            self._target()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Three waits: two seconds, and then twice the time between lines."""
    found = Clock(3)
    for module in (progress, steps):
        monkeypatch.setattr(module, "time", found)
        monkeypatch.setattr(module, "threading", Threads(found))
    return found


def test_judging_says_that_it_lives_from_two_seconds_on_and_then_every_ten(clock: Clock) -> None:
    shown = io.StringIO()
    with Progress("register seed 1", Console(file=shown)) as shower, shower.during("judging", "it is kept") as tell:
        tell("linearizable")
    assert clock.waited == [2.0, 10.0, 10.0]
    assert shown.getvalue().splitlines() == [
        "register seed 1    0.0 s  starting",
        "register seed 1    0.0 s  judging ",
        "it is kept",
        "register seed 1    2.0 s  judging: linearizable",
        "register seed 1   12.0 s  judging: linearizable",
        "register seed 1   22.0 s  judging: linearizable",
    ]


def test_a_long_step_is_a_line_after_two_seconds_and_then_every_ten(clock: Clock) -> None:
    shown = io.StringIO()
    with Steps(2, shown) as told:
        told.enter("reading a")
        told.enter("judging a")
    assert clock.waited == [2.0, 10.0, 10.0]
    assert shown.getvalue().splitlines() == [
        "judging a  (1/2)  2 s",
        "judging a  (1/2)  12 s",
        "judging a  (1/2)  22 s",
    ]


def test_in_a_pipe_a_row_of_a_table_is_one_line_with_every_cell_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table = Table("run", "outcome")
    name = "-".join(["metadata-register-partition"] * 20)
    table.add_row(name, "it was not seen whether " * 30)
    print_whole(table)
    out = capsys.readouterr().out
    [row] = [line for line in out.splitlines() if "metadata" in line]
    assert name in row
    assert "it was not seen whether " * 29 in row
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        ({"target": "n1", "down": ["n1"]}, "fault: kill n1"),
        ({"target": "none: no node can be spared"}, "fault: none"),
        ({}, "fault: kill"),
    ],
)
def test_a_fault_that_hit_nothing_is_not_shown_as_one_in_force(report: dict[str, Any], shown: str) -> None:
    line = Progress("register seed 1", Console(file=io.StringIO()))
    line.observe(Op(process=0, type="invoke", f="read"))
    asked = {"action": "start", "fault": "kill"}
    line.observe(Op(process=NEMESIS, type="ok", f="kill", value={**asked, **report}))
    line.enter("faults")
    assert shown in line._line()  # pyright: ignore[reportPrivateUsage] - what a terminal shows four times a second
