"""The feature flags of a node in its process: their file, their messages, and the time for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias

from splitbrain.cluster import wire
from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.errors import FeatureFlagError
from splitbrain.cluster.flags.effects import Answer, Effect, RunCallback, Say, Send, StopNode, UndoCallback
from splitbrain.cluster.flags.joining import refusal
from splitbrain.cluster.flags.machine import TICK_MS, Flags
from splitbrain.cluster.flags.messages import AskInventory, Inventory, decode_flags, encode_flags
from splitbrain.cluster.flags.record import FLAGS, Record, decode_record, encode_record
from splitbrain.cluster.flags.registry import FlagState, Registry
from splitbrain.cluster.flags.wire import FlagList, FlagRow
from splitbrain.cluster.links import Links
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.runtime import Disk, Runtime, Timer

_MS: Final = 1_000_000

Answering: TypeAlias = Callable[[Answer], None]
"""Takes the answer to a request, once."""


def read_record(disk: Disk) -> Record | None:
    """What a disk holds of feature flags; None for nothing.

    Raises:
        StorageError: the file is damaged, or of another version.
    """
    content = disk.read(FLAGS)
    return None if content is None else decode_record(content)


class Callbacks(Protocol):
    """What it takes on this node to enable flags; those that take nothing aside."""

    def takes(self, flag: str) -> bool:
        """Whether the flag takes something."""
        ...

    def run(self, effect: RunCallback, done: Callable[[str | None], None]) -> None:
        """Do it; `done` is called once, later, with None or with why it could not be done."""
        ...

    def undo(self, flag: str) -> None:
        """Undo it: the flag stays disabled."""
        ...

    def changed(self) -> None:
        """What is durable of flags has changed."""
        ...


class FlagKeeper:
    """Keeps the feature flags of a node.

    Args:
        member: the id of the node's member.
        registry: the flags that it knows.
        founder: whether the cluster begins with it.
        runtime: of the node.
        links: to the other members.
        in_force: gives the configuration that the node has in force, committed or not.
        applied: gives the one where it has applied its log.
        callbacks: what it takes to enable flags; None if it takes nothing.
        bugs: that are switched on.

    Raises:
        StorageError: the file is damaged, or of another version.
        FeatureFlagError: a flag is enabled that the program does not know.
    """

    def __init__(
        self,
        member: NodeId,
        registry: Registry,
        founder: bool,
        runtime: Runtime,
        links: Links,
        in_force: Callable[[], Configuration],
        applied: Callable[[], Configuration],
        callbacks: Callbacks | None = None,
        bugs: Bugs = NO_BUGS,
    ) -> None:
        record = read_record(runtime.disk)
        self._flags = Flags(member, registry, record, founder, runtime.rng.between, bugs)
        unknown = self._flags.unknown()
        if unknown:
            reached("flags refused a node")
            raise FeatureFlagError(refusal(member, unknown))
        self._member = member
        self._registry = registry
        self._runtime = runtime
        self._links = links
        self._in_force = in_force
        self._applied = applied
        self._callbacks = callbacks
        self._durable = self._flags.record
        self._carries_out = False
        self._timer: Timer | None = None
        self._answers: dict[int, Answering] = {}
        self._last_request = 0

    def start(self) -> None:
        """Go on with what was under way, or take over what is enabled."""
        if self._flags.needs_time:
            self._tick()

    # --- what is asked for --------------------------------------------------------------------------------------

    def enable(self, flag: str, timeout_ms: int, answer: Answering, *, experimental: bool) -> None:
        """Enable a flag on all members."""
        self._look()
        self._flags.enable(self._new_request(answer), flag, timeout_ms, experimental=experimental)
        self._happened()

    def is_enabled(self, flag: str, timeout_ms: int, answer: Answering) -> None:
        """Say whether a flag is enabled here, once it does not change (FF-1)."""
        self._look()
        self._flags.is_enabled(self._new_request(answer), flag, timeout_ms)
        self._happened()

    def listed(self) -> FlagList:
        """All flags that the node knows, as its disk has them: no more than it will know after a crash."""
        state, known = self._flags.state, self._durable
        rows = [
            FlagRow(each.name, state(each.name, known), each.stability, each.depends_on, each.line)
            for each in self._registry
        ]
        return FlagList(tuple(rows), known.synchronised)

    def state(self, flag: str) -> FlagState:
        """What a flag is here, as this node would say next, also if that is not durable yet."""
        return self._flags.state(flag)

    @property
    def is_synchronised(self) -> bool:
        """Whether this node has taken over what was enabled before it joined."""
        return self._flags.record.synchronised

    def _callback_done(self, effect: RunCallback, error: str | None) -> None:
        self._look()
        self._flags.callback_done(effect, error)
        self._happened()

    def _new_request(self, answer: Answering) -> int:
        self._last_request += 1
        self._answers[self._last_request] = answer
        return self._last_request

    # --- what happens -------------------------------------------------------------------------------------------

    def received(self, sender: NodeId, frame: bytes) -> None:
        """A frame of another member, without its first byte.

        Raises:
            msgspec.DecodeError: it makes no sense.
        """
        message = decode_flags(frame)
        self._look()
        self._flags.received(sender, message)
        self._happened()

    def _look(self) -> None:
        """Have the machine know the time, and who the members are."""
        configuration = self._in_force()
        self._flags.voters, self._flags.members = configuration.voters, configuration.members
        if not self._flags.record.synchronised:
            self._flags.belongs = self._member in self._applied().members
        self._flags.now_ms = self._runtime.clock.monotonic_ns() // _MS

    def _tick(self) -> None:
        self._timer = None
        self._look()
        self._flags.tick(self._flags.now_ms)
        self._happened()

    def _happened(self) -> None:
        if self._timer is None and self._flags.needs_time:
            self._timer = self._runtime.clock.call_later(TICK_MS * _MS, self._tick)
        if not self._carries_out:
            self._carries_out = True
            self._runtime.spawn(self._carry_out(), "feature flags")

    async def _carry_out(self) -> None:
        """Make durable what happened, then do what is wanted; as long as there is something."""
        try:
            while True:
                effects, record = self._flags.taken(), self._flags.record
                if record != self._durable:
                    await self._runtime.disk.replace(FLAGS, encode_record(record))
                    self._durable = record
                    if self._callbacks is not None:
                        self._callbacks.changed()
                elif not effects:
                    return
                self._do(effects)
        finally:
            self._carries_out = False

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    frame = wire.ABOUT_FLAGS + encode_flags(message)
                    if isinstance(message, AskInventory | Inventory):
                        self._links.send(to, frame)  # the first word between two members may be this one
                    else:
                        self._links.send_if_up(to, frame)
                case RunCallback(flag) if self._callbacks is not None and self._callbacks.takes(flag):
                    self._callbacks.run(effect, partial(self._callback_done, effect))
                case RunCallback():
                    self._flags.callback_done(effect)  # it takes no more than to be known
                case UndoCallback(flag):
                    if self._callbacks is not None and self._callbacks.takes(flag):
                        self._callbacks.undo(flag)
                    self._runtime.log(f"feature flag {flag} stays disabled: its change was undone")
                case Answer(request):
                    self._answers.pop(request)(effect)
                case Say(line):
                    self._runtime.log(line)
                case StopNode(why):
                    raise FeatureFlagError(why)
