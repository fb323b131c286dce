"""`splitbrain prepare` compiles in processes of its own, and says which of them failed."""

from __future__ import annotations

import importlib
import multiprocessing
import signal
from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from splitbrain.checkers.spark import session
from splitbrain.harness.cli import prepare
from splitbrain.results.errors import EngineError


def prepared(monkeypatch: pytest.MonkeyPatch, kernels: Sequence[str]) -> str:
    monkeypatch.setattr(prepare, "KERNELS", kernels)
    monkeypatch.setattr(session, "prepare", lambda: "no archive")
    return CliRunner().invoke(prepare.command, catch_exceptions=False).output


def test_it_says_what_was_compiled_and_made(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, compiled, archive = prepared(monkeypatch, ["tests.cli.warming"]).splitlines()
    assert begun.startswith("compiling the kernels")
    assert compiled.startswith("kernels compiled in ")
    assert archive.startswith("no archive (")


def test_a_process_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="the kernels of json were not compiled: their process ended with 1"):
        prepared(monkeypatch, ["tests.cli.warming", "json"])


def test_a_signal_to_end_ends_the_compilers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends() -> str:
        signal.raise_signal(signal.SIGTERM)
        return "an archive that is not reached"

    monkeypatch.setattr(prepare, "KERNELS", ["tests.cli.waiting"])
    monkeypatch.setattr(session, "prepare", ends)
    before = signal.getsignal(signal.SIGTERM)
    assert CliRunner().invoke(prepare.command).exit_code != 0
    for child in multiprocessing.active_children():
        child.join(60)
    assert not multiprocessing.active_children()
    assert signal.getsignal(signal.SIGTERM) is before


def test_every_module_of_kernels_can_be_warmed_up() -> None:
    for name in prepare.KERNELS:
        assert callable(importlib.import_module(name).warm_up)
