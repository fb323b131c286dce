"""A session with one other node: messages arrive once and in order, or the node is down (MN-2). A pure state machine.

This is what a connection between two nodes of Erlang is to them. It outlives connections that break: what was not
acknowledged is sent again, as TCP would do for longer than ours waits. It ends in three ways only: nothing was heard
for the tick time, the other side ended it, or the other node's process is gone. Both sides then take the other one for
down, and what was under way is lost.

A node is declared down between T and 1.25 T after it was last heard, where T is the tick time (`net_ticktime` of
Erlang's kernel: the time is looked at four times in T).

Sessions are made by a handshake of three messages: a side takes over the other's id only from a frame that names its
own present one, so that no frame of the past can begin or end a session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from splitbrain.cluster.tables.messages import MAX_FRAME_MESSAGES, Frame, Message, SessionId

HELLO_MS: Final = 1000
"""How often a node that is down is called (`ping_down_nodes` of RabbitMQ)."""

AGAIN_MS: Final = 500
"""After so long without an acknowledgement messages are sent again."""

ACKNOWLEDGE_MS: Final = 100
"""So long an acknowledgement waits for a message that it may travel with."""

BLOCKED_MS: Final = 1000
"""So long no session is made with a node from which this one disconnected on purpose (RabbitMQ: 1 s)."""

Happened: TypeAlias = Literal["up", "down"] | Message
"""What a session reports: that it began, that it ended, or a message."""


class Session:
    """The way to one other node.

    Args:
        life: of this node's process.
        tick_ms: T.
        send: takes each frame; it may be lost.
        now_ms: when this is made.
        silence_ms: what is waited instead of T; only where that is broken on purpose.

    Attributes:
        is_up: whether there is a session.
        peer_life: of the other node's process, in this session or else the last one; -1 before the first.
        lost_life: of its process in the last session that ended; -1 before the first end.
    """

    def __init__(
        self,
        life: int,
        tick_ms: int,
        send: Callable[[Frame], None],
        now_ms: int,
        silence_ms: int | None = None,
    ) -> None:
        self._me = SessionId(life, 0)
        self._tick_ms = tick_ms
        self._silence_ms = tick_ms if silence_ms is None else silence_ms
        self._send_frame = send
        self.is_up = False
        self.peer_life = -1
        self.lost_life = -1
        self._peer: SessionId | None = None
        self._former_lives: frozenset[int] = frozenset()
        self._hello_due_ms = now_ms
        self._blocked_until_ms = now_ms
        self._begin(now_ms)

    def _begin(self, now_ms: int) -> None:
        self._heard_ms = self._said_ms = self._looked_ms = now_ms
        self._last_number = 0
        self._received = 0
        self._acknowledge_due_ms: int | None = None
        self._unacknowledged: deque[Message] = deque()
        self._again_due_ms = now_ms

    @property
    def epoch(self) -> int:
        """Of this side: another one once the session has ended."""
        return self._me.epoch

    def has(self, frame: Frame) -> bool:
        """Whether a frame is one of the session that there is."""
        return self.is_up and frame.receiver == self._me and frame.sender == self._peer

    def send(self, message: Message, now_ms: int) -> None:
        """Send a message; it is lost if there is no session, or if the session ends before it arrives."""
        if not self.is_up:
            return
        if not self._unacknowledged:
            self._again_due_ms = now_ms + AGAIN_MS
        self._last_number += 1
        self._unacknowledged.append(message)
        self._emit(now_ms, self._last_number, (message,))

    def received(self, frame: Frame, now_ms: int) -> list[Happened]:
        """A frame came; what follows from it."""
        if now_ms < self._blocked_until_ms:
            return []
        if frame.receiver != self._me:
            # One that asks for another session has ended this one, as a closed connection would say.
            peer = self._peer
            ended = peer is not None and peer.life == frame.sender.life and frame.sender.epoch > peer.epoch
            happened = self._end(now_ms) if ended else []
            self._hello(frame.sender, now_ms)
            return happened
        if self._peer is None:
            if frame.sender.life in self._former_lives:
                return []
            self._peer, self.is_up, self.peer_life = frame.sender, True, frame.sender.life
            self._begin(now_ms)
            self._emit(now_ms)
            return ["up", *self._take(frame, now_ms)]
        if frame.sender == self._peer:
            return self._take(frame, now_ms)
        if self._is_former(frame.sender, self._peer):
            return []
        # The other side began a new session with this one: it had taken this node for down, or is a new process.
        self._former_lives |= {self._peer.life} - {frame.sender.life}
        self.lost_life = self._peer.life
        self._peer, self.peer_life = frame.sender, frame.sender.life
        self._begin(now_ms)
        self._emit(now_ms)
        return ["down", "up", *self._take(frame, now_ms)]

    def _is_former(self, sender: SessionId, present: SessionId) -> bool:
        if sender.life == present.life:
            return sender.epoch < present.epoch
        return sender.life in self._former_lives

    def poll(self, now_ms: int) -> list[Happened]:
        """Time has passed; to be called often: it is what ticks, repeats and declares down."""
        if not self.is_up:
            if now_ms >= max(self._hello_due_ms, self._blocked_until_ms):
                self._hello(None, now_ms)
            return []
        if now_ms - self._looked_ms >= self._tick_ms // 4:
            stood_still = now_ms - self._looked_ms > self._tick_ms
            self._looked_ms = now_ms
            # A node that stood still itself may have been sent much that it has not looked at yet.
            if not stood_still and now_ms - self._heard_ms > self._silence_ms:
                return self._end(now_ms)
        if self._unacknowledged and now_ms >= self._again_due_ms:
            self._repeat(now_ms)
        elif now_ms >= min(self._acknowledge_due_ms or now_ms + 1, self._said_ms + self._tick_ms // 4):
            self._emit(now_ms)
        return []

    def link_up(self, now_ms: int) -> None:
        """There is a new connection: what may be lost is sent again at once."""
        if not self.is_up:
            self._hello_due_ms = now_ms
        elif self._unacknowledged:
            self._repeat(now_ms)

    def refused(self, now_ms: int) -> list[Happened]:
        """The other node's machine says that no such process is there."""
        return self._end(now_ms) if self.is_up else []

    def disconnect(self, now_ms: int) -> list[Happened]:
        """End the session on purpose, and make none for a while."""
        self._blocked_until_ms = now_ms + BLOCKED_MS
        return self._end(now_ms) if self.is_up else []

    def _take(self, frame: Frame, now_ms: int) -> list[Happened]:
        self._heard_ms = now_ms
        first_waiting = self._last_number - len(self._unacknowledged) + 1
        for _ in range(frame.received - first_waiting + 1):
            self._unacknowledged.popleft()
            self._again_due_ms = now_ms + AGAIN_MS
        if not frame.messages:
            return []
        if self._acknowledge_due_ms is None:
            self._acknowledge_due_ms = now_ms + ACKNOWLEDGE_MS
        known = self._received - frame.number + 1
        if known < 0:
            return []  # something before it was lost, and will be sent again with this
        new: Sequence[Message] = frame.messages[known:]
        self._received += len(new)
        return list(new)

    def _repeat(self, now_ms: int) -> None:
        self._again_due_ms = now_ms + AGAIN_MS
        first = self._last_number - len(self._unacknowledged) + 1
        self._emit(now_ms, first, tuple(self._unacknowledged)[:MAX_FRAME_MESSAGES])

    def _hello(self, to: SessionId | None, now_ms: int) -> None:
        self._hello_due_ms = now_ms + HELLO_MS
        self._send_frame(Frame(self._me, to))

    def _emit(self, now_ms: int, number: int = 0, messages: tuple[Message, ...] = ()) -> None:
        self._said_ms = now_ms
        self._acknowledge_due_ms = None
        self._send_frame(Frame(self._me, self._peer, number, self._received, messages))

    def _end(self, now_ms: int) -> list[Happened]:
        self.is_up = False
        self.lost_life = self.peer_life
        self._peer = None
        self._me = SessionId(self._me.life, self._me.epoch + 1)
        self._hello_due_ms = now_ms
        self._begin(now_ms)
        return ["down"]
