"""What a simulation leaves of garbage collection in its process, and that runs do not look through what others keep."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from splitbrain.harness.simulation.garbage import collected_by_hand


class Circle:
    """Garbage in a circle, once nothing else refers to it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def frozen() -> Iterator[None]:
    """All that exists is frozen, as the suite has it once its tests are collected."""
    gc.collect()
    gc.freeze()
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def melted() -> Iterator[None]:
    """Nothing is frozen."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


@pytest.mark.slow
@pytest.mark.usefixtures("melted")
def test_where_nothing_was_frozen_all_is_given_back() -> None:
    before = Circle()
    with collected_by_hand():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        gone = weakref.ref(before)
        del before
        gc.collect()
        assert gone() is not None, "a run looked through what was there before it"
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("frozen")
def test_where_something_was_frozen_runs_look_at_nothing_that_was_made_between_them() -> None:
    with collected_by_hand():
        pass
    kept = [[number] for number in range(10_000)]
    with collected_by_hand():
        assert len(gc.get_objects()) < 5_000, "the lists above would be looked through by each collection"
    assert len(gc.get_objects()) < 5_000
    assert len(kept) == 10_000


@pytest.mark.usefixtures("frozen")
def test_garbage_between_runs_goes_before_the_next_one() -> None:
    gone = weakref.ref(Circle())
    with collected_by_hand():
        assert gone() is None


@pytest.mark.slow
@pytest.mark.usefixtures("frozen")
def test_what_became_garbage_while_it_was_frozen_goes_once_much_was_added() -> None:
    with collected_by_hand():
        pass
    circle = Circle()
    with collected_by_hand():
        pass
    gone = weakref.ref(circle)
    del circle
    for _ in range(1000):
        made = [[number] for number in range(100_000)]
        with collected_by_hand():
            pass
        del made
        if gone() is None:
            return
    pytest.fail("garbage that was frozen stays for ever")


@pytest.mark.slow
@pytest.mark.usefixtures("frozen")
def test_a_process_that_gives_back_by_itself_is_as_it_was() -> None:
    with collected_by_hand():
        pass
    gc.unfreeze()
    with collected_by_hand():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("melted")
def test_a_process_that_collects_nothing_by_itself_goes_on_so() -> None:
    gc.disable()
    try:
        with collected_by_hand():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
