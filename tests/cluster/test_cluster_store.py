"""The state machine: the tree and results by ref, in dumps and in hashes (KH-9)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from splitbrain.cluster.bugs import M31, M32, M32C, Bug, Bugs
from splitbrain.cluster.dedup import DropRefs, Protected, Ref
from splitbrain.cluster.machine import WithEffects
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import Done, Get, Increment, InvalidCommand, Put, Result, encode_command
from tests.cluster.support import both

N = ("n",)


def apply(store: Store, command: msgspec.Struct) -> Result | None:
    result = store.apply(Entry(store.applied_index + 1, 1, "command", encode_command(command)))
    assert not isinstance(result, WithEffects)
    return result


def number(store: Store) -> int:
    result = store.query(Get(N))
    assert isinstance(result, Done)
    assert result.properties is not None
    assert isinstance(result.properties.payload, bytes)
    return msgspec.msgpack.decode(result.properties.payload)


def adding(number: int, *, client: str = "c", needed: int = 1, by: int = 10) -> Protected:
    return Protected(Ref(client, number, needed), Increment(N, by))


def test_kh9_a_ref_that_comes_again_gets_its_result_and_changes_nothing_but_the_chain() -> None:
    store = Store()
    first = apply(store, adding(1))
    apply(store, Increment(N, 5))
    state, chain = store.state_hash, store.chain_hash
    assert apply(store, adding(1)) == first
    assert number(store) == 15
    assert store.state_hash == state
    assert store.chain_hash != chain


def test_kh9_results_are_in_the_dump_and_in_the_state_hash() -> None:
    plain, protected = Store(), Store()
    apply(plain, Increment(N, 10))
    result = apply(protected, adding(1))
    assert plain.state_hash != protected.state_hash
    again = Store.load(protected.dump())
    assert again.state_hash == protected.state_hash
    assert again.dump() == protected.dump()
    assert apply(again, adding(1)) == result
    assert number(again) == 10


def test_a_dump_of_version_1_has_no_refs_and_is_loaded() -> None:
    store = Store()
    apply(store, Put(N, b"\x01"))
    fields = msgspec.msgpack.decode(store.dump())
    old = {name: fields[name] for name in ("applied_index", "chain", "tree")}
    again = Store.load(msgspec.msgpack.encode(old))
    assert (again.applied_index, again.chain_hash, again.state_hash) == (1, store.chain_hash, store.state_hash)
    assert again.dump() == store.dump()


def test_a_dump_of_a_later_version_is_refused() -> None:
    fields = msgspec.msgpack.decode(Store().dump())
    with pytest.raises(msgspec.ValidationError, match="version 99"):
        Store.load(msgspec.msgpack.encode({**fields, "version": 99}))


def test_kh9_refs_that_a_leader_drops_are_gone_and_the_hash_is_that_of_the_tree_alone() -> None:
    plain, store = Store(), Store()
    apply(plain, Increment(N, 10))
    apply(store, adding(1))
    ((client, changed, _),) = store.refs.ages()
    apply(store, DropRefs(((client, changed),)))
    assert len(store.refs) == 0
    assert store.state_hash == plain.state_hash
    apply(store, adding(1))
    assert number(store) == 20


@example(b"\x92\xa6delete\x91\xa1\xff")  # a name that is no text
@given(st.binary(max_size=60))
def test_bytes_that_are_no_command_give_a_result_and_change_nothing(data: bytes) -> None:
    store = Store()
    apply(store, Put(N, b"x"))
    before = store.state_hash
    assert isinstance(store.apply(Entry(2, 1, "command", data)), InvalidCommand)
    assert store.state_hash == before


@both(M31)
def test_m31_ignores_refs(bugs: Bugs, broken: bool) -> None:
    store = Store(bugs=bugs)
    apply(store, adding(1))
    apply(store, adding(1))
    assert number(store) == (20 if broken else 10)


@both(M32)
def test_m32_carries_out_a_command_again_behind_a_snapshot(bugs: Bugs, broken: bool) -> None:
    store = Store(bugs=bugs)
    apply(store, adding(1))
    store = store.reset(store.dump())
    apply(store, adding(1))
    assert number(store) == (20 if broken else 10)


@both(M32C)
def test_m32c_answers_a_command_with_the_result_of_another_clients(bugs: Bugs, broken: bool) -> None:
    store = Store(bugs=bugs)
    apply(store, adding(1, client="a"))
    apply(store, adding(1, client="b"))
    assert number(store) == (10 if broken else 20)


@pytest.mark.parametrize("bug", [M31, M32, M32C])
def test_m31_and_m32_leave_commands_without_a_ref_alone(bug: Bug) -> None:
    broken, sound = Store(bugs=Bugs([bug.id])), Store()
    for store in (broken, sound):
        apply(store, Increment(N, 1))
        apply(store, Increment(N, 1))
    assert broken.reset(broken.dump()).state_hash == sound.state_hash
