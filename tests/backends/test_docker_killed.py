"""A controller is killed while a fault is in force, or loses its engine: the next start sweeps what does not heal."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness import images
from splitbrain.harness.backends.docker import DockerBackend, labels, runners
from splitbrain.harness.backends.docker.engine import containers_with, networks_with, short
from splitbrain.harness.contract.faultkinds import INJECTED_KINDS
from tests.backends import docker_support
from tests.backends.docker_controller import CPU_SHARE, HOUR_MS, LINK_FAULTS, NODE_FAULTS, PACKET_FAULTS
from tests.backends.docker_support import inside, leftovers, of_run
from tests.backends.support import wait_until_gone
from tests.cli.support import start, wait_for_ops

engine = docker_support.engine
pytestmark = [pytest.mark.alone, pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("engine")]

ROOT = Path(__file__).parents[2]
WITHIN_S = 60.0
BEATS = 25
PACKETS = frozenset({"delay", "loss", "duplicate", "reorder", "corrupt", "rate", "mtu", "hold"})
ERRORS = {"disk-full": "ENOSPC", "disk-read-only": "EROFS", "disk-fails": "EIO", "disk-sync": "EIO"}

FOREIGN = """table inet {name} {{
    set cut {{ type ipv4_addr; elements = {{ 192.0.2.1 }}; }}
    chain input {{ type filter hook input priority -150; ip saddr @cut drop; }}
    chain output {{ type filter hook output priority -150; ip daddr @cut drop; }}
}}
"""
TRY_TO_WRITE = """
import errno, os, sys
try:
    with open(sys.argv[1], "wb", buffering=0) as file:
        file.write(bytes(4096))
        os.fsync(file.fileno())
except OSError as error:
    print(errno.errorcode[error.errno])
"""


@dataclass(frozen=True)
class Held:
    """Faults that a controller holds.

    Attributes:
        controller: its process.
        run: the id of its run.
        pid: of the process of n2 that is first in its container.
        listen: where nodes listen.
        found: what the deployment said of the faults, and of which node, by kind.
        folder: the folder of the run.
        ids: of its containers.
        bridge: the network interface of this machine that joins them.
    """

    controller: subprocess.Popen[str]
    run: str
    pid: int
    listen: dict[str, tuple[str, int]]
    found: dict[str, Any]
    folder: Path
    ids: Sequence[str]
    bridge: str

    def folder_of(self, kind: str) -> Path:
        """The folder of the node that is struck by a fault."""
        return self.folder / "nodes" / self.found[kind]["node"]

    def said(self, node: str) -> dict[str, Any]:
        """A node's own report."""
        with socket.create_connection(self.listen[node], timeout=WITHIN_S) as connection:
            return json.loads(connection.makefile().readline())

    def heard(self) -> dict[tuple[str, str], int]:
        """Beats that crossed each link."""
        heard = {node: self.said(node)["heard"] for node in self.listen}
        return {(source, to): heard[to].get(source, 0) for source in heard for to in heard if source != to}

    def traces(self) -> set[str]:
        """What this machine still has of it."""
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        loops = [_text(path) for path in Path("/sys/block").glob("loop*/loop/backing_file")]
        return {
            *of_run(self.run),
            *(f"mount {mount}" for mount in mounts if mount.startswith(str(self.folder))),
            *(f"loop device of {image}" for image in loops if image.startswith(str(self.folder))),
            *(str(path) for path in self.folder.rglob("*.disk")),
            *(place for place, _, _ in os.walk("/sys/fs/cgroup") if any(found in place for found in self.ids)),
            *(str(path) for path in Path("/sys/class/net").glob(self.bridge)),
            *(f"process {pid}" for pid in wait_until_gone(f":{self.controller.pid}:", within_s=0)),
        }


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # let go meanwhile
        return ""


