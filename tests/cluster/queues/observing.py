"""What can be seen of a queue, in the notation of conformance cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from splitbrain.cluster.queues import ConsumerKey, Effect, Process, Reply, effects, replies
from splitbrain.cluster.queues.consumers import Consumer
from splitbrain.cluster.queues.state import QueueState

Json: TypeAlias = Any
Bodies: TypeAlias = Callable[[int], str]


def pid(process: Process) -> str:
    """`name@node`."""
    return f"{process.name}@{process.node}"


def key_json(key: ConsumerKey) -> int | str:
    """A key; "id" for one that is the consumer's id."""
    return key if isinstance(key, int) else "id"


def attached(reply: Reply) -> Any:
    """The key that an `attach` gave."""
    assert isinstance(reply, replies.Attached), "that is what it gives"
    return reply.key


def reply_json(reply: Reply, body: Bodies) -> Json:
    """A reply."""
    match reply:
        case replies.Accepted():
            return "ok"
        case replies.NotEnqueued():
            return "not_enqueued"
        case replies.RejectsPublish():
            return "reject_publish"
        case replies.Attached(key, next_msg_id, credit, delivery_count, checked_out):
            about = {"key": key_json(key), "next_msg_id": next_msg_id, "credit": credit}
            return {"attached": about | {"delivery_count": delivery_count, "num_checked_out": checked_out}}
        case replies.Dequeued(number, index, acquired, failed, annotations, ready):
            counts = {"acquired": acquired, "failed": failed, "annotations": annotations, "ready": ready}
            return {"dequeued": {"id": number, "msg": body(index)} | counts}
        case replies.NothingToDequeue():
            return {"dequeued": None}
        case replies.Cancelled(None, _):
            return {"cancelled": {}}
        case replies.Cancelled(key, checked_out):
            assert key is not None, "matched above"
            return {"cancelled": {"key": key_json(key), "num_checked_out": checked_out}}
        case replies.CreditGranted(available, drained):
            return {"credit": {"available": available} | ({} if drained is None else {"drained": drained})}
        case replies.Purged(count):
            return {"purged": count}
        case replies.QueueRefused(reason):
            return {"error": reason}


def effects_json(given: Iterable[Effect], body: Bodies) -> Json:
    """All that the effects of a step say, by the keys of an expectation."""
    seen: dict[str, Any] = {
        "deliveries": {},
        "dead_letters": [],
        "dlx_deliveries": [],
        "dlx_confirmed": 0,
        "sends": [],
        "cancelled": [],
        "monitors": [],
        "activity": [],
    }
    for effect in given:
        _see(effect, seen, body)
    return seen


def _see(effect: Effect, seen: dict[str, Any], body: Bodies) -> None:
    match effect:
        case effects.Deliver(consumer, messages):
            delivered = seen["deliveries"].setdefault(consumer.tag, [])
            for message in messages:
                assert message.body is None or message.body.decode() == body(message.index)
                counts = {"acquired": message.acquired, "failed": message.failed}
                about = {"id": message.id, "msg": body(message.index), "annotations": message.annotations}
                delivered.append(about | counts)
        case effects.DeadLetter(reason, strategy, count, messages):
            listed = [
                {"msg": body(letter.index), "failed": letter.failed, "annotations": letter.annotations}
                for letter in messages
            ]
            entry = {"reason": reason, "strategy": strategy, "count": count}
            seen["dead_letters"].append(entry | ({"messages": listed} if strategy == "at_most_once" else {}))
        case effects.DeliverDeadLetters(_, messages):
            for letter in messages:
                about = {"id": letter.id, "reason": letter.reason, "msg": body(letter.index)}
                seen["dlx_deliveries"].append(about | {"failed": letter.failed, "annotations": letter.annotations})
        case effects.DeadLettersConfirmed(count):
            seen["dlx_confirmed"] += count
        case effects.MonitorProcess(process):
            seen["monitors"].append({"process": pid(process)})
        case effects.MonitorNode(node):
            seen["monitors"].append({"node": node})
        case effects.DeleteQueue():
            seen["delete_queue"] = True
        case effects.KnownNodes(nodes):
            seen |= {"delete_queue": False, "nodes": list(nodes)}
        case _:
            _see_message(effect, seen)


def _see_message(effect: Effect, seen: dict[str, Any]) -> None:
    match effect:
        case effects.ConsumerCancelled(consumer):
            seen["cancelled"].append(consumer.tag)
        case effects.ConsumerActivity(consumer, active, status):
            seen["activity"].append({"consumer": consumer.tag, "active": active, "status": status})
        case effects.QueueStatus(to, status):
            seen["sends"].append({"to": pid(to), "queue_status": status})
        case effects.CreditReply(consumer, delivery_count, credit, available, drain):
            said = {"consumer": consumer.tag, "delivery_count": delivery_count, "credit": credit}
            said |= {"available": available, "drain": drain}
            seen["sends"].append({"to": pid(consumer.process), "credit_reply": said})
        case effects.LeaderChange(to):
            seen["sends"].append({"to": pid(to), "leader_change": True})
        case effects.EndOfLife(to):
            seen["sends"].append({"to": pid(to), "eol": True})
        case _:
            pass  # confirms, timers and checkpoints are no part of the format


def state_json(state: QueueState, body: Bodies) -> Json:
    """The state, by the keys of an expectation."""
    ready = [body(message.index) for message in state.ready]
    consumers = {consumer.id.tag: _consumer_json(consumer, body) for consumer in state.consumers.values()}
    waiting = {consumer.id.tag: _consumer_json(consumer, body) for consumer in state.waiting}
    single = state.config.single_active_consumer
    active = state.active if single else None
    shown: dict[str, Any] = {
        "total": state.total,
        "ready": ready,
        "returned": ready[: state.ready.returned],
        "checked_out": state.checked_out,
        "bytes_ready": state.ready.bytes,
        "bytes_checked_out": state.bytes_checked_out,
        "consumers": consumers,
        "enqueuers": {pid(process): enqueuer.next_seq for process, enqueuer in state.enqueuers.items()},
        "active": None if active is None else active.id.tag,
        "waiting": [consumer.id.tag for consumer in state.waiting],
        "waiting_consumers": waiting,
        "consumer_count": state.consumer_count,
        "config": {
            "limit": state.config.limit_of_deliveries,
            "max_length": state.config.max_length,
            "dl": state.config.dead_letter,
        },
    }
    letters = state.dead_letters
    shown["dlx"] = {"waiting": letters.waiting, "checked_out": letters.checked_out, "bytes": letters.bytes}
    numbers = {name: len(shown[name]) for name in ("ready", "returned", "consumers", "waiting", "enqueuers")}
    return shown | {f"num_{name}": number for name, number in numbers.items()}


def _consumer_json(consumer: Consumer, body: Bodies) -> Json:
    return {
        "status": consumer.status,
        "credit": consumer.credit,
        "delivery_count": consumer.delivery_count,
        "next_msg_id": consumer.next_msg_id,
        "life": consumer.life,
        "priority": consumer.priority,
        "checked_out": {
            str(number): {"msg": body(message.index), "acquired": message.acquired, "failed": message.failed}
            for number, message in consumer.checked_out.items()
        },
    }
