"""Clients report what the system answered, no more and no less."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError, Session
from splitbrain.harness.contract.test import Client
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.counter import CounterClient
from splitbrain.workloads.declare import DeclareClient
from splitbrain.workloads.grow_set import COLLECTION, SetClient
from splitbrain.workloads.lease_lock import LeaseLockClient
from splitbrain.workloads.lock import LockClient
from splitbrain.workloads.register import RegisterClient
from tests.workloads.support import TERM, Store, as_test, do, opened, run

PROTOTYPES: list[Client] = [
    RegisterClient(),
    SetClient(),
    DeclareClient(),
    CounterClient(),
    LockClient(),
    LeaseLockClient(),
]
EVERY_OP = [
    (RegisterClient(), "read", None),
    (RegisterClient(), "write", 3),
    (RegisterClient(), "cas", [1, 2]),
    (SetClient(), "add", 7),
    (SetClient(), "read", None),
    (DeclareClient(), "create", 1),
    (DeclareClient(), "read", None),
    (CounterClient(), "increment", 5),
    (CounterClient(), "read", None),
    (LockClient(), "acquire", None),
    (LockClient(), "release", None),
]


def test_a_client_tells_whether_it_believes_that_it_has_the_lock() -> None:
    store = Store()
    client = opened(LeaseLockClient(), store)
    assert told(do(client, store, "acquire", key="l")) == ("ok", 1, None)
    assert told(do(client, store, "acquire", key="l")) == ("fail", None, "held")
    assert told(do(client, store, "hold", key="l")) == ("ok", True, None)
    assert told(do(client, store, "release", key="l")) == ("ok", True, None)
    store.lost = True
    assert told(do(client, store, "hold", key="l")) == ("ok", False, None)
    assert told(do(client, store, "release", key="l")) == ("ok", False, None)


def test_a_release_that_was_refused_ends_the_work_all_the_same_so_it_never_certainly_failed() -> None:
    store = Store()
    client = opened(LeaseLockClient(), store)
    do(client, store, "acquire", key="l")
    store.raises = DefiniteError("no leader")
    with pytest.raises(IndefiniteError, match="no leader"):
        do(client, store, "release", key="l")


def told(op: Op) -> tuple[str, object, str | None]:
    """Type, value and error of a completion."""
    return op.type, op.value, op.error


def test_a_register_reads_what_was_written_and_nothing_before() -> None:
    store = Store()
    client = opened(RegisterClient(), store)
    assert told(do(client, store, "read", key="a")) == ("ok", None, None)
    assert told(do(client, store, "write", 3, key="a")) == ("ok", 3, None)
    assert told(do(client, store, "read", key="a")) == ("ok", 3, None)
    assert told(do(client, store, "read", key="b")) == ("ok", None, None)


def test_a_compare_and_set_that_matches_is_ok_and_one_that_does_not_is_a_fail_and_changes_nothing() -> None:
    store = Store({"a": 1})
    client = opened(RegisterClient(), store)
    assert told(do(client, store, "cas", [1, 2], key="a")) == ("ok", [1, 2], None)
    assert told(do(client, store, "cas", [1, 3], key="a")) == ("fail", [1, 3], "mismatch")
    assert told(do(client, store, "cas", [None, 3], key="b")) == ("fail", [None, 3], "mismatch")
    assert store.values == {"a": 2}


def test_a_register_that_loses_writes_is_reported_as_it_answers() -> None:
    store = Store({"a": 1}, loses_writes=True)
    client = opened(RegisterClient(), store)
    assert told(do(client, store, "write", 2, key="a")) == ("ok", 2, None)
    assert told(do(client, store, "read", key="a")) == ("ok", 1, None)


def test_the_first_creation_wins_and_the_second_is_a_fail() -> None:
    store = Store()
    client = opened(DeclareClient(), store)
    assert told(do(client, store, "read", key="q")) == ("ok", None, None)
    assert told(do(client, store, "create", 4, key="q")) == ("ok", 4, None)
    assert told(do(client, store, "create", 5, key="q")) == ("fail", 5, "exists")
    assert told(do(client, store, "read", key="q")) == ("ok", 4, None)


def test_a_counter_answers_sums_and_a_system_that_loses_adds_is_reported_as_it_answers() -> None:
    store = Store()
    client = opened(CounterClient(), store)
    assert told(do(client, store, "read", key="c")) == ("ok", None, None)
    assert told(do(client, store, "increment", 5, key="c")) == ("ok", 5, None)
    store.loses_writes = True
    assert told(do(client, store, "increment", 2, key="c")) == ("ok", 7, None)
    assert told(do(client, store, "read", key="c")) == ("ok", 5, None)


def test_a_lock_is_taken_in_the_name_of_the_process_with_a_token_and_given_back_by_it_alone() -> None:
    store = Store()
    client = opened(LockClient(), store)
    assert told(do(client, store, "acquire", key="l")) == ("ok", 1, None)
    assert told(do(client, store, "acquire", key="l")) == ("fail", None, "held")
    another = Op(process=4, type="invoke", f="release", key="l", node="n1")
    assert told(run(client.invoke(as_test(store), another))) == ("fail", None, "not the owner")
    assert told(do(client, store, "release", key="l")) == ("ok", None, None)
    assert told(do(client, store, "release", key="l")) == ("fail", None, "not the owner")
    assert told(do(client, store, "acquire", key="l")) == ("ok", 2, None)


def test_a_set_is_read_in_order_with_everything_that_the_system_answered() -> None:
    store = Store(collections={COLLECTION: [5, 1]})
    client = opened(SetClient(), store)
    assert told(do(client, store, "add", 3)) == ("ok", 3, None)
    store.collections[COLLECTION].append(3)  # a system that holds an element twice must not be tidied up
    assert told(do(client, store, "read")) == ("ok", [1, 3, 3, 5], None)


@pytest.mark.parametrize(("prototype", "f", "value"), EVERY_OP)
def test_every_completion_is_the_same_op_with_the_term_of_the_answer(prototype: Client, f: str, value: object) -> None:
    store = Store()
    done = do(opened(prototype, store), store, f, value, key="a")
    assert (done.process, done.f, done.key, done.node, done.term) == (3, f, "a", "n1", TERM)


@pytest.mark.parametrize("error", [DefiniteError("refused"), IndefiniteError("timeout"), ConnectionResetError()])
@pytest.mark.parametrize(("prototype", "f", "value"), EVERY_OP)
def test_an_exception_of_the_session_goes_through_untouched(
    prototype: Client, f: str, value: object, error: Exception
) -> None:
    store = Store()
    client = opened(prototype, store)
    store.raises = error
    with pytest.raises(type(error)) as caught:
        do(client, store, f, value, key="a")
    assert caught.value is error


@pytest.mark.parametrize("prototype", PROTOTYPES)
def test_each_client_has_a_session_of_its_own_with_the_node_that_it_was_opened_for(prototype: Client) -> None:
    store = Store()
    first, second = opened(prototype, store, "n2"), opened(prototype, store, "n4")
    assert first is not second
    run(second.close())
    run(first.close())
    assert store.closed == ["n4", "n2"]


@pytest.mark.parametrize("prototype", PROTOTYPES)
def test_a_node_that_cannot_be_reached_is_a_definite_error_of_open(prototype: Client) -> None:
    with pytest.raises(DefiniteError):
        run(prototype.open(as_test(Store(raises=DefiniteError("refused"))), cast("Deployment", None), "n1"))


class Unable(Store):
    """A system whose sessions can do nothing."""

    async def connect(self, deployment: Any, node: str) -> Session:
        """A session that can only be closed."""

        async def close() -> None:
            self.closed.append(node)

        return cast("Session", SimpleNamespace(close=close))


@pytest.mark.parametrize("prototype", PROTOTYPES)
def test_a_session_that_lacks_what_the_workload_needs_is_refused_when_a_client_opens_it(prototype: Client) -> None:
    store = Unable()
    with pytest.raises(ProtocolError, match=r"system 'store': its sessions lack \w+.* of the operations"):
        opened(prototype, store)
    assert store.closed == ["n1"]


@pytest.mark.parametrize("prototype", PROTOTYPES)
def test_a_prototype_and_an_unknown_op_are_refused(prototype: Client) -> None:
    store = Store()
    with pytest.raises(ProtocolError, match="prototype"):
        do(prototype, store, "read", key="a")
    with pytest.raises(ProtocolError, match="knows no op 'drop'"):
        do(opened(prototype, store), store, "drop", key="a")