@contextmanager
def holding(run_dir: Path, faults: str) -> Generator[Held, None, None]:
    """A controller that holds faults; whatever it leaves is swept."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.backends.docker_controller", str(run_dir), faults],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as controller:
        assert controller.stdout is not None
        try:
            seen = json.loads(controller.stdout.readline())
            mine = [f"{labels.RUN}={seen['run']}"]
            with contextlib.closing(images.engine()) as client:
                ids = [container.id for container in containers_with(client.api, mine)]
                [network] = networks_with(client.api, mine)
            listen = {node: (host, port) for node, (host, port) in seen["listen"].items()}
            bridge = f"br-{short(network.id)}"
            yield Held(controller, seen["run"], seen["pid of n2"], listen, seen["found"], run_dir, ids, bridge)
        finally:
            controller.kill()
            controller.wait()
            DockerBackend().sweep()


@contextmanager
def foreign_table() -> Generator[str, None, None]:
    """Rules of somebody else in this machine's own network namespace: the table's name."""
    name = f"foreign_test_{secrets.token_hex(4)}"
    subprocess.run(["nft", "-f", "-"], input=FOREIGN.format(name=name), text=True, check=True, timeout=60)
    try:
        yield name
    finally:
        subprocess.run(["nft", "delete", "table", "inet", name], check=True, timeout=60)


def test_every_kind_of_fault_that_works_on_containers_is_held_by_a_controller_here() -> None:
    works = {kind for kind, found in DockerBackend().support().items() if found.works}
    assert works == set(INJECTED_KINDS) - {"client-links", "moment"}
    held = [*chain.from_iterable(NODE_FAULTS.values())]
    assert works == {*held, *PACKETS, "cut", "reset"}
    assert len(PACKET_FAULTS) == len({word for _, word in PACKET_FAULTS.values()}) == len(PACKETS)


@pytest.mark.parametrize("faults", [*LINK_FAULTS, *NODE_FAULTS])
def test_a_controller_killed_in_the_middle_of_a_fault_leaves_nothing_behind_the_next_sweep(
    faults: str, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    with foreign_table() as name, holding(run_dir, faults) as held:
        (tmp_path / "foreign.nft").write_text(FOREIGN.format(name=name))
        inside(held.pid, "nft", "-f", str(tmp_path / "foreign.nft"))
        table = ("nft", "-a", "list", "table", "inet", name)
        here, there = printed(*table), inside(held.pid, *table)
        check_in_force(held)

        held.controller.kill()
        held.controller.wait()
        assert wait_until_gone(f":{held.controller.pid}:", within_s=WITHIN_S) == {}, "its agent and freezer end"
        assert len(of_run(held.run)) == 1 + len(held.ids), "its containers do not"
        check_after_the_kill(faults, held)
        assert inside(held.pid, *table) == there

        lines = [line for line in DockerBackend().sweep() if held.run in line or str(run_dir) in line]
        assert len([line for line in lines if line.startswith("removed container")]) == len(held.ids)
        assert traces_in_the_end(held) == set()
        assert printed(*table) == here
        assert all((folder / "log").read_text() for folder in (run_dir / "nodes").iterdir()), "logs stay"


def check_in_force(held: Held) -> None:
    """The faults of nodes: seen from outside as far as possible, else by what their backend saw of them."""
    for kind, found in held.found.items():
        match kind:
            case "kill" | "stop":
                with pytest.raises(ConnectionRefusedError):
                    held.said(found["node"])
            case "cpu":
                assert quota_us(found["pid"]) == CPU_SHARE * 100_000
            case "pause":
                assert runners.frozen(found["pid"])
            case "disk-slow":
                assert found["freezes"] >= 1
            case "disk-rot":
                assert len(found["rotten"]) == 1
            case "disk-truncate":
                assert len(found["truncated"]) == 1
            case "membership":
                assert found["wiped"] >= 1
                assert list((held.folder_of(kind) / "data").iterdir()) == []
            case "power":
                assert {"bytes_lost", "names_lost"} <= found.keys()
            case "clock-jump" | "clock-strobe":
                assert found["after"]["offset_ms"] - found["before"]["offset_ms"] > HOUR_MS / 2
            case "clock-drift":
                assert found["after"]["drift_ppm"] > 0
            case _:
                assert written(held.folder_of(kind)) == ERRORS[kind]


def check_after_the_kill(faults: str, held: Held) -> None:
    """What needs no sweep: links carry everything again, what was frozen is thawed, clocks stand still."""
    if faults in LINK_FAULTS:
        until_all_links_carry(held)
    if faults == "resets":
        dialled, heard = held.said("n1")["dialled"]["n2"], held.heard()["n1", "n2"]
        until(lambda: held.heard()["n1", "n2"] > heard + 4 * BEATS)
        assert held.said("n1")["dialled"]["n2"] == dialled, "no connection breaks any more"
    if faults == "disks":
        assert written(held.folder_of("disk-slow")) is None
    if faults == "clocks":
        clock = held.folder_of("clock-strobe") / "clock/clock"
        shown = clock.read_text()
        time.sleep(0.2)
        assert clock.read_text() == shown


def written(node: Path) -> str | None:
    """The error that a write and sync to the disk of a node gets, by name."""
    return printed(sys.executable, "-I", "-S", "-c", TRY_TO_WRITE, str(node / "data/from-outside")).strip() or None


def quota_us(pid: int) -> int:
    """The time that a process may compute in a tenth of a second."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    paths = {controllers: path.lstrip("/") for _, controllers, path in lines}
    for controllers, path in paths.items():
        if "cpu" in controllers.split(","):
            return int(Path("/sys/fs/cgroup", controllers, path, "cpu.cfs_quota_us").read_text())
    return int(Path("/sys/fs/cgroup", paths[""], "cpu.max").read_text().split()[0])


