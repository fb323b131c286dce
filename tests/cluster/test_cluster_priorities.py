"""Commands of low priority at a leader, against a list (RA-21)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.priorities import LOW_BATCH, LowCommands
from splitbrain.cluster.raft.events import Propose


@given(st.lists(st.one_of(st.integers(1, 40), st.just("turn"), st.just("drop")), max_size=60))
def test_ra21_low_commands_leave_in_batches_and_in_order_and_a_turn_is_asked_once(steps: list[int | str]) -> None:
    """Against a model that keeps a list, and counts the turns that were asked for and not given yet."""
    low = LowCommands()
    model: list[int] = []
    turns = last = 0
    for step in steps:
        if isinstance(step, int):
            for number in range(last, last + step):
                turns += low.add(Propose(number, b""))
                model.append(number)
            last += step
        elif step == "drop":
            assert [command.ref for command in low.drop()] == model
            model = []
        elif turns:
            turns -= 1
            commands, more = low.batch()
            expected, model = model[:LOW_BATCH], model[LOW_BATCH:]
            assert [command.ref for command in commands] == expected
            turns += more
        # Whatever waits gets its turn, and there is never more than one.
        assert turns <= 1
        assert turns == 1 or not model
