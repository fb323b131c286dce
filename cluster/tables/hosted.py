"""A replica of the table store in a process: its journal, its time, and requests from within the process.

The shell around `splitbrain.cluster.tables.machine` but for links and clients, which are those of the process: of a
node of the table store (`splitbrain.cluster.tables.node`), or of the metadata cluster (`splitbrain.cluster.twostores`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.tables.config import TablesConfig
from splitbrain.cluster.tables.coordinator import Done, End
from splitbrain.cluster.tables.database import Database
from splitbrain.cluster.tables.effects import (
    Effect,
    Listen,
    LogActive,
    LogChanges,
    ReplaceAll,
    Reply,
    Say,
    SendFrame,
)
from splitbrain.cluster.tables.journal import Active, Committed, Journal, open_journal
from splitbrain.cluster.tables.machine import POLL_MS, TableNode
from splitbrain.cluster.tables.messages import decode_frame, encode_frame
from splitbrain.cluster.tables.observed import Observed
from splitbrain.cluster.tables.records import Change
from splitbrain.cluster.tables.strategies import strategy_named
from splitbrain.cluster.tables.wire import Refusal, Result

_MS: Final = 1_000_000
_LIFE_LIMIT: Final = 2**40


class HostedReplica:
    """See the module.

    Args:
        config: of the replica.
        runtime: of its process.
        send: takes each frame for another node; it may get lost.
        refused: whether the last attempt to reach a node found no process at its address.
        listen: is called when the replica begins or ends to serve clients.
        observe: takes what the replica reports of itself.

    Attributes:
        on_changes: is given the changes of each transaction, once this replica has applied them.
        on_replaced: is called when the replica has taken over all tables of another one.
        listens: whether it serves clients.
        changes: how often its records have changed.
        life: distinguishes this process from the node's earlier ones.
    """

    def __init__(
        self,
        config: TablesConfig,
        runtime: Runtime,
        send: Callable[[str, bytes], object],
        refused: Callable[[str], bool],
        listen: Callable[[bool], None] = lambda _: None,
        observe: Callable[[Observed], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._send = send
        self._is_refused = refused
        self._refused: dict[str, bool] = dict.fromkeys(config.peers, False)
        self._listen = listen
        self._observe = observe
        self._last_request = 0
        self._answers: dict[int, Callable[[End], None]] = {}
        self.listens = False
        self.changes = 0
        self.life = 0
        self.on_changes: Callable[[Sequence[Change]], None] = lambda _: None
        self.on_replaced: Callable[[], None] = lambda: None
        self.machine: TableNode
        self._journal: Journal

    async def open(self) -> None:
        """Recover what is on disk.

        Raises:
            StorageError: the data directory cannot be used.
            OSError: the disk failed.
        """
        config, runtime = self._config, self._runtime
        recovered, self._journal = await open_journal(runtime.disk, config.node)
        self.changes += 1
        self.life = runtime.rng.between(1, _LIFE_LIMIT)
        self.machine = TableNode(
            config.node,
            (config.node, *config.peers),
            strategy_named(config.strategy, config.preferred, config.bugs),
            self.life,
            config.tick_ms,
            runtime.rng.between,
            self._now_ms(),
            recovered.contents,
            recovered.active,
            config.bugs,
        )

    def begins(self) -> Observed:
        """What a process reports first: what it was started with."""
        config = self._config
        counted = {"net_tick_ms": config.tick_ms, "nodes": 1 + len(config.peers)}
        return Observed("start", "stopped", tuple(sorted(config.preferred)), counted, raised_by=config.strategy)

    def keep_journal(self) -> None:
        """Make durable what is committed, from now on."""
        self._runtime.spawn(self._journal.sync(), "sync journal")

    def start(self) -> None:
        """Look for other replicas, and serve."""
        self._runtime.spawn(self._poll(), "poll")

    @property
    def database(self) -> Database:
        """The replica, with its view of the others."""
        return self.machine.database

    def begin(
        self, procedure: str, arguments: Sequence[Any], timeout_ms: int, answer: Callable[[Result | Refusal], None]
    ) -> None:
        """Carry out a procedure; `answer` is called once."""
        if not self.listens:
            answer(Refusal("stopped", f"the database of {self._config.node} is stopped"))
            return
        self._last_request += 1
        self._answers[self._last_request] = lambda end: answer(self._outcome(end))
        self._carry_out(self.machine.request(self._last_request, procedure, arguments, timeout_ms, self._now_ms()))

    def received(self, peer: str, data: bytes) -> None:
        """A frame of another node came.

        Raises:
            msgspec.DecodeError: it makes no sense.
        """
        self._carry_out(self.machine.received(peer, decode_frame(data), self._now_ms()))

    def link_up(self, peer: str) -> None:
        """There is a new connection to a node."""
        self._carry_out(self.machine.link_up(peer, self._now_ms()))

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // _MS

    async def _poll(self) -> None:
        while True:
            await self._runtime.clock.sleep(POLL_MS * _MS)
            now_ms = self._now_ms()
            for peer, was_refused in self._refused.items():
                is_refused = self._is_refused(peer)
                if is_refused and not was_refused:
                    self._carry_out(self.machine.refused(peer, now_ms))
                self._refused[peer] = is_refused
            self._carry_out(self.machine.poll(now_ms))

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendFrame(to, frame):
                    self._send(to, encode_frame(frame))
                case LogChanges(changes):
                    self._journal.append(Committed(changes))
                    self._runtime.applied(1)
                    self.changes += 1
                    self.on_changes(changes)
                case LogActive(active):
                    self._journal.append(Active(active))
                case ReplaceAll(contents, active):
                    self._journal.replace(contents, active)
                    self.changes += 1
                    self.on_replaced()
                case Reply(request, end):
                    self._reply(self._answers.pop(request), end)
                case Listen(on):
                    self.listens = on
                    self._listen(on)
                case Say(words):
                    self._runtime.log(words)
                case Observed():
                    self._observe(effect)

    def _reply(self, answer: Callable[[End], None], end: End) -> None:
        if isinstance(end, Done) and end.changed:
            self._journal.when_durable(partial(answer, end))
        else:
            answer(end)

    def _outcome(self, end: End) -> Result | Refusal:
        if isinstance(end, Done):
            return Result(end.result)
        if end.reason == "stopped":
            return Refusal("stopped", f"the database of {self._config.node} does not serve")
        return Refusal("timeout", f"{self._config.node} got no lock, or no vote, in time")
