"""Judging that is cut short: one line with the command that judges again, and what was recorded is kept."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.campaigns import judging, many
from splitbrain.harness.campaigns.rejudging import advising_on_interrupt
from splitbrain.harness.cli.main import main
from splitbrain.results.errors import JudgingStoppedError
from tests.cli.support import only_run

RUN = ["run", "--backend", "sim", "--nemesis", "none", "-n", "3", "--time-limit", "1", "--seed", "1", "--store"]


def interrupt() -> None:
    raise KeyboardInterrupt


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


def exhaust() -> None:
    raise MemoryError


STOPS = [
    (interrupt, "interrupted while judging", 130),
    (terminate, "interrupted while judging", 143),
    (exhaust, "memory ran out while judging", 255),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("stop", "said", "code"), STOPS)
def test_a_run_whose_judging_is_stopped_names_the_command_that_judges_it(
    stop: Callable[[], None],
    said: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def judge(*_: Any, **__: Any) -> None:
        stop()

    store = tmp_path / "a store"
    with monkeypatch.context() as within:
        within.setattr(judging, "judge_recorded", judge)
        assert ended(within, *RUN, str(store)) == code
    [line] = [line for line in capsys.readouterr().err.splitlines() if said in line]
    assert "what was recorded is kept" in line
    run = only_run(store)
    assert f"splitbrain analyze '{run}'" in line
    assert ended(monkeypatch, "analyze", str(run), "--engine", "inline") in (0, 2)


@pytest.mark.parametrize(("stop", "code"), [(interrupt, 130), (terminate, 143)])
def test_an_analysis_that_is_stopped_names_itself(
    stop: Callable[[], None],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def judged(*_: Any, **__: Any) -> None:
        stop()

    store = tmp_path / "a store"
    assert ended(monkeypatch, *RUN, str(store)) in (0, 2)
    capsys.readouterr()
    monkeypatch.setattr(many, "judged", judged)
    assert ended(monkeypatch, "analyze", "latest", "--again", "--store", str(store), "--engine", "inline") == code
    [line] = [line for line in capsys.readouterr().err.splitlines() if "while judging" in line]
    assert line.endswith(f"To judge it:  splitbrain analyze latest --store '{store}' --again")


def ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    """The exit code of the command in this process."""
    monkeypatch.setattr("sys.argv", ["splitbrain", *words])
    with pytest.raises(SystemExit) as exit_:
        main()
    return exit_.value.code


def test_afterwards_a_sigterm_is_what_it_was() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(JudgingStoppedError, match="To judge it:  splitbrain analyze x"):
        stopped_by_sigterm(before)
    assert signal.getsignal(signal.SIGTERM) is before


def stopped_by_sigterm(before: Any) -> None:
    with advising_on_interrupt("splitbrain analyze x"):
        assert signal.getsignal(signal.SIGTERM) is not before
        terminate()


def test_errors_of_judging_itself_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError), advising_on_interrupt("splitbrain analyze x"):
        raise ZeroDivisionError
