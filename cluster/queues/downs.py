"""Processes and nodes that are gone, or cannot be reached, or come back (QQ-4)."""

from __future__ import annotations

from splitbrain.cluster.bugs import M73
from splitbrain.cluster.queues.attaching import end
from splitbrain.cluster.queues.commands import NodeUp, ProcessDown, PurgeNodes
from splitbrain.cluster.queues.effects import ConsumerActivity, ConsumerCancelled, MonitorNode, MonitorProcess
from splitbrain.cluster.queues.finishing import finish
from splitbrain.cluster.queues.identities import Process
from splitbrain.cluster.queues.replies import ACCEPTED, Reply
from splitbrain.cluster.queues.serving import give_back_all
from splitbrain.cluster.queues.state import QueueState
from splitbrain.cluster.queues.step import Step
from splitbrain.cluster.queues.succession import activate_all, set_status_of_waiting


def process_down(state: QueueState, step: Step, command: ProcessDown) -> Reply:
    """A process is gone, or its node cannot be reached: then all processes of that node are suspected at once."""
    if not command.suspected:
        _gone(state, step, command.process)
    elif state.config.single_active_consumer:
        _suspect_single_active(state, step, command.process.node)
    else:
        _suspect(state, step, command.process.node)
    finish(state, step)
    return ACCEPTED


def _gone(state: QueueState, step: Step, process: Process) -> None:
    """Forget a process; what its consumers have failed to be delivered."""
    state.enqueuers.forget(process)
    gone = [consumer for consumer in state.waiting if consumer.id.process == process]
    state.waiting = [consumer for consumer in state.waiting if consumer.id.process != process]
    step.effects.extend(ConsumerCancelled(consumer.id) for consumer in gone)
    for consumer in state.in_order(process):
        end(state, step, consumer, failed=True)
        step.effects.append(ConsumerCancelled(consumer.id))


def _suspect(state: QueueState, step: Step, node: str) -> None:
    for consumer in state.in_order(node):
        if consumer.status == "up":
            consumer.status = "suspected_down"
            give_back_all(state, step, consumer, failed=True)
            step.effects.append(ConsumerActivity(consumer.id, False, "suspected_down"))
    state.last_active = step.now
    state.enqueuers.suspect(node, True)
    step.effects.append(MonitorNode(node))


def _suspect_single_active(state: QueueState, step: Step, node: str) -> None:
    """As without a single active consumer, but those that are suspected wait; what was cancelled is gone."""
    for consumer in state.in_order(node):
        was_cancelled = consumer.status == "cancelled"
        give_back_all(state, step, consumer, failed=True)
        state.drop(consumer)
        if not was_cancelled and all(each.key != consumer.key for each in state.waiting):
            state.waiting.append(consumer)
        state.last_active = step.now
        step.effects.append(ConsumerActivity(consumer.id, False, "suspected_down"))
    set_status_of_waiting(state, node, suspected=True)
    state.enqueuers.suspect(node, True)
    step.effects.append(MonitorNode(node))


def node_up(state: QueueState, step: Step, command: NodeUp) -> Reply:
    """A node can be reached again: what was suspected on it is up, and monitored again."""
    node = command.node
    consumers = state.in_order(node)
    waiting = [each for each in state.waiting if each.id.process.node == node]
    suspected = [each.id.process for each in (*consumers, *waiting) if each.status == "suspected_down"]
    again = dict.fromkeys((*suspected, *state.enqueuers.suspect(node, False)))
    step.effects.extend(map(MonitorProcess, again))
    for consumer in consumers:
        if consumer.status != "cancelled":
            if not state.config.single_active_consumer:
                step.effects.append(ConsumerActivity(consumer.id, True, "up"))
            consumer.status = "up"
            state.keep(consumer, step.now)
    set_status_of_waiting(state, node, suspected=False)
    if M73 in state.bugs:
        activate_all(state, node)
    finish(state, step)
    return ACCEPTED


def purge_nodes(state: QueueState, step: Step, command: PurgeNodes) -> Reply:
    """All processes of these nodes are gone; what they had waits for the next command."""
    for node in command.nodes:
        consumers = reversed(state.in_order())  # as RabbitMQ does: what the last one had is served first
        known = dict.fromkeys((*(consumer.id.process for consumer in consumers), *state.processes()))
        for process in known:
            if process.node == node:
                _gone(state, step, process)
    return ACCEPTED
