"""Predicates on etcd: read at one revision, and nothing is written if an object came, changed or went meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.etcd import EtcdSession
from splitbrain.harness.systems.etcd.predicates import carried_out, matches, read_first
from tests.systems.etcd.conftest import Running
from tests.systems.etcd.fake_node import FakeNode, page, says, then_resets
from tests.systems.etcd.test_etcd_transactions import CONFLICT, DONE, in_session, with_node

ALL = ["rp", "true", None]


class TestOnARealNode:
    def test_objects_are_changed_and_selected_in_the_order_of_the_steps(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            steps = [
                ["insert", "a", 1],
                ["insert", "b/ü", 2],
                ["w", "a", 4],
                ["delete", "b/ü", None],
                ["insert", "c", 5],
            ]
            reads = [ALL, ["rp", ["=", 4], None], ["rp", ["mod", 2, 1], None], ["r", "b/ü", None], ["r", "a", None]]
            found = (await session.in_universe("u", [*steps, *reads])).value
            assert [value for *_, value in found[len(steps) :]] == [{"a": 4, "c": 5}, {"a": 4}, {"c": 5}, None, 4]
            assert (await session.in_universe("u", [ALL, ["r", "c", None]])).value == [
                ["rp", "true", {"a": 4, "c": 5}],
                ["r", "c", 5],
            ]
            # Universes are apart, one whose name begins with that of another one, too.
            assert (await session.in_universe("u/", [ALL])).value == [["rp", "true", {}]]
            assert (await session.in_universe("", [ALL])).value == [["rp", "true", {}]]
            with pytest.raises(DefiniteError, match="there is no step"):
                await session.in_universe("u", [["insert", "d", 1], ["x", "d", 1]])
            assert (await session.in_universe("u", [["r", "d", None]])).value == [["r", "d", None]]

        in_session(etcd, check)

    @pytest.mark.parametrize(
        ("between", "after"),
        [
            ([["insert", "new", 7]], {"old": 1, "new": 7}),
            ([["w", "old", 3]], {"old": 3}),
            ([["delete", "old", None]], {}),
            ([["delete", "old", None], ["insert", "other", 1]], {"other": 1}),
        ],
    )
    def test_what_came_changed_or_went_since_the_predicate_read_makes_it_read_again(
        self, etcd: Running, monkeypatch: pytest.MonkeyPatch, between: list[Any], after: dict[str, int]
    ) -> None:
        universe = f"phantom {between}"

        async def check(session: EtcdSession) -> None:
            await session.in_universe(universe, [["insert", "old", 1]])
            other = await etcd.session()
            gateway: Any = session._gateway  # pyright: ignore[reportPrivateUsage]
            called: list[str] = []
            call = gateway.call

            async def interrupted(method: str, request: Any, answer: Any) -> Any:
                found = await call(method, request, answer)
                called.append(method)
                if len(called) == 1:
                    await other.in_universe(universe, between)
                return found

            monkeypatch.setattr(gateway, "call", interrupted)
            done = await session.in_universe(universe, [ALL, ["insert", "mine", 2]])
            monkeypatch.undo()
            assert done.value == [["rp", "true", after], ["insert", "mine", 2]]
            assert len(called) == 4
            await other.close()

        in_session(etcd, check)


def seen(*objects: tuple[str, str, str]) -> Callable[..., Awaitable[None]]:
    """A range at revision 20 with these: key in base64, value in base64, revision."""
    kvs = [{"key": key, "value": value, "mod_revision": revision} for key, value, revision in objects]
    return says(page({"header": {"revision": "20"}, "responses": [{"response_range": {"kvs": kvs}}]}))


OBJECT = ("b2JqZWN0cy91L2E=", "Mw==", "9")
"""objects/u/a is 3, since revision 9."""


def test_the_range_and_each_object_in_it_are_compared_when_something_is_written() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        done = await session.in_universe("u", [["rp", ["=", 3], None], ["delete", "a", None]])
        assert done.value == [["rp", ["=", 3], {"a": 3}], ["delete", "a", None]]
        [read, commit] = node.requests
        ranged = read.body["success"][0]["request_range"]
        assert (ranged["key"], ranged["range_end"]) == ("b2JqZWN0cy91Lw==", "b2JqZWN0cy91MA==")
        whole, each = commit.body["compare"]
        assert (whole["key"], whole["range_end"]) == (ranged["key"], ranged["range_end"])
        assert (whole["target"], whole["result"], whole["mod_revision"]) == ("MOD", "LESS", 21)
        assert (each["key"], each["target"], each["mod_revision"]) == (OBJECT[0], "MOD", 9)
        assert "range_end" not in each
        assert commit.body["success"] == [{"request_delete_range": {"key": OBJECT[0]}}]

    with_node(seen(OBJECT), DONE, check=check)


def test_an_object_that_was_read_as_missing_must_be_missing_still() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        await session.in_universe("u", [["r", "a", None], ["insert", "b", 1]])
        [compared] = node.requests[1].body["compare"]
        assert (compared["key"], compared["mod_revision"]) == (OBJECT[0], 0)

    with_node(seen(), DONE, check=check)


def test_writes_without_reads_are_one_request_without_conditions() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        await session.in_universe("u", [["insert", "a", 1], ["r", "a", None]])
        [request] = node.requests
        assert not request.body.get("compare")

    with_node(DONE, check=check)


def test_conflicts_in_a_universe_are_tried_until_the_time_is_over() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        with pytest.raises(DefiniteError, match="conflict"):
            await session.in_universe("u", [ALL, ["insert", "b", 1]])
        assert len(node.requests) == 4

    with_node(*[seen(OBJECT), CONFLICT] * 3, check=check, timeout_ms=2_000)


def test_a_change_of_objects_without_an_answer_is_indefinite_and_a_read_definite() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        with pytest.raises(IndefiniteError):
            await session.in_universe("u", [ALL, ["insert", "b", 1]])
        assert len(node.requests) == 2
        with pytest.raises(DefiniteError):
            await session.in_universe("u", [ALL, ["insert", "b", 1]])

    with_node(seen(OBJECT), then_resets(), then_resets(), check=check)


def test_objects_that_were_changed_before_they_are_read_are_not_read_from_others() -> None:
    assert read_first([["w", "a", 1], ["r", "a", None], ["r", "b", None], ["delete", "b", None], ALL]) == ["b"]
    done, changed = carried_out([["delete", "a", None], ALL, ["insert", "a", 2], ["r", "a", None]], {"a": 1, "b": 3})
    assert [value for *_, value in done] == [None, {"b": 3}, 2, 2]
    assert changed == {"a": 2}
    assert [matches(["mod", 3, 1], value) for value in (1, 2, 4)] == [True, False, True]


def test_an_answer_that_lacks_a_read_is_a_definite_failure() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        with pytest.raises(DefiniteError, match="1 of 2 reads"):
            await session.in_universe("u", [["r", "a", None], ["r", "b", None]])

    with_node(seen(OBJECT), check=check)


def test_only_reads_alone_may_be_answered_from_what_the_node_has() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        predicates = session._predicates  # pyright: ignore[reportPrivateUsage]
        predicates._serializable = True  # pyright: ignore[reportPrivateUsage]
        await session.in_universe("u", [ALL])
        await session.in_universe("u", [["r", "a", None]])
        await session.in_universe("u", [ALL, ["insert", "b", 1]])
        asked = [each.body["success"][0]["request_range"].get("serializable", False) for each in node.requests[:3]]
        assert asked == [True, True, False]

    with_node(seen(OBJECT), seen(OBJECT), seen(OBJECT), DONE, check=check)
