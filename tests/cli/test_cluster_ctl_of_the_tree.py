"""`splitbrain cluster ctl` speaks all of the metadata store, against real nodes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from splitbrain.harness.cli.cluster import command
from splitbrain.results.errors import UsageError
from tests.cli.test_cluster_ctl import Call, answer, five_free_ports
from tests.cli.test_cluster_ctl import _call as _fixture  # pyright: ignore[reportPrivateUsage]

assert _fixture
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
FUNCTIONS = """
from splitbrain.cluster.tree import Functions

FUNCTIONS = Functions()


@FUNCTIONS.register("own/count", version=1)
def count(tx, data, arguments):
    now = (tx.value(tx.get(data)) or 0) + 1
    tx.put(data, now)
    return now
"""
EXISTS = '["if_node_exists", true]'


@pytest.mark.slow
def test_kh2_to_kh18_the_tree_from_the_command_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("ctl_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(Path.cwd())  # as the command itself does
    call("up", "--nodes", "1", "--base-port", str(five_free_ports()), "--functions", "ctl_functions:FUNCTIONS")
    while answer(call("ctl", "status", "--json"))["machine_version"] < 3:
        time.sleep(0.05)

    # Conditions, many nodes, and what keeps them.
    call("ctl", "put", "/vhosts/main", '{"tracing": false}')
    call("ctl", "put-if", "/queues/a", '["a", 1]', "--keep-while", f"/vhosts/main={EXISTS}")
    call("ctl", "put-if", "/queues/b", '["b", 2]', "--when", '["if_node_exists", false]')
    again = call("ctl", "put-if", "/queues/b", "3", "--when", '["if_node_exists", false]', code=1)
    assert "mismatching_node" in again.stderr
    assert "may match many" in call("ctl", "delete-if", "/queues/*", code=1).stderr
    with pytest.raises(UsageError, match="is no condition"):
        call("ctl", "delete-if", "/queues/*", "--when", "rain")
    assert call("ctl", "count", "/queues/*").stdout == "2\n"
    assert call("ctl", "exists", "/queues/c").stdout == "false\n"
    listed = call("ctl", "list", "--mode", "fenced").stdout
    assert listed.splitlines() == [
        "queues",
        '  a  ["a",1]  (version 1)',
        '  b  ["b",2]  (version 1)',
        "vhosts",
        '  main  {"tracing":false}  (version 1)',
    ]

    # Transactions and procedures.
    moved = answer(call("ctl", "transact", "move:1", '{"from": "/queues/b", "to": "/queues/c"}'))
    assert moved["value"] == ["b", 2]
    aborted = call("ctl", "transact", "move:1", '{"from": "/none", "to": "/queues/c"}', code=1).stderr
    assert "aborted: the function ended the transaction: 'no source'" in aborted
    read = answer(call("ctl", "transact", "values:1", '["/queues/c"]', "--writes", "read", "--mode", "local"))
    assert read["value"] == [["b", 2]]
    call("ctl", "put-procedure", "/procedures/count", "own/count:1", '"/count"')
    assert answer(call("ctl", "run-procedure", "/procedures/count", "--write"))["value"] == 1
    call("ctl", "register-trigger", "t", "/queues/*", "/procedures/count", "--on", "create")
    assert answer(call("ctl", "triggers"))[0]["procedure"] == "/procedures/count"
    call("ctl", "put", "/queues/d", '["d", 4]')
    while answer(call("ctl", "get", "/count"))["value"] != 2:
        time.sleep(0.02)
    call("ctl", "unregister-trigger", "t")

    # Projections.
    call("ctl", "register-projection", "queues_v1", "/queues/*")
    assert answer(call("ctl", "look-up", "queues_v1", '"d"'))["records"] == [["d", 4]]
    assert len(answer(call("ctl", "look-up", "queues_v1"))["records"]) == 3
    assert answer(call("ctl", "projections")) == {"queues_v1": "/queues/*"}
    assert answer(call("ctl", "unregister-projection", "queues_v1")) == {"queues_v1": "/queues/*"}
    assert "unknown_projection" in call("ctl", "look-up", "queues_v1", code=1).stderr

    # Out and in; a damaged file changes nothing.
    call("ctl", "export", "all.export")
    gone = answer(call("ctl", "delete-if", "/vhosts/main"))
    assert [(node["path"], node["delete_reason"]) for node in gone["nodes"]] == [
        ("/queues/a", "keep_while"),
        ("/vhosts", "keep_while"),
        ("/vhosts/main", "explicit"),
    ]
    data = Path("all.export").read_bytes()
    Path("cut.export").write_bytes(data[:-3])
    assert "cut short" in call("ctl", "import", "cut.export", code=1).stderr
    assert call("ctl", "exists", "/queues/a").stdout == "false\n"
    call("ctl", "import", "all.export")
    assert call("ctl", "exists", "/queues/a").stdout == "true\n"


@pytest.mark.slow
def test_kh16_a_node_joins_more_than_once_and_is_reset(call: Call) -> None:
    call("up", "--nodes", "1", "--base-port", str(five_free_ports()), "--spares", "1")
    call("ctl", "put", "/a", "1")
    assert answer(call("ctl", "join", "n2", "--json"))["voters"] == ["n1", "n2"]
    assert "n2 is a member already." in call("ctl", "join", "n2").stdout
    with pytest.raises(UsageError, match="what only n2 has is lost"):
        call("ctl", "reset", "n2")
    assert answer(call("ctl", "reset", "n2", "--yes", "--json"))["voters"] == ["n1"]
    assert answer(call("ctl", "join", "n2", "--json"))["voters"] == ["n1", "n2#1"]
    assert answer(call("ctl", "get", "/a", "--node", "n2"))["value"] == 1


def test_what_makes_no_sense_is_refused_before_a_node_is_asked() -> None:
    def refused(*arguments: str) -> Any:
        done = CliRunner().invoke(command, ["ctl", *arguments], catch_exceptions=True)
        return done.exception

    for arguments in (
        ("transact", "move"),
        ("transact", "move:1", "null", "--mode", "local"),
        ("register-trigger", "t", "/a", "/b", "--on", "rain"),
        ("register-projection", "p", "/a", "--table", "p:heap"),
        ("unregister-projection",),
        ("import", "no-such-file"),
        ("put-if", "/a", "1", "--keep-while", "/b"),
    ):
        assert isinstance(refused(*arguments), UsageError), arguments


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "arguments",
    [
        ("put", "/a", DEEP),
        ("cas", "/a", DEEP, "1"),
        ("put-if", "/a", DEEP),
        ("transact", "move:1", DEEP),
        ("put-procedure", "/a", "move:1", DEEP),
        ("run-procedure", "/a", DEEP),
        ("look-up", "p", DEEP),
    ],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.usefixtures("call")
def test_a_value_that_is_nested_too_deep_is_refused_in_one_sentence(arguments: tuple[str, ...]) -> None:
    found = CliRunner().invoke(command, ["ctl", *arguments], catch_exceptions=True).exception
    assert isinstance(found, UsageError)
    assert "nested too deep" in str(found)
    assert len(str(found)) < 200


def test_the_option_that_makes_no_sense_is_named() -> None:
    for option, value in (("--when", "rain"), ("--keep-while", "/b=rain")):
        found = (
            CliRunner().invoke(command, ["ctl", "put-if", "/a", "1", option, value], catch_exceptions=True).exception
        )
        assert isinstance(found, UsageError)
        assert str(found).startswith(option)
