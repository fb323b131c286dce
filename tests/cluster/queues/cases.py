"""Carries out the steps of a conformance case on the queue machine, and says what each gives in the notation of cases.

A step has exactly the fields that the format names for its operation; any other, and any operation that it does not
name, is an error, so that no case passes because a part of it was not understood.
"""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.queues import Applied, ConsumerId, Process, QueueCommand, QueueConfig, QuorumQueue, commands
from splitbrain.cluster.queues.commands import decode_command, encode_command
from tests.cluster.queues.observing import attached, effects_json, reply_json, state_json

Json: TypeAlias = Any


class NotUnderstoodError(Exception):
    """An operation, or a field, or a value, that the format does not name."""


_COMMON: Final = {"op", "index", "ts", "expect", "also"}
_CONFIG: Final = {
    "overflow",
    "max_length",
    "max_bytes",
    "message_ttl",
    "expires",
    "created",
    "delivery_limit",
    "single_active_consumer",
    "dead_letter",
}
_OF_MESSAGES: Final = {"consumer", "ids", "by_id"}

FIELDS: Final[Mapping[str, set[str]]] = {
    "enqueue": {"pid", "seq", "msg", "ttl", "priority", "failed"},
    "register_enqueuer": {"pid"},
    "attach": {"consumer", "life", "mode", "priority", "spec"},
    "dequeue": {"consumer", "settlement"},
    "cancel": {"consumer"},
    "remove": {"consumer"},
    "settle": _OF_MESSAGES,
    "return": _OF_MESSAGES,
    "discard": _OF_MESSAGES,
    "modify": {*_OF_MESSAGES, "delivery_failed", "undeliverable_here", "annotations"},
    "requeue": {"consumer", "id", "by_id"},
    "credit": {"consumer", "credit", "delivery_count", "drain", "by_id"},
    "purge": set(),
    "purge_nodes": {"nodes"},
    "update_config": {"config"},
    "garbage_collection": set(),
    "nodedown": {"node"},
    "down": {"pid", "reason"},
    "nodeup": {"node"},
    "expire": set(),
    "dlx_attach": {"pid", "prefetch"},
    "dlx_settle": {"ids"},
    "tick": set(),
    "peek": {"position"},
    "become_leader": set(),
    "deleted": set(),
    "inspect": set(),
}
"""Operations, and what each may have besides what all have."""

_PLAIN: Final[Mapping[str, Callable[[Json], QueueCommand]]] = {
    "register_enqueuer": lambda step: commands.RegisterEnqueuer(process_of(step["pid"])),
    "purge": lambda _: commands.Purge(),
    "purge_nodes": lambda step: commands.PurgeNodes(tuple(step["nodes"])),
    "update_config": lambda step: commands.UpdateConfig(config_of(step["config"])),
    "garbage_collection": lambda _: commands.CollectGarbage(),
    "nodedown": lambda step: commands.NodeDown(step["node"]),
    "down": lambda step: commands.ProcessDown(process_of(step["pid"]), step["reason"] == "noconnection"),
    "nodeup": lambda step: commands.NodeUp(step["node"]),
    "expire": lambda _: commands.Expire(),
    "dlx_attach": lambda step: commands.AttachDeadLetterWorker(process_of(step["pid"]), step["prefetch"]),
    "dlx_settle": lambda step: commands.SettleDeadLetters(tuple(step["ids"])),
}
"""Commands that are made of nothing but their step."""

QUESTIONS: Final = ("tick", "peek", "become_leader", "deleted", "inspect")
"""Operations that are no commands of the log."""


def config_of(config: Json) -> QueueConfig:
    """A configuration.

    Raises:
        NotUnderstoodError: it has a setting that the format does not name.
    """
    _only(config, _CONFIG, "the configuration")
    return QueueConfig(**config)


def process_of(pid: str) -> Process:
    """`name@node`.

    Raises:
        NotUnderstoodError: it is not of this form.
    """
    name, at, node = pid.partition("@")
    if not at:
        raise NotUnderstoodError(f"{pid!r} is no process: it has no node")
    return Process(name, node)


def _only(found: Iterable[str], known: set[str], where: str) -> None:
    unknown = sorted(set(found) - known)
    if unknown:
        raise NotUnderstoodError(f"{where} has {', '.join(unknown)}, which the format does not name")


