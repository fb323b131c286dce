"""However a hunt is interrupted after its search: its figures are written, and it says what it found."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns import judging, simulated
from splitbrain.harness.campaigns.hunting import findings, smaller
from splitbrain.harness.campaigns.hunting.tally import Tally
from splitbrain.harness.campaigns.hunting.trial import Trial
from splitbrain.harness.campaigns.swarm import Asked, draw
from splitbrain.harness.cli import hunt
from splitbrain.harness.cli.main import main
from splitbrain.results.history import Op

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KINDS = ("linearizable: nonlinearizable", "crashes: node-crash")


@pytest.fixture(autouse=True)
def handlers() -> Generator[None]:
    """Handlers as a shell's foreground job has them; no signal that is not heard ends the tests."""

    def unheard(number: int, _: object) -> None:
        raise AssertionError(f"signal {number} had its default effect")

    before = {number: signal.signal(number, unheard) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _two_violations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that found two kinds of violations."""
    asked = Asked(workloads=("register",), nemeses=("none",), nodes=(3,), time_limit=1.0, rate=5.0, world="lan")
    tally = Tally()
    for seed, kind in enumerate(KINDS, 1):
        tally.add(Trial(options=draw(seed, asked), outcome=Outcome.VIOLATION, kind=kind))

    def searched(*_: Any) -> tuple[Tally, float]:
        return tally, 1.0

    monkeypatch.setattr(hunt, "_hunt", searched)


def _hunted(store: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer of a hunt that keeps going."""
    with pytest.raises(SystemExit) as ended:
        main(["hunt", "--keep-going", "--json", "--jobs", "1", "--seed", "1", "--store", str(store), *more])
    assert isinstance(ended.value.code, int)
    out = capsys.readouterr().out
    assert len(list((store / "hunts").iterdir())) == 1
    return ended.value.code, json.loads(out)


def _asking(number: signal.Signals, asked: list[int]) -> Callable[..., None]:
    def ask(*_: Any, **__: Any) -> None:
        asked.append(number)
        signal.raise_signal(number)

    return ask


@pytest.mark.parametrize("number", ASKING)
@pytest.mark.parametrize("place", ["composing", "judging"])
def test_an_interrupt_while_a_finding_is_run_again_ends_that_and_loses_nothing(
    place: str,
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[int] = []
    where = (judging, "judge_recorded") if place == "judging" else (findings, "compose")
    monkeypatch.setattr(*where, _asking(number, asked))
    code, answer = _hunted(tmp_path, capsys)
    assert asked == [number], "the second finding is not begun, and nothing is shrunk"
    assert code == 1
    assert [finding["kind"] for finding in answer["findings"]] == list(KINDS)
    assert all("interrupted" in finding["problem"] for finding in answer["findings"])
    assert answer["smaller"] is None


@pytest.mark.parametrize("number", ASKING)
def test_a_hunt_that_was_interrupted_before_runs_its_findings_again_until_the_next_request(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    search = hunt._hunt  # pyright: ignore[reportPrivateUsage]

    def interrupted(*given: Any) -> tuple[Tally, float]:
        signal.raise_signal(signal.SIGINT)
        return search(*given)

    asked: list[int] = []
    monkeypatch.setattr(hunt, "_hunt", interrupted)
    monkeypatch.setattr(findings, "compose", _asking(number, asked))
    code, answer = _hunted(tmp_path, capsys)
    assert (code, asked, answer["ended_by"]) == (1, [number], "interrupt")


@pytest.mark.parametrize("number", ASKING)
def test_an_interrupt_outside_the_search_of_a_smaller_plan_gives_the_shrinking_up(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def same(*_: Any) -> None:
        return None

    monkeypatch.setattr(findings, "_difference", same)
    monkeypatch.setattr(smaller, "failure_of", _asking(number, []))
    code, answer = _hunted(tmp_path, capsys)
    assert code == 1
    assert answer["smaller"]["problem"] == "it was interrupted."
    assert all(finding["run"] for finding in answer["findings"])


@pytest.mark.parametrize(
    ("early", "problem"), [(True, "it could not be run again"), (False, "a part of it")], ids=["before", "during"]
)
def test_an_interrupt_of_the_run_itself_is_one_of_the_hunt(
    early: bool,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    simulate = simulated.simulate
    asked: list[str] = []

    def asking(*given: Any, observe: Callable[[Op], None], **named: Any) -> Any:
        def interrupted(op: Op) -> None:
            observe(op)
            if op.type == "invoke" and not asked:
                ask()

        def ask() -> None:
            asked.append("")
            signal.raise_signal(signal.SIGTERM)

        if early:
            ask()
        return simulate(*given, observe=interrupted, **named)

    monkeypatch.setattr(simulated, "simulate", asking)
    code, answer = _hunted(tmp_path, capsys)
    assert code == 1
    first, second = answer["findings"]
    assert problem in first["problem"]
    assert (first["run"] is None) == early
    assert second["run"] is None
    assert answer["smaller"] is None


def test_an_interrupt_is_no_error_of_the_harness_in_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(findings, "compose", _asking(signal.SIGTERM, []))
    with pytest.raises(SystemExit):
        main(["hunt", "--keep-going", "--jobs", "1", "--seed", "1", "--store", str(tmp_path)])
    said = capsys.readouterr().out
    assert said.count("Interrupted: it was not run again") == len(KINDS)
    assert "Harness error" not in said
