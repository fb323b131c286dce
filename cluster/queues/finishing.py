"""How nearly every command ends: the next consumer becomes active, messages are handed out, limits are enforced."""

from __future__ import annotations

from splitbrain.cluster.queues.limits import enforce
from splitbrain.cluster.queues.serving import hand_out
from splitbrain.cluster.queues.state import QueueState
from splitbrain.cluster.queues.step import Step
from splitbrain.cluster.queues.succession import activate_next


def finish(state: QueueState, step: Step) -> None:
    """Do what the change of a command makes possible, or necessary."""
    activate_next(state, step)
    hand_out(state, step)
    if state.config.dead_letter == "at_least_once":
        step.effects.extend(state.dead_letters.deliver())
    enforce(state, step)