class Runner:
    """One case on a new queue, which also plays the log: it holds the bodies.

    Args:
        config: of the queue, in the notation of cases.
        consumers: pids by tag.
        restores: whether the queue is written down and read again after each step.
    """

    def __init__(self, config: Json, consumers: Mapping[str, str], *, restores: bool = False) -> None:
        self.queue = QuorumQueue(config_of(config))
        self.bodies: dict[int, bytes] = {}
        self._consumers = {tag: ConsumerId(tag, process_of(pid)) for tag, pid in consumers.items()}
        self._keys: dict[str, int] = {}
        self._last = 0
        self._restores = restores

    def step(self, step: Json) -> Json:
        """Carry out a step; what it gives.

        Raises:
            NotUnderstoodError: the step, or a part of it, is not of the format.
        """
        op: str = step["op"]
        if op not in FIELDS:
            raise NotUnderstoodError(f"there is no operation {op!r}")
        _only(step, FIELDS[op] | _COMMON, f"a step {op!r}")
        got = self._asked(op, step) if op in QUESTIONS else self._commanded(step)
        if self._restores:
            before = self.queue.state_hash
            self.queue = QuorumQueue.load(self.queue.dump())
            assert self.queue.state_hash == before, "a queue that is read again has the same hash"
        got["state"] = state_json(self.queue.state, self._body)
        return got

    def forget(self, tag: str) -> None:
        """The consumer is named by its id from now on."""
        self._keys.pop(tag, None)

    def _body(self, index: int) -> str:
        return self.bodies[index].decode()

    # --- questions ----------------------------------------------------------------------------------------------------

    def _asked(self, op: str, step: Json) -> Json:
        match op:
            case "tick":
                return effects_json(self.queue.tick(self._last, step.get("ts", 0)), self._body)
            case "peek":
                found = self.queue.peek(step["position"])
                none = effects_json((), self._body)
                return none | {"reply": {"peeked": None if found is None else self._body(found.index)}}
            case "become_leader":
                return effects_json(self.queue.begin_leading(), self._body)
            case "deleted":
                return effects_json(self.queue.deleted(), self._body)
            case _:
                return effects_json((), self._body)

    # --- commands -----------------------------------------------------------------------------------------------------

    def _commanded(self, step: Json) -> Json:
        if "index" not in step:
            raise NotUnderstoodError(f"a step {step['op']!r} lacks its index")
        index: int = step["index"]
        if index <= self._last:
            raise NotUnderstoodError(f"index {index} comes after {self._last}")
        self._last = index
        command = self._command(step)
        if isinstance(command, commands.Enqueue | commands.Requeue):
            self.bodies[index] = command.body
        applied: Applied = self.queue.apply(index, step.get("ts", 0), command)
        if step["op"] == "attach":
            self._keys[step["consumer"]] = attached(applied.reply)
        got = effects_json(applied.effects, self._body)
        return got | {"reply": reply_json(applied.reply, self._body)}

    def _command(self, step: Json) -> QueueCommand:
        """The command of a step.

        Raises:
            NotUnderstoodError: a field is missing, or has a value that it cannot have.
        """
        op: str = step["op"]
        method: Callable[[Json], QueueCommand] | None = getattr(self, f"_of_{op}", None)
        try:
            command = _PLAIN[op](step) if method is None else method(step)
            return decode_command(encode_command(command))
        except KeyError as error:
            raise NotUnderstoodError(
                f"a step {op!r} lacks {error}, or has another value than the format names"
            ) from error
        except InvalidRequestError as error:
            raise NotUnderstoodError(f"a step {op!r} makes no command: {error}") from error

    def _of_dequeue(self, step: Json) -> QueueCommand:
        return commands.Dequeue(self._consumer(step), {"settled": True, "unsettled": False}[step["settlement"]])

    def _of_cancel(self, step: Json) -> QueueCommand:
        return commands.Cancel(self._consumer(step))

    def _of_remove(self, step: Json) -> QueueCommand:
        return commands.Remove(self._consumer(step))

    def _of_settle(self, step: Json) -> QueueCommand:
        return commands.Settle(self._key(step), tuple(step["ids"]))

    def _of_return(self, step: Json) -> QueueCommand:
        return commands.Return(self._key(step), tuple(step["ids"]))

    def _of_discard(self, step: Json) -> QueueCommand:
        return commands.Discard(self._key(step), tuple(step["ids"]))

    def _of_enqueue(self, step: Json) -> QueueCommand:
        pid = step["pid"]
        return commands.Enqueue(
            None if pid is None else process_of(pid),
            step["seq"],
            step["msg"].encode(),
            step.get("ttl"),
            step.get("priority", 4),
            step.get("failed", 0),
        )

    def _of_attach(self, step: Json) -> QueueCommand:
        mode: Json = step["mode"]
        match mode:
            case {"prefetch": int(count), **others} if not others:
                taken: commands.Mode = commands.Prefetch(count)
            case {"credited": int(count), **others} if not others:
                taken = commands.Credited(count)
            case {"credited_v1": True, **others} if not others:
                taken = commands.CreditedV1()
            case _:
                raise NotUnderstoodError(f"there is no mode {mode!r}")
        spec = step.get("spec")
        if spec not in (None, "old"):
            raise NotUnderstoodError(f"there is no spec {spec!r}")
        return commands.Attach(self._consumer(step), step["life"], taken, step.get("priority", 0), spec == "old")

    def _of_modify(self, step: Json) -> QueueCommand:
        annotations = step.get("annotations") or {}
        flags = step["delivery_failed"], step["undeliverable_here"]
        return commands.Modify(self._key(step), tuple(step["ids"]), *flags, annotations)

    def _of_requeue(self, step: Json) -> QueueCommand:
        consumer = self.queue.state.find(self._key(step))
        message = None if consumer is None else consumer.checked_out.get(step["id"])
        body = b"" if message is None else self.bodies[message.index]
        return commands.Requeue(self._key(step), step["id"], body)

    def _of_credit(self, step: Json) -> QueueCommand:
        return commands.Credit(self._key(step), step["credit"], step["delivery_count"], step.get("drain", False))

    def _consumer(self, step: Json) -> ConsumerId:
        tag: str = step["consumer"]
        if tag not in self._consumers:
            raise NotUnderstoodError(f"there is no consumer {tag!r}")
        return self._consumers[tag]

    def _key(self, step: Json) -> int | ConsumerId:
        consumer = self._consumer(step)
        return consumer if step.get("by_id") else self._keys.get(consumer.tag, consumer)
