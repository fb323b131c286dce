"""What the controller asks its agent, when the answer comes too late to be taken."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from splitbrain.harness.backends.shared.channel import Agent


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        yield waiting
        assert waiting.stdin is not None
        waiting.stdin.close()


def test_a_socket_that_arrives_as_its_request_is_given_up_is_closed(process: subprocess.Popen[bytes]) -> None:
    async def main() -> None:
        ours, agent_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        agent = Agent(process, ours, io.BytesIO())
        with agent_end:
            loop = asyncio.get_running_loop()
            request = loop.create_task(agent.ask_for_socket())
            await asyncio.sleep(0)
            number = json.loads(agent_end.recv(1000))["id"]
            given, other_end = socket.socketpair()
            with given:
                socket.send_fds(agent_end, [json.dumps({"id": number, "ok": None}).encode()], [given.fileno()])
            # The answer is read in this round of the loop; in the next the request is cancelled before it is resumed.
            loop.call_soon(loop.call_soon, request.cancel)
            with pytest.raises(asyncio.CancelledError):
                await request
            with other_end:
                other_end.setblocking(False)
                assert other_end.recv(1) == b"", "the socket is still open"
        process.kill()
        await agent.close()

    asyncio.run(main())
