"""What a client computes from its reads is tried again while others are first, if there is the time for it."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.cluster.client import TransactionAbortedError
from splitbrain.harness.contract.sessions import Answer, DefiniteError
from splitbrain.harness.systems import metadata_transactions
from splitbrain.harness.systems.metadata_transactions import MetadataTransactions

TIMEOUT_MS = 1_500


class Others:
    """A cluster in which other clients are first each time, until `until_s`; each request takes as long as the others.

    Attributes:
        given_ms: how long each request was allowed to take.
    """

    def __init__(self, takes_s: float, until_s: float = 1_000.0) -> None:
        self.now_s = 0.0
        self.takes_s = takes_s
        self.until_s = until_s
        self.given_ms: list[int] = []

    def time(self) -> float:
        return self.now_s

    async def transaction(self, name: str, version: int, asked: Any, mode: str, *, timeout_ms: int) -> Answer:
        self.given_ms.append(timeout_ms)
        self.now_s += self.takes_s
        if name == "versions":
            return Answer([[7, 3] for _ in asked], 1)
        if self.now_s < self.until_s:
            raise TransactionAbortedError("aborted", 1, None)
        return Answer(None, 1)


def updated(others: Others, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(metadata_transactions.asyncio, "get_running_loop", lambda: others)
    session = MetadataTransactions(others, TIMEOUT_MS)  # type: ignore[arg-type]
    work = session.update(["a"], lambda read: {"a": read["a"] + 1})
    with pytest.raises(StopIteration) as done:  # nothing in it waits
        work.send(None)
    return done.value.value


@pytest.mark.parametrize("takes_s", [0.01, 0.2, 0.3, 0.7])
def test_no_try_is_begun_that_would_be_given_up_halfway(monkeypatch: pytest.MonkeyPatch, takes_s: float) -> None:
    others = Others(takes_s)
    with pytest.raises(DefiniteError, match="conflict: other transactions were first"):
        updated(others, monkeypatch)
    tries = len(others.given_ms) // 2
    assert (tries + 1) * 2 * takes_s > TIMEOUT_MS / 1000 - 0.001, "there was no time for another one"
    assert others.now_s <= TIMEOUT_MS / 1000, "each try had its time, and a definite end"


def test_a_first_try_is_begun_however_long_it_takes_and_a_later_one_may_succeed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert updated(Others(0.1, until_s=0.5), monkeypatch).value == {"a": 7}
    assert updated(Others(5.0, until_s=0.0), monkeypatch).value == {"a": 7}
