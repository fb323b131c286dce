"""How a node of PostgreSQL is started, at which level, and how a test names that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.checkers.registry import check_spec
from splitbrain.harness.campaigns.compose import RunOptions, command_line, compose
from splitbrain.harness.contract.nodes import NodePlace
from splitbrain.harness.contract.read_modes import LINEARIZABLE, SERIALIZABLE, ReadMode
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems import catalogue
from splitbrain.harness.systems.postgresql import Postgresql
from splitbrain.harness.systems.postgresql.settings import PROMISES
from splitbrain.results.errors import UsageError
from tests.systems.postgresql.conftest import OPTIONS


def a_test(*nodes: str, **settings: int) -> Test:
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    return cast(Test, SimpleNamespace(nodes=nodes, settings=named, concurrency=10))


def place(node: str, *peers: str) -> NodePlace:
    addresses = {peer: (f"10.0.0.{peer[1:]}", 7000) for peer in (node, *peers)}
    listen = addresses.pop(node)
    return NodePlace(node=node, data_dir="/data", listen=listen, peers=addresses, home="image")


def settings_of(isolation: str = "", mode: ReadMode = LINEARIZABLE, nodes: int = 1, **settings: int) -> dict[str, str]:
    names = [f"n{number}" for number in range(1, nodes + 1)]
    command = Postgresql(mode, isolation).command(a_test(*names, **settings), place(*names))
    lines = command.files["postgresql.conf"].decode().splitlines()
    return {name: value.strip("'") for name, value in (line.split(" = ", 1) for line in lines)}


class TestCommand:
    @pytest.mark.parametrize("isolation", ["", *PROMISES])
    def test_the_level_is_the_default_of_all_transactions_and_without_one_postgresqls_own(self, isolation: str) -> None:
        level = (isolation or "read-committed").replace("-", " ")
        assert settings_of(isolation)["default_transaction_isolation"] == level

    def test_nothing_that_makes_it_less_safe_is_switched_on(self) -> None:
        found = settings_of()
        assert (found["fsync"], found["full_page_writes"], found["synchronous_commit"]) == ("on", "on", "on")

    def test_replication_is_asynchronous_unless_asked_for_otherwise(self) -> None:
        assert settings_of(mode=SERIALIZABLE, nodes=3)["synchronous_standby_names"] == ""
        found = settings_of(mode=SERIALIZABLE, nodes=3, synchronous_standbys=1)
        assert found["synchronous_standby_names"] == "ANY 1 (n2, n3)"

    def test_a_node_knows_the_others_the_first_primary_and_the_failover_timeout(self) -> None:
        command = Postgresql(SERIALIZABLE).command(a_test("n1", "n2", failover_timeout=1500), place("n2", "n1"))
        words = dict(zip(command.argv[2::2], command.argv[3::2], strict=True))
        assert command.argv[:2] == ("python3", "/data/node.py")
        assert words == {
            "--node": "n2",
            "--data": "/data",
            "--listen": "10.0.0.2:7000",
            "--founder": "n1",
            "--failover-timeout": "1.5",
            "--peer": "n1=10.0.0.1:7000",
        }

    def test_standbys_are_refused_where_they_could_not_answer_as_the_test_demands(self) -> None:
        with pytest.raises(UsageError, match="--read-mode serializable"):
            settings_of(nodes=2)
        with pytest.raises(UsageError, match="no serializable transactions"):
            settings_of("serializable", SERIALIZABLE, nodes=2)


class TestIsolation:
    @pytest.mark.parametrize(("level", "model"), PROMISES.items())
    def test_each_level_promises_a_model_that_the_checkers_know(self, level: str, model: str) -> None:
        assert catalogue.build("postgresql", isolation=level).capabilities.isolation == model
        check_spec("list-append", {"consistency_models": [model]}, ("txn",))

    def test_a_level_that_a_system_does_not_have_is_refused_with_those_that_it_has(self) -> None:
        with pytest.raises(UsageError, match="are at read-committed or repeatable-read or serializable"):
            catalogue.build("postgresql", isolation="chaos")
        with pytest.raises(UsageError, match="transactions of system 'etcd' have one level only"):
            catalogue.build("etcd", isolation="serializable")

    def test_it_is_part_of_a_tests_name_and_of_the_command_that_repeats_it(self) -> None:
        def composed(**more: Any) -> tuple[str, str]:
            chosen = RunOptions.of(**OPTIONS, **more)
            return compose(chosen).name, command_line(chosen)

        name, command = composed()
        assert name == "postgresql-register-none"
        assert "--isolation" not in command
        name, command = composed(isolation="repeatable-read")
        assert name == "postgresql-at_repeatable_read-register-none"
        assert "--isolation repeatable-read" in command


def test_no_run_needs_answers_from_each_node_if_there_are_standbys() -> None:
    def nodes(**more: str) -> object:
        checkers = compose(RunOptions.of(**{**OPTIONS, **more})).workload.checkers
        return next(spec.options["load"]["nodes"] for spec in checkers if spec.name == "coverage")

    assert nodes() == ["n1"]
    assert nodes(nodes="3", read_mode="serializable") == []
