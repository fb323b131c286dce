"""The model `read-modes`: what other modes return changes no verdict, and a mode of the parameter counts as a read."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.linearizable.checker import check_ops
from splitbrain.checkers.models import model
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from tests.checkers.sessions.test_against_definition import random_history


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**40))
def test_reads_in_another_mode_say_nothing(seed: int) -> None:
    history = random_history(seed)
    without = [op for op in history if op.f != "read-local"]
    assert check_ops(history, "read-modes").valid == check_ops(without, "cas-register").valid


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**40))
def test_reads_in_a_mode_of_the_parameter_count_as_reads(seed: int) -> None:
    history = random_history(seed)
    plain: list[Op] = [msgspec.structs.replace(op, f="read") if op.f == "read-local" else op for op in history]
    assert check_ops(history, 'read-modes(["read-local"])').valid == check_ops(plain, "cas-register").valid


@pytest.mark.parametrize("parameter", ['"read-local"', '["read"]', '["read-far"]', "3"])
def test_a_parameter_that_lists_no_modes_is_refused(parameter: str) -> None:
    with pytest.raises(UsageError, match=r"takes a list of read-after, read-fenced, read-leader, read-local"):
        model(f"read-modes({parameter})")
