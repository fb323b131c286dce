"""A deployment on hosts that is given up while its connections are being made."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from splitbrain.harness.backends.ssh import backend
from splitbrain.harness.backends.ssh.backend import SshBackend
from splitbrain.harness.backends.ssh.inventory import Host, Inventory
from tests.simulation.test_third_party import a_test

WITHIN_S = 60.0


class LateConnection:
    """What a thread brings when its deployment has ended already."""

    def __init__(self) -> None:
        self.closed = Event()

    def close(self) -> None:
        self.closed.set()


def test_a_connection_that_is_made_after_the_deployment_was_given_up_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, given_up = Event(), Event()
    late = LateConnection()

    def connect(*_: Any, **__: Any) -> LateConnection:
        begun.set()
        assert given_up.wait(WITHIN_S)
        return late

    async def main() -> None:
        deploying = asyncio.create_task(
            SshBackend(Inventory((Host("n1", "192.0.2.1"),), tmp_path)).deploy(
                dataclasses.replace(a_test(), nodes=("n1",)),
                tmp_path,
                None,  # type: ignore[arg-type]
            )
        )
        await asyncio.to_thread(begun.wait, WITHIN_S)
        deploying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await deploying
        given_up.set()

    monkeypatch.setattr(backend, "connect", connect)
    asyncio.run(main())
    assert late.closed.wait(WITHIN_S)
