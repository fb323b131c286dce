"""What a node knows of queues by their records: whom it asks, and what counts as a confirm of a dead letter."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

import pytest

from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.queuegroups import notes
from splitbrain.cluster.queuegroups.keeper import Host, QueueKeeper, Replicas
from splitbrain.cluster.queuegroups.notes import Unready
from splitbrain.cluster.queuegroups.records import PATH
from splitbrain.cluster.queues import encode_command
from splitbrain.cluster.queues.commands import Enqueue
from splitbrain.cluster.queues.replies import ACCEPTED, NotEnqueued, QueueRefused
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import Names, Path, Properties, Value
from splitbrain.cluster.wire import Failure, Outcome, QueueOp

LETTER = encode_command(Enqueue(None, None, b"letter"))


class Shell:
    """A node whose metadata have the record of one queue, `dead`; it is its host, and its store and tree as well."""

    def __init__(self, leader: str | None = None) -> None:
        record = {"group": "queue.4", "founders": ["n1", "n2", "n3"], "size": 3, "config": [], "leader": leader}
        self.payloads: dict[Path, Any] = {PATH: [4, 0], (*PATH, "dead"): {**record, "members": ["n1", "n2", "n3"]}}
        self.asked: list[tuple[str, bytes, Answering]] = []
        self.tree = self
        self.keeper = QueueKeeper("n2", cast(Host, self), cast(Replicas, self), self.spawn, lambda _: None)
        self.keeper.applied(cast(Store, self))

    def properties(self, path: Path) -> Properties | None:
        found = self.payloads.get(path)
        return None if found is None else Properties(encode_value(found), 1, 1, 1)

    def query(self, _: object) -> Any:
        return Names(("dead",))

    def spawn(self, work: Awaitable[None], _: str) -> None:
        cast(Any, work).close()

    def ask(self, group: str, body: QueueOp, _: int, answer: Answering) -> None:
        self.asked.append((group, body.data, answer))


@pytest.mark.parametrize(
    ("outcome", "is_confirmed"),
    [
        (Value(notes.encode(ACCEPTED)), True),
        (Value(notes.encode(Unready(False))), False),
        (Value(notes.encode(Unready(True))), False),
        (Value(notes.encode(NotEnqueued())), False),
        (Value(notes.encode(QueueRefused("invalid_command", ""))), False),
        (Failure("busy", True, ""), False),
        (Failure("timeout", False, ""), False),
    ],
)
def test_a_dead_letter_is_confirmed_by_a_queue_that_took_it_and_by_no_other_answer(
    outcome: Outcome, is_confirmed: bool
) -> None:
    """A queue that is not configured yet, or is being deleted, answers too: what it did not take is not settled."""
    shell, heard = Shell(), list[bool]()
    shell.keeper.publish_confirmed("dead", LETTER, heard.append)
    [(group, command, answer)] = shell.asked
    assert (group, command, heard) == ("queue.4", LETTER, [])
    answer(1, outcome, 1)
    assert heard == [is_confirmed]


@pytest.mark.parametrize(
    ("leader", "order"), [(None, ("n1", "n3")), ("n3", ("n3", "n1")), ("n2", ("n1", "n3")), ("n9", ("n9", "n1", "n3"))]
)
def test_the_member_that_led_last_is_asked_first_and_the_node_never_asks_itself(
    leader: str | None, order: tuple[str, ...]
) -> None:
    keeper = Shell(leader).keeper
    assert keeper.members_of("queue.4") == order
    assert keeper.members_of("queue.5") == ()
