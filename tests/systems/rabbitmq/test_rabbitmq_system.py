"""How a node of RabbitMQ is started, and whom its probe takes for the leader."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.local import LocalBackend
from splitbrain.harness.backends.local.support import require_release
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeCommand, NodePlace
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.rabbitmq import Rabbitmq
from splitbrain.harness.systems.rabbitmq.probe import Probe, RabbitmqObserver, Status, ask, view_of
from splitbrain.harness.systems.rabbitmq.settings import BINARY, RELEASES
from splitbrain.results.errors import BackendError, UsageError
from tests.backends.support import missing
from tests.systems.rabbitmq.conftest import OPTIONS
from tests.systems.rabbitmq.loopback import probed_at

THREE = ("n1", "n2", "n3")


def composed(**options: Any) -> Test:
    return compose(RunOptions.of(**{**OPTIONS, **options}))


def place(node: str = "n2", home: Any = "image", network: str = "10.0.0", data: str = "/data") -> NodePlace:
    addresses = {name: (f"{network}.{number}", 7000) for number, name in enumerate(THREE, 1)}
    peers = {name: address for name, address in addresses.items() if name != node}
    return NodePlace(node, data, addresses[node], peers, home)


def test_all_nodes_form_one_cluster_by_the_same_list_and_keep_their_files_in_their_own_directory() -> None:
    test = composed()
    command = test.system.command(test, place())
    configuration = command.files["rabbitmq.conf"].decode()
    listed = re.findall(r"classic_config\.nodes\.(\d) = (\S+)", configuration)
    assert listed == [("1", "rabbit@n1"), ("2", "rabbit@n2"), ("3", "rabbit@n3")]
    assert "listeners.tcp.1 = 10.0.0.2:7000" in configuration
    assert command.env["RABBITMQ_NODENAME"] == "rabbit@n2"
    paths = [value for value in command.env.values() if value.startswith("/")]
    assert len(paths) > 5
    assert all(path.startswith("/data") for path in paths)
    assert 'splitbrain_probe:start("10.0.0.2",7001)' in command.env["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"]


@pytest.mark.parametrize(
    ("chosen", "strategy"),
    [
        ("", "ignore"),
        ("partition-handling=ignore", "ignore"),
        ("partition-handling=pause_minority", "pause_minority"),
        ("partition-handling=autoheal", "autoheal"),
    ],
)
def test_the_strategy_for_partitions_is_a_setting(chosen: str, strategy: str) -> None:
    test = composed(settings=chosen)
    configuration = test.system.command(test, place()).files["rabbitmq.conf"].decode()
    assert f"cluster_partition_handling = {strategy}\n" in configuration


@pytest.mark.parametrize(("kind", "policies"), [("classic", 0), ("quorum", 0), ("mirrored", 1)])
def test_queues_are_mirrored_by_a_policy_and_only_where_that_is_asked_for(kind: str, policies: int) -> None:
    test = composed(settings=f"release=3.10,queue-type={kind}")
    found = json.loads(test.system.command(test, place()).files["definitions.json"])
    assert len(found["policies"]) == policies
    assert [each["definition"]["ha-mode"] for each in found["policies"]] == ["all"] * policies


def test_the_tick_time_is_a_setting_and_a_setting_out_of_bounds_is_refused() -> None:
    test = composed(settings="net-ticktime=8")
    arguments = test.system.command(test, place()).env["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"]
    assert "-kernel net_ticktime 8 " in arguments
    with pytest.raises(UsageError, match="queue-type"):
        composed(settings="queue-type=3")


def test_the_release_chooses_the_image_and_what_it_lacks_is_refused() -> None:
    image_for = Rabbitmq().capabilities.image_for
    assert image_for is not None
    assert image_for({}) == image_for(composed(settings="release=4.0").settings) == "rabbitmq"
    assert image_for(composed(settings="release=3.10").settings) == "rabbitmq-3.10"
    khepri, mirrors = composed(settings="release=3.10,store=khepri"), composed(settings="queue-type=mirrored")
    with pytest.raises(UsageError, match="has Mnesia only"):
        khepri.system.command(khepri, place())
    with pytest.raises(UsageError, match="has no mirrors"):
        mirrors.system.command(mirrors, place())


def test_a_node_begins_with_the_feature_flag_of_its_store() -> None:
    test = composed(settings="store=khepri")
    assert "khepri_db" in test.system.command(test, place()).env["RABBITMQ_FEATURE_FLAGS"].split(",")
    test = composed(settings="store=mnesia")
    assert "RABBITMQ_FEATURE_FLAGS" not in test.system.command(test, place()).env


def test_nodes_start_in_the_same_way_in_containers_on_hosts_and_here() -> None:
    test = composed()

    def started(home: str) -> NodeCommand:
        return test.system.command(test, place(home=home))

    assert started("image") == started("host") == started("here")


def test_a_node_brings_the_names_of_all_nodes_and_an_epmd_of_its_own_on_no_usual_port() -> None:
    test = composed()
    command = test.system.command(test, place())
    assert command.argv == ("sh", "/data/node.sh", BINARY, "4.0", *RELEASES)
    rows = command.files["hosts"].decode().splitlines()
    assert rows == [
        '{host, {10,0,0,1}, ["n1"]}.',
        '{host, {10,0,0,2}, ["n2"]}.',
        '{host, {10,0,0,3}, ["n3"]}.',
        "{lookup, [file, native]}.",
    ]
    assert command.env["ERL_INETRC"] == "/data/hosts"
    assert (command.env["ERL_EPMD_ADDRESS"], command.env["ERL_EPMD_PORT"]) == ("10.0.0.2", "7002")
    assert command.env["RABBITMQ_DIST_PORT"] == "7003"
    assert command.env["ERL_AFLAGS"] == "-start_epmd false"
    assert "inet_dist_use_interface {10,0,0,2}" in command.env["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"]


def test_arguments_of_the_vm_do_not_name_the_directory_which_may_have_spaces() -> None:
    test = composed()
    env = test.system.command(test, place(data="/my tests/data")).env
    assert "my tests" not in env["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"]
    assert env["HOME"] == "/my tests/data"


def test_files_of_configuration_of_the_machine_are_not_read() -> None:
    """Without a name for them the broker reads /etc/rabbitmq/conf.d/*.conf after its own file."""
    test = composed()
    command = test.system.command(test, place())
    for name in ("RABBITMQ_CONFIG_FILES", "RABBITMQ_ADVANCED_CONFIG_FILE", "RABBITMQ_CONF_ENV_FILE"):
        found = command.env[name].removeprefix("/data/")
        assert found != command.env[name]
        assert found not in command.files


def test_proxies_between_nodes_are_refused() -> None:
    test = composed()
    with pytest.raises(BackendError, match="by the same address"):
        test.system.command(test, place(home="here", network="127.0.0"))


def wrapped(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """What the program of a node says, with a broker's program and an epmd from the folder, if there are any."""
    test = composed()
    script = folder / "node.sh"
    script.write_bytes(test.system.command(test, place()).files["node.sh"])
    program = folder / "rabbitmq" / "bin" / "rabbitmq-server"
    env = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "SPLITBRAIN_SETS": "", **env}
    return subprocess.run(
        ("sh", str(script), str(program), *words),
        cwd="/",
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def broker(folder: Path, text: str, release: str = "4.0.5") -> None:
    """Lay a broker's program into the folder as Debian's package does."""
    executable(folder / "rabbitmq" / "lib" / f"rabbitmq_server-{release}" / "sbin" / "rabbitmq-server", text)
    link = folder / "rabbitmq" / "bin" / "rabbitmq-server"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(f"../lib/rabbitmq_server-{release}/sbin/rabbitmq-server")


ROW = '"$$ $PPID $#"'
EPMD = f'[ "$*" = -names ] && exec test -s "$HOME/row"; echo {ROW} >"$HOME/row"; exec sleep 60'
"""An epmd that answers once it runs, and says whose child it is."""
READS_ROW = 'read -r pid parent arguments <"$HOME/row";'
ENDS_EPMD = f'{READS_ROW} kill "$pid";'


def test_epmd_is_a_child_of_the_broker_and_no_daemon(tmp_path: Path) -> None:
    """So what kills or pauses the processes of a node reaches it: it has the broker for its parent, and its session."""
    executable(tmp_path / "epmd", EPMD)
    session = 'session() { cut -d" " -f6 "/proc/$1/stat"; };'
    says = 'echo "$((parent == $$)) $(($(session "$pid") == $(session $$))) $arguments"'
    broker(tmp_path, f'{session} {READS_ROW} {says}; kill "$pid"')
    assert wrapped(tmp_path, "4.0", "4.0", "3.10").stdout == "1 1 0\n"


def test_an_epmd_that_is_there_already_is_refused(tmp_path: Path) -> None:
    """The broker would take its word for the ports of nodes, and it would outlive the node."""
    executable(tmp_path / "epmd", '[ "$*" = -names ] || echo started')
    broker(tmp_path, "echo began")
    done = wrapped(tmp_path, "4.0", "4.0", "3.10", ERL_EPMD_PORT="7002", SPLITBRAIN_SETS="ERL_EPMD_PORT")
    assert (done.returncode, done.stdout) == (1, "")
    assert "an epmd that is not this node's answers on port 7002" in done.stderr


def test_an_epmd_of_a_life_before_may_take_a_moment_to_end(tmp_path: Path) -> None:
    """Who kills a node need not wait for the end of what the node began."""
    (tmp_path / "dying").touch()
    executable(tmp_path / "epmd", f'[ "$*" = -names ] && [ -e "$HOME/dying" ] && exec rm "$HOME/dying"; {EPMD}')
    broker(tmp_path, f"{ENDS_EPMD} echo began")
    assert wrapped(tmp_path, "4.0", "4.0", "3.10").stdout == "began\n"


def test_a_port_of_epmd_on_which_nobody_answers_is_refused_too(tmp_path: Path) -> None:
    """epmd waits for an answer for good. Here the limit of the wait is over at once."""
    executable(tmp_path / "timeout", "exit 124")
    executable(tmp_path / "epmd", "exec sleep 3600")
    broker(tmp_path, "echo began")
    done = wrapped(tmp_path, "4.0", "4.0", "3.10", ERL_EPMD_PORT="7002", SPLITBRAIN_SETS="ERL_EPMD_PORT")
    assert (done.returncode, done.stdout) == (1, "")
    assert "holds port 7002 and does not answer" in done.stderr


def test_a_probe_that_cannot_have_its_port_ends_the_node_and_says_so(tmp_path: Path) -> None:
    if shutil.which("erl") is None:
        missing("there is no Erlang on this machine (apt install erlang-base)")
    test = composed()
    (tmp_path / "splitbrain_probe.erl").write_bytes(test.system.command(test, place()).files["splitbrain_probe.erl"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        starts = '{ok,_,B}=compile:file("splitbrain_probe",[binary]),code:load_binary(splitbrain_probe,"",B),'
        words = ("erl", "-noshell", "-eval", f'{starts}splitbrain_probe:start("127.0.0.1",{port}),timer:sleep(60000).')
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        f"splitbrain: the node cannot be asked what it does, on port {port} of 127.0.0.1: eaddrinuse. "
        "End what uses that port."
    )


def test_what_the_machine_has_set_for_brokers_does_not_reach_a_node(tmp_path: Path) -> None:
    executable(tmp_path / "epmd", EPMD)
    broker(tmp_path, f"{ENDS_EPMD} env | grep -E '^(RABBITMQ|ERL)_' | sort")
    own = {
        "RABBITMQ_NODENAME": "rabbit@n2",
        "ERL_EPMD_PORT": "7002",
        "SPLITBRAIN_SETS": "RABBITMQ_NODENAME ERL_EPMD_PORT",
    }
    of_machine = {"RABBITMQ_NODE_PORT": "5672", "RABBITMQ_USE_LONGNAME": "true", "ERL_FLAGS": "-nonsense"}
    found = wrapped(tmp_path, "4.0", "4.0", "3.10", **own, **of_machine).stdout.split()
    assert [each for each in found if not each.startswith("ERL_CRASH_DUMP=")] == [
        "ERL_EPMD_PORT=7002",
        "RABBITMQ_NODENAME=rabbit@n2",
    ]


def test_a_node_sets_all_of_its_variables_for_brokers_itself() -> None:
    test = composed(settings="store=khepri")
    env = test.system.command(test, place()).env
    of_brokers = {name for name in env if name.startswith(("RABBITMQ_", "ERL_"))}
    assert set(env["SPLITBRAIN_SETS"].split()) == of_brokers


def test_a_node_runs_in_its_directory_and_files_of_its_configuration_are_named_from_there(tmp_path: Path) -> None:
    """rabbitmq.conf has no way to write a path with a space, a quote or a `#`, which cut it short."""
    test = composed()
    for data in ("/data", "/my tests #1/data"):
        configuration = test.system.command(test, place(data=data)).files["rabbitmq.conf"].decode()
        assert "load_definitions = definitions.json\n" in configuration
        assert "/data" not in configuration
    folder = tmp_path / "my tests #1"
    executable(folder / "epmd", EPMD)
    broker(folder, f"{ENDS_EPMD} pwd; echo $ERL_CRASH_DUMP")
    assert wrapped(folder, "4.0", "4.0", "3.10").stdout.splitlines() == [str(folder), "//erl_crash.dump"]


def test_a_release_that_is_not_installed_is_refused_and_the_one_that_is_there_named(tmp_path: Path) -> None:
    assert "RabbitMQ of no release is installed here" in wrapped(tmp_path, "4.0", "4.0", "3.10").stderr
    broker(tmp_path, "echo began", "3.10.8")
    done = wrapped(tmp_path, "4.0", "4.0", "3.10")
    assert done.returncode == 1
    assert "but RabbitMQ 3.10.8 is installed here" in done.stderr
    assert "--settings release=3.10" in done.stderr
    assert "--settings" not in wrapped(tmp_path, "4.0", "4.0", "3.1").stderr


def test_the_release_is_that_of_the_program_and_not_of_what_another_release_left(tmp_path: Path) -> None:
    """A package that is upgraded leaves folders that are not empty, such as those of plugins."""
    (tmp_path / "rabbitmq" / "lib" / "rabbitmq_server-3.10.8" / "plugins").mkdir(parents=True)
    executable(tmp_path / "epmd", EPMD)
    broker(tmp_path, f"{ENDS_EPMD} echo began")
    assert wrapped(tmp_path, "4.0", "4.0", "3.10").stdout == "began\n"


def status(connected: tuple[str, ...], queues: dict[str, str | None], **fields: Any) -> Status:
    names = tuple(f"rabbit@{node}" for node in connected)
    led = {queue: None if node is None else f"rabbit@{node}" for queue, node in queues.items()}
    return Status("rabbit@n1", names, (), fields.get("store", "mnesia"), fields.get("metadata_leader"), led)


@pytest.mark.parametrize(
    ("seen", "leader"),
    [
        (status(THREE, {}), "n1"),
        (status(THREE, {"q1": "n3", "q0": "n2"}), "n2"),
        (status(THREE, {"q0": None, "q1": "n3"}), "n3"),
        (status(THREE, {}, store="khepri", metadata_leader="rabbit@n3"), "n3"),
        (status(THREE, {}, store="mnesia", metadata_leader="rabbit@n3"), "n1"),
        (status(("n1", "n2"), {"q0": "n2"}), "n2"),
        (status(("n1",), {"q0": "n1"}), None),
    ],
)
def test_who_leads_is_said_of_the_first_queue_and_not_without_a_majority(seen: Status, leader: str | None) -> None:
    view = view_of("n1", seen, 3)
    assert view.leader == leader
    assert view.role == ("leader" if leader == "n1" else "follower")


def test_a_view_has_the_leaders_of_all_queues_and_of_the_store_in_force() -> None:
    queues = {"q1": "n3", "q0": "n2", "q2": None, "v0/q0": "n2"}
    seen = view_of("n1", status(THREE, queues, store="khepri", metadata_leader="rabbit@n1"), 3)
    assert (seen.leader, seen.queue_leaders, seen.store_leader) == ("n2", ("n2", "n3"), "n1")
    seen = view_of("n1", status(THREE, queues, store="mnesia", metadata_leader="rabbit@n1"), 3)
    assert seen.store_leader is None
    cut_off = view_of("n1", status(("n1",), queues, store="khepri", metadata_leader="rabbit@n1"), 3)
    assert (cut_off.queue_leaders, cut_off.store_leader) == ((), None)


def answering(line: bytes) -> Deployment:
    """A node whose probe answers one request with that line, in two parts."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            connection.recv(100)
            connection.sendall(line[:5])
            connection.sendall(line[5:])

    threading.Thread(target=serve, daemon=True).start()
    return probed_at(listener.getsockname())


def test_the_probe_is_asked_on_the_port_behind_the_clients_one() -> None:
    line = (
        b'{"node":"rabbit@n1","connected":["rabbit@n1"],"partitions":[],"store":"khepri","metadata_leader":null,'
        b'"queues":{"q0":"rabbit@n1"}}\n'
    )
    found = asyncio.run(ask(answering(line), "n1"))
    assert found == Status("rabbit@n1", ("rabbit@n1",), (), "khepri", None, {"q0": "rabbit@n1"})


@pytest.mark.parametrize("line", [b"", b"not json\n"])
def test_a_probe_that_says_nothing_is_an_error_of_the_node(line: bytes) -> None:
    with pytest.raises(DefiniteError, match="probe"):
        asyncio.run(ask(answering(line), "n1"))


def test_a_node_that_was_never_started_has_no_view() -> None:
    assert asyncio.run(Rabbitmq().view(None, "n1")) is None  # pyright: ignore[reportArgumentType]


LINE = (
    b'{"node":"rabbit@n1","connected":["rabbit@n1","rabbit@n2"],"partitions":[],"store":"mnesia",'
    b'"metadata_leader":null,"queues":{"q0":"rabbit@%s"}}\n'
)


def test_an_observer_asks_again_on_its_one_connection_until_the_process_ends() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            for leader in (b"n1", b"n2"):
                asked.append(connection.recv(100))
                connection.sendall(LINE % leader)
            asked.append(connection.recv(100))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    deployment = probed_at(listener.getsockname())

    async def main() -> None:
        observer = RabbitmqObserver(await Probe.open(deployment, "n1"), "n1", 3)
        seen = [await observer.look(), await observer.look()]
        assert [(each.role, each.leader, each.term) for each in seen] == [
            ("leader", "n1", None),
            ("follower", "n2", None),
        ]
        with pytest.raises(DefiniteError, match="probe"):
            await observer.look()
        await observer.close()

    asyncio.run(main())
    thread.join(10)
    assert asked == [b"status\n"] * 3


def test_a_node_that_was_never_started_or_does_not_listen_cannot_be_observed() -> None:
    with pytest.raises(DefiniteError, match="not started"):
        asyncio.run(Rabbitmq().observe(None, "n1"))  # pyright: ignore[reportArgumentType]
    closed = socket.create_server(("127.0.0.1", 0))
    deployment = probed_at(closed.getsockname())
    closed.close()
    with pytest.raises(DefiniteError, match="probe"):
        asyncio.run(Probe.open(deployment, "n1"))


def linked(folder: Path, release: str) -> str:
    """A program of a release, as Debian's package lays it."""
    broker(folder, "exit 1", release)
    return str(folder / "rabbitmq" / "bin" / "rabbitmq-server")


@pytest.mark.parametrize(
    ("installed", "wanted", "instead"),
    [
        ("3.10.8", "4.0", "Give --settings release=3.10, or --backend docker"),
        ("4.0.5", "3.10", "Give --settings release=4.0, or --backend docker"),
        ("3.12.1", "3.10", "Give --backend docker"),
        ("3.100.1", "3.10", "Give --backend docker"),
    ],
)
def test_a_test_of_another_release_than_the_one_here_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str, wanted: str, instead: str
) -> None:
    monkeypatch.setattr("splitbrain.harness.systems.rabbitmq.settings.BINARY", linked(tmp_path, installed))
    with pytest.raises(BackendError, match=f"RabbitMQ {installed} is installed on this machine. {instead}"):
        LocalBackend("namespaces").check(composed(backend="local", settings=f"release={wanted}"))


def test_a_test_of_the_release_here_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitbrain.harness.systems.rabbitmq.settings.BINARY", linked(tmp_path, "3.10.8"))
    require_release(composed(backend="local", settings="release=3.10"))


FAKES = {
    "rabbit": "is_running() -> ets:update_counter(looks, seen, 1) > 2.",
    "rabbit_vhost": """
        list_names() -> [<<"/">>, <<"failed">>, <<"missed">>].
        msg_store_dir_path(Name) -> filename:join(<<"stores">>, base64:encode(Name)).""",
    "rabbit_vhost_sup_sup": """
        is_vhost_alive(Name) -> Name =:= <<"/">>.
        start_vhost(Name) -> io:format("~ts~n", [Name]), {ok, self()}.""",
}
"""What of RabbitMQ's modules is asked for virtual hosts: it says at the third time that it runs."""


def test_a_virtual_host_that_has_never_run_on_a_node_is_started_and_one_that_failed_is_not(tmp_path: Path) -> None:
    """Two nodes that are made into a cluster at once: the second misses the host that the first is adding."""
    if shutil.which("erl") is None:
        missing("there is no Erlang on this machine (apt install erlang-base)")
    test = composed()
    sources = {"splitbrain_probe": test.system.command(test, place()).files["splitbrain_probe.erl"].decode()}
    sources |= {name: f"-module({name}).\n-compile(export_all).\n{code}\n" for name, code in FAKES.items()}
    for name, source in sources.items():
        (tmp_path / f"{name}.erl").write_text(source)
    for name in (b"/", b"failed"):
        (tmp_path / "stores" / base64.b64encode(name).decode()).mkdir(parents=True)
    compiled = ",".join(f"{{ok,{name}}}=c:c({name},[nowarn_export_all])" for name in sources)
    program = f"{compiled},ets:new(looks,[named_table,public]),ets:insert(looks,{{seen,0}}),"
    words = ("erl", "-noshell", "-eval", f"{program}splitbrain_probe:start_missed(),halt().")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "missed"
    assert second.startswith("splitbrain: this node joined while the virtual host missed was made")
