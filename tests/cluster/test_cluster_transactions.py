"""Transactions through nodes and clients (KH-8 to KH-10, D13): registered functions, modes, aborts, and retries."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.cluster.arguments import parse
from splitbrain.cluster.client import (
    Client,
    ClientError,
    InvalidRequestError,
    NodeNotFoundError,
    OutcomeUnknownError,
    PossiblyMatchingManyNodesDeniedError,
    ReadMode,
    Ref,
    StoreRefusedError,
    TransactionAbortedError,
    retrying,
)
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.registered import BUILT_IN, known
from splitbrain.cluster.tree import NEWEST_VERSION
from splitbrain.harness.contract.nodes import NodePlace
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.results.errors import UsageError
from tests.cluster.support import World, in_cluster, in_virtual_time

THREE = ["n1", "n2", "n3"]
NODE = ["--node", "n1", "--listen", "n1:1", "--data", "-"]

OWN = """
from splitbrain.cluster.tree import Functions

FUNCTIONS = Functions()
NOT_FUNCTIONS = 1


@FUNCTIONS.register("own/append", version=1)
def append(tx, data):
    found = tx.value(tx.get("/list"))
    tx.put("/list", [*(found or []), data])
    return data
"""
SAME = OWN.replace('"own/append"', '"move"')


@pytest.fixture(name="own", scope="module")
def _own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with modules that have registered functions, among those that can be imported."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "own_functions.py").write_text(OWN)
    (folder / "same_functions.py").write_text(SAME)
    (folder / "bad_functions.py").write_text("import no_such_module\n")
    package = folder / "packaged_functions" / "deeper"
    package.mkdir(parents=True)
    (folder / "packaged_functions" / "__init__.py").write_text("")
    (package / "__init__.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(folder))
        yield folder


async def ready(world: World) -> tuple[Client, Client, str]:
    """Clients of the leader and of a follower once the version with transactions is in force; and the follower."""
    leader = await world.leader()
    await world.in_force(NEWEST_VERSION)
    follower = next(name for name in world.names if name != leader)
    return await world.client(leader), await world.client(follower), follower


def test_kh8_a_transaction_that_writes_is_one_command_and_gives_what_its_function_gives() -> None:
    async def check(world: World) -> None:
        first, second, _ = await ready(world)
        await first.put("/a", [1, {"x": None}])
        moved = await second.transaction("move", 1, {"from": "/a", "to": "/b/c"})
        assert moved.value == [1, {"x": None}]
        assert (await first.get("/b/c")).value == moved.value
        with pytest.raises(NodeNotFoundError):
            await first.get("/a")
        assert (await first.get("/b/c")).index >= moved.index > 0

    in_cluster(World(THREE), check)


def test_kh8_an_abort_is_definite_says_its_reason_and_leaves_nothing() -> None:
    async def check(world: World) -> None:
        first, second, _ = await ready(world)
        await first.put("/a", 1)
        before = await first.status()
        with pytest.raises(TransactionAbortedError, match="'/c'") as aborted:
            await second.transaction("exchange", 1, ["/a", "/c"])
        assert aborted.value.reason == "/c"
        assert aborted.value.definite
        assert (await first.status()).state_hash == before.state_hash

    in_cluster(World(THREE), check)


@pytest.mark.parametrize("read_mode", ["consistent", "leader", "local"])
def test_kh8_one_that_reads_is_a_query_in_every_read_mode(read_mode: ReadMode) -> None:
    async def check(world: World) -> None:
        first, second, _ = await ready(world)
        written = await first.put("/a", 1)
        last = (await first.status()).applied_index
        after = (written.index, written.term) if read_mode == "local" else None
        found = await second.transaction("values", 1, ["/a", "/b"], "read", read_mode=read_mode, after=after)
        assert found.value == [1, None]
        assert (await first.status()).applied_index == last

    in_cluster(World(THREE), check)


def test_kh8_auto_finds_out_whether_a_function_writes() -> None:
    async def check(world: World) -> None:
        first, second, _ = await ready(world)
        await first.put("/a", 1)
        last = (await first.status()).applied_index
        assert (await second.transaction("values", 1, ["/a"])).value == [1]
        assert (await first.status()).applied_index == last
        await second.transaction("move", 1, {"from": "/a", "to": "/b"})
        assert (await first.status()).applied_index == last + 1

    in_cluster(World(THREE), check)


@pytest.mark.parametrize(
    ("function", "data", "mode", "reason"),
    [
        ("none", None, "auto", "unknown_function"),
        ("move", {"from": "/a", "to": "/b"}, "read", "denied_update_in_readonly_tx"),
        ("move", None, "write", "function_failed"),
        ("values", 7, "read", "function_failed"),
    ],
)
def test_kh8_a_transaction_that_makes_no_sense_is_refused_with_its_reason(
    function: str, data: Any, mode: Any, reason: str
) -> None:
    async def check(world: World) -> None:
        first, second, _ = await ready(world)
        await first.put("/a", 1)
        before = (await first.status()).state_hash
        with pytest.raises(StoreRefusedError) as refused:
            await second.transaction(function, 1, data, mode)
        assert refused.value.reason == reason
        with pytest.raises(PossiblyMatchingManyNodesDeniedError, match=r"/a/\* may match many"):
            await second.transaction("exchange", 1, ["/a", "/a/*"], mode)
        assert (await first.status()).state_hash == before

    in_cluster(World(THREE), check)


def test_kh8_arguments_that_do_not_go_together_are_refused() -> None:
    async def check(world: World) -> None:
        first, _, _ = await ready(world)
        with pytest.raises(InvalidRequestError, match='in mode "read"'):
            await first.transaction("move", 1, None, "write", read_mode="local")
        with pytest.raises(InvalidRequestError, match="no mode 'rw'"):
            await first.transaction("move", 1, None, cast(Any, "rw"))
        with pytest.raises(InvalidRequestError, match="msgpack cannot carry"):
            await first.transaction("move", 1, object())

    in_cluster(World(THREE), check)


@pytest.mark.parametrize("mode", ["write", "auto"])
def test_kh9_with_a_ref_a_transaction_is_carried_out_once_and_an_abort_stays_one(mode: Any) -> None:
    async def check(world: World) -> None:
        first, second, _ = await ready(world)
        await first.put("/a", 1)
        done = [
            await each.transaction("move", 1, {"from": "/a", "to": "/b"}, mode, ref=Ref("c", 1, 1))
            for each in (first, second)
        ]
        assert [each.value for each in done] == [1, 1]
        for each in (first, second):
            with pytest.raises(TransactionAbortedError, match="no source"):
                await each.transaction("move", 1, {"from": "/a", "to": "/c"}, mode, ref=Ref("c", 2, 1))
            await first.put("/a", 2)

    in_cluster(World(THREE), check)


@pytest.mark.parametrize("is_result", [True, False])
def test_kh10_a_result_of_a_later_attempt_ends_the_doubt_also_if_it_is_a_refusal(is_result: bool) -> None:
    error = TransactionAbortedError("aborted", 2, "x")
    error.is_result = is_result

    async def run() -> None:
        attempts = iter([OutcomeUnknownError("timeout", 2), *[error] * 30])

        async def send(_: int) -> None:
            await asyncio.sleep(0.05)
            raise next(attempts)

        expected: type[ClientError] = TransactionAbortedError if is_result else OutcomeUnknownError
        with pytest.raises(expected):
            await retrying(send, 500)

    in_virtual_time(run())


def test_d13_members_apply_transactions_alike_and_go_on_after_a_restart_from_a_snapshot() -> None:
    async def check(world: World) -> None:
        first, second, follower = await ready(world)
        for number in range(20):
            await first.put(f"/a{number}", number)
            await second.transaction("move", 1, {"from": f"/a{number}", "to": f"/b/{number}"})
        await second.snapshot()
        await world.kill(follower)
        await world.start(follower)
        client = await world.client(follower)
        moved = await client.transaction("exchange", 1, ["/b/1", "/b/2"], "write", reply_from="local")
        assert moved.value == [2, 1]
        read = await client.transaction("values", 1, ["/b/1", "/b/2"], "read", read_mode="local")
        assert read.value == [2, 1]
        states = [await (await world.client(name)).status() for name in world.names]
        assert len({each.state_hash for each in states if each.applied_index >= moved.index}) == 1

    in_cluster(World(THREE), check)


def test_d13_before_the_version_with_transactions_is_in_force_there_are_none() -> None:
    async def check(world: World) -> None:
        await world.leader()
        await world.in_force(2)
        client = await world.client("n1")
        with pytest.raises(InvalidRequestError, match="before version 3"):
            await client.transaction("move", 1, None)

    world = World(THREE)
    world.machine_versions = dict.fromkeys(THREE, 2)
    in_cluster(world, check)


def test_d13_a_node_knows_its_own_functions_and_those_that_it_is_started_with(own: Path) -> None:
    del own
    config, _ = parse([*NODE, "--functions", "own_functions:FUNCTIONS"])
    assert set(config.functions.names()) == {*BUILT_IN.names(), ("own/append", 1)}
    assert parse(NODE)[0].functions is BUILT_IN


@pytest.mark.parametrize(
    ("places", "problem"),
    [
        (["own_functions"], "give module:attribute"),
        (["no_such_functions:FUNCTIONS"], "give module:attribute"),
        (["bad_functions:FUNCTIONS"], "no_such_module"),
        (["own_functions:NOT_FUNCTIONS"], "is a int, and no splitbrain.cluster.tree.Functions"),
        (["own_functions:FUNCTIONS", "own_functions:FUNCTIONS"], "own/append has a version 1 already"),
        (["same_functions:FUNCTIONS"], "move has a version 1 already"),
    ],
)
def test_d13_functions_that_cannot_be_had_are_refused_when_a_node_or_a_test_begins(
    own: Path, places: Sequence[str], problem: str
) -> None:
    del own
    with pytest.raises(ArgumentError, match=problem):
        known(places)
    with pytest.raises(UsageError, match=problem):
        Metadata(functions=places)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", ["own_functions:FUNCTIONS", "packaged_functions.deeper:FUNCTIONS"])
@pytest.mark.parametrize("home", ["here", "image", "host"])
def test_d13_nodes_find_functions_of_other_packages_in_files_that_are_laid_beside_their_data(
    own: Path, tmp_path: Path, place: str, home: Any
) -> None:
    del own
    test = cast(
        Test,
        SimpleNamespace(
            request_timeout_ms=1500, bugs=(), settings={}, workload=SimpleNamespace(needs=frozenset({"key-value"}))
        ),
    )
    peers = {name: (name, 1) for name in THREE if name != "n1"}
    node = NodePlace("n1", str(tmp_path), ("127.0.0.1", 1), peers, home, "/home")
    command = Metadata(functions=[place]).command(test, node)
    for name, content in command.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    here = Metadata(functions=[place]).command(test, NodePlace("n1", str(tmp_path), ("127.0.0.1", 1), peers))
    # As on this machine, but with the arguments for that place: the last part of the path is what is new there.
    path = ":".join([*here.env["PYTHONPATH"].split(":")[:-1], command.env["PYTHONPATH"].split(":")[-1]])
    asked = (
        "import sys; from splitbrain.cluster.arguments import parse; print(parse(sys.argv[1:])[0].functions.names())"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", asked, *command.argv[command.argv.index("--node") :]],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "('own/append', 1)" in ran.stdout, ran.stderr


def test_d13_a_simulated_node_carries_out_functions_of_other_packages(own: Path) -> None:
    del own

    async def check() -> None:
        world = World(["n1"])
        test = cast(
            Test,
            SimpleNamespace(
                request_timeout_ms=1500, bugs=(), settings={}, workload=SimpleNamespace(needs=frozenset({"key-value"}))
            ),
        )
        system = Metadata(functions=["own_functions:FUNCTIONS"])
        try:
            await system.embed(system.command(test, NodePlace("n1", "data", ("n1", 1), {})), world.runtime("n1"))
            client = await world.client("n1")
            while (await client.status()).machine_version < NEWEST_VERSION:
                await asyncio.sleep(0.01)
            for number in (1, 2):
                await client.transaction("own/append", 1, number)
            assert (await client.get("/list")).value == [1, 2]
        finally:
            await world.close()

    in_virtual_time(check())
