"""How a node of Redis is started, what it says of itself, and which tests are refused."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import hiredis
import pytest

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.nodes import NodeCommand, NodePlace
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.redis import node, settings
from splitbrain.harness.systems.redis.connection import Connection
from splitbrain.harness.systems.redis.observer import role_of
from splitbrain.harness.systems.redis.session import RedisSession
from splitbrain.harness.systems.redis.settings import SETTINGS
from splitbrain.results.errors import BackendError, UsageError
from tests.systems.redis.conftest import OPTIONS

THREE = ("n1", "n2", "n3")


class Answering:
    """Stands for a connection: its server gives these answers."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def exchange(self, *_: Any, changes: bool) -> list[Any]:
        return self.answers

    checked = staticmethod(Connection.checked)

    def close(self) -> None: ...


def composed(**options: Any) -> Test:
    return compose(RunOptions.of(**{**OPTIONS, **options}))


def command(test: Test, name: str = "n2", home: Any = "image", first: str = "10.0.0") -> NodeCommand:
    addresses = {each: (f"{first}.{number}", 7000) for number, each in enumerate(THREE, 1)}
    peers = {each: address for each, address in addresses.items() if each != name}
    return test.system.command(test, NodePlace(name, "/data", addresses[name], peers, home))


def lines(test: Test, file: str, name: str = "n2") -> list[str]:
    return command(test, name).files[file].decode().splitlines()


def test_the_first_node_is_primary_and_the_others_begin_as_its_replicas() -> None:
    test = composed()
    assert not [line for line in lines(test, "redis.conf.first", "n1") if line.startswith("replicaof")]
    assert "replicaof 10.0.0.1 7000" in lines(test, "redis.conf.first", "n2")
    assert "replicaof 10.0.0.1 7000" in lines(test, "redis.conf.first", "n3")
    for name in THREE:
        assert "sentinel monitor splitbrain 10.0.0.1 7000 2" in lines(test, "sentinel.conf.first", name)
    assert "port 7001" in lines(test, "sentinel.conf.first")


def test_settings_reach_the_configuration() -> None:
    test = composed(settings="min-replicas=1,min-replicas-max-lag=3,down-after=700,appendfsync=always")
    server, sentinel = lines(test, "redis.conf.first"), lines(test, "sentinel.conf.first")
    assert {"min-replicas-to-write 1", "min-replicas-max-lag 3", "appendfsync always"} <= set(server)
    assert "sentinel down-after-milliseconds splitbrain 700" in sentinel
    assert "sentinel failover-timeout splitbrain 2100" in sentinel


@pytest.mark.parametrize("setting", ["wait=3", "min-replicas=3"])
def test_more_replicas_than_there_are_are_refused(setting: str) -> None:
    test = composed(settings=setting)
    with pytest.raises(UsageError, match="3 nodes have 2 replicas"):
        command(test)


def test_proxies_between_nodes_are_refused() -> None:
    with pytest.raises(BackendError, match="--backend docker"):
        command(composed(), first="127.0.0")


def test_without_redis_on_this_machine_a_node_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BackendError, match="apt install redis-server"):
        command(composed(), home="here")


NO_REPLICAS: list[bytes] = []
PLACES = {("10.0.0.1", 7000): "n1", ("10.0.0.2", 7000): "n2"}


@pytest.mark.parametrize(
    ("answer", "role", "leader"),
    [
        ([b"master", 5, NO_REPLICAS], "leader", "n2"),
        ([b"slave", b"10.0.0.1", 7000, b"connected", 5], "follower", "n1"),
        ([b"slave", b"10.0.0.1", 7000, b"connect", 5], "follower", None),
        ([b"slave", b"10.0.0.9", 7000, b"connected", 5], "follower", None),
    ],
)
def test_a_replica_follows_whom_it_is_connected_to(answer: Any, role: str, leader: str | None) -> None:
    assert role_of("n2", answer, PLACES) == (role, leader)


# --- the program of a node --------------------------------------------------------------------------------------------


@pytest.fixture
def running(tmp_path: Path) -> Any:
    """The program with two stand-ins for Redis, which write down that they ran and rewrite their configuration."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("redis-server", "redis-sentinel"):
        program = programs / name
        program.write_text(
            f'#!/bin/sh\necho "rewritten by {name}" >> "$1"\necho $$ > {tmp_path}/{name}.pid\nexec sleep 60\n'
        )
        program.chmod(0o755)
    for name in ("redis", "sentinel"):
        (tmp_path / f"{name}.conf.first").write_text("first\n")
    path = f"{programs}:{os.environ['PATH']}"

    def start() -> subprocess.Popen[bytes]:
        for name in ("redis-server", "redis-sentinel"):
            (tmp_path / f"{name}.pid").unlink(missing_ok=True)
        program = (sys.executable, node.__file__, str(tmp_path))
        process = subprocess.Popen(program, env={**os.environ, "PATH": path})
        end = time.monotonic() + 20
        while not all(said(tmp_path, name) for name in ("redis-server", "redis-sentinel")):
            assert time.monotonic() < end
            time.sleep(0.02)
        return process

    return start


def said(folder: Path, name: str) -> str:
    file = folder / f"{name}.pid"
    return file.read_text().strip() if file.exists() else ""


def gone(pid: str) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("name", ["redis-server", "redis-sentinel"])
def test_a_node_ends_when_its_server_or_its_sentinel_does(running: Any, tmp_path: Path, name: str) -> None:
    process = running()
    pids = [said(tmp_path, each) for each in ("redis-server", "redis-sentinel")]
    os.kill(int(said(tmp_path, name)), signal.SIGKILL)
    assert process.wait(timeout=20) != 0
    assert all(map(gone, pids))


def test_a_node_that_is_asked_to_end_leaves_nothing(running: Any, tmp_path: Path) -> None:
    process = running()
    pids = [said(tmp_path, each) for each in ("redis-server", "redis-sentinel")]
    process.terminate()
    assert process.wait(timeout=20) == 0
    assert all(map(gone, pids))


def test_a_node_that_starts_again_continues_with_the_roles_that_it_had(running: Any, tmp_path: Path) -> None:
    for number in (1, 2):
        process = running()
        process.terminate()
        process.wait(timeout=20)
        rewritten = "rewritten by redis-server\n" * number
        assert (tmp_path / "redis" / "redis.conf").read_text() == f"first\n{rewritten}"


def test_a_folder_with_spaces_and_quotes_is_one_word() -> None:
    made = settings.server(("10.0.0.1", 7000), None, '/a "b"\\c', {name: one.default for name, one in SETTINGS.items()})
    assert r'dir "/a \"b\"\\c/redis"' in made.decode().splitlines()


@pytest.mark.parametrize("refusal", ["LOADING Redis is loading the dataset in memory", "BUSY a script runs", "NOAUTH"])
def test_a_write_whose_waiting_is_refused_may_have_happened(refusal: str) -> None:
    session = RedisSession(cast("Any", Answering(b"OK", hiredis.ReplyError(refusal))), replicas=1)
    with pytest.raises(IndefiniteError, match=r"^WAIT: "):
        asyncio.run(session.write("k", 1))
    refused = RedisSession(cast("Any", Answering(hiredis.ReplyError(refusal), 0)), replicas=1)
    with pytest.raises(DefiniteError):
        asyncio.run(refused.write("k", 1))
