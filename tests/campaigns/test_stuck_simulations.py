"""Programs that never give the simulation its turn can be ended, and those that do not start say where they failed."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.sim import _raised  # pyright: ignore[reportPrivateUsage]
from splitbrain.harness.campaigns import simulated
from splitbrain.harness.running.runner import Stop


class EndedError(Exception):
    """Stands for the end of the process."""


def _end(code: int) -> None:
    raise EndedError(code)


def _ask(times: int, *, stuck: bool) -> Stop:
    stop = Stop()

    async def run() -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
            if not stuck:
                await asyncio.sleep(0)

    with simulated._interruptible(stop, _end):  # pyright: ignore[reportPrivateUsage]
        asyncio.run(run())
    return stop


def test_the_third_request_ends_a_process_whose_simulation_is_stuck(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EndedError, match="255"):
        _ask(3, stuck=True)
    said = capfd.readouterr().err
    assert f"since {__file__}, line" in said
    assert "in run computes and awaits nothing" in said


def test_two_requests_wait_for_the_end_of_the_event() -> None:
    assert _ask(2, stuck=True).requests >= 0
    assert _ask(3, stuck=False).requests == 3


def test_a_node_that_does_not_start_says_where_its_program_failed() -> None:
    with pytest.raises(ValueError, match="boom") as caught:
        raise ValueError("boom")
    said = _raised(caught.value)
    assert said.startswith(" (raised at tests/campaigns/test_stuck_simulations.py:"), "the same on every machine"
    assert _raised(None) == ""
    assert _raised(ValueError("made, not raised")) == ""


def test_where_a_program_failed_is_the_same_wherever_it_and_python_are(tmp_path: Path) -> None:
    source = "import json\n\ndef main(text):\n    return json.loads(text)\n"
    said: set[str] = set()
    for folder in (tmp_path / "here", tmp_path / "there"):
        names: dict[str, Any] = {"__package__": "shop.parts"}
        exec(compile(source, folder / "server.py", "exec"), names)
        with pytest.raises(json.JSONDecodeError) as caught:
            names["main"]("{")
        said.add(_raised(caught.value))
    (one,) = said
    assert one == " (raised at shop/parts/server.py:4)", "not in Python's own library, which raised it"


def test_a_failure_in_pythons_own_library_alone_has_no_place() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    failure = caught.value
    assert failure.__traceback__ is not None
    assert _raised(failure.with_traceback(failure.__traceback__.tb_next)) == ""
