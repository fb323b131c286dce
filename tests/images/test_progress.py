"""A build that takes minutes is not silent where there is no terminal."""

from __future__ import annotations

import time

import pytest

from splitbrain.harness.cli import images
from splitbrain.harness.images.catalogue import IMAGES, find


def test_a_step_that_takes_long_is_told_again_and_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(images, "_PLAIN_S", 0.01)
    said = ""
    with images._Screen() as screen:  # pyright: ignore[reportPrivateUsage]
        say = screen.begin(find(next(iter(IMAGES))))
        say("Step 2/5 : RUN apt-get install")
        say("Unpacking a large package")
        deadline = time.monotonic() + 60
        while said.count("Unpacking a large package") < 2 and time.monotonic() < deadline:
            said += capfd.readouterr().err
    lines = said.splitlines()
    assert lines[0] == "images: checking existing images"
    assert any(line.endswith(": begins") for line in lines)
    assert any("Step 2/5" in line for line in lines)
    assert said.count("Unpacking a large package") >= 2