def until_all_links_carry(held: Held) -> None:
    before = held.heard()

    def carried() -> bool:
        return all(count >= before[link] + BEATS for link, count in held.heard().items())

    until(carried)


def traces_in_the_end(held: Held) -> set[str]:
    """Traces that are still there when time is up: the kernel lets go a moment after the last use."""
    with contextlib.suppress(AssertionError):
        until(lambda: not held.traces())
    return held.traces()


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not happened():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def printed(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=WITHIN_S).stdout


# --- the engine -------------------------------------------------------------------------------------------------------

RELAY = """
import socket, sys, threading

def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen(64)
print("listens", flush=True)
while True:
    client = listening.accept()[0]
    engine = socket.socket(socket.AF_UNIX)
    engine.connect(sys.argv[2])
    for ends in ((client, engine), (engine, client)):
        threading.Thread(target=pump, args=ends, daemon=True).start()
"""
"""An engine that can be killed while the real one is needed by others: it passes everything on."""


@contextmanager
def relay(path: Path) -> Generator[subprocess.Popen[str], None, None]:
    """A way to the engine by a socket of its own, which ends with the process."""
    engine = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    scheme, _, real = engine.partition("://")
    if scheme != "unix":
        pytest.skip(f"the engine is not on this machine: {engine}")
    argv = [sys.executable, "-I", "-S", "-c", RELAY, str(path), real]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "listens\n"
            yield process
        finally:
            process.kill()


def test_an_engine_that_dies_in_the_middle_ends_the_run_in_one_line_and_the_next_sweeps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = ("--nodes", "3", "--workload", "register", "--nemesis", "kill", "--interval", "1", "--time-limit", "30")
    with relay(tmp_path / "engine.sock") as way, monkeypatch.context() as patched:
        patched.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        run = start("run", "--backend", "docker", *options, "--store", str(tmp_path), "--json", cwd=tmp_path)
        try:
            wait_for_ops(tmp_path)
            way.kill()
            out, err = run.communicate(timeout=60)
        finally:
            run.kill()
            run.wait()
    try:
        assert run.returncode == 255, err
        told = json.loads(out)["harness_error"]
        assert "it is gone" in told, told
        assert len(told.splitlines()) == 1
        assert wait_until_gone(f":{run.pid}:", within_s=WITHIN_S) == {}
    finally:
        removed = [line for line in DockerBackend().sweep() if mine_of(run) in line]
    assert removed
    assert [name for name in leftovers(labels.CONTROLLER) if mine_of(run) in name] == []


def mine_of(run: subprocess.Popen[str]) -> str:
    return f"splitbrain-{run.pid}-"
