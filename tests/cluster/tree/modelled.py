"""The tree beside the naive model, step by step: `python -m tests.cluster.tree.modelled STEPS` for very many."""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from splitbrain.cluster.tree import PATTERNS_COME, Tree, name_text
from tests.cluster.tree.cases import Runner
from tests.cluster.tree.interpreter import FUNCTIONS
from tests.cluster.tree.naive import Kept, Naive, Path, Test
from tests.cluster.tree.rendering import payload_json

STEPS_OF_A_RUN = 40

NAMES = st.sampled_from(["a", "b", "c"])
PATHS: st.SearchStrategy[Path] = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
VALUES = st.sampled_from([None, 1, 2])
ATOMS: st.SearchStrategy[Test] = st.one_of(
    st.tuples(st.just("exists"), st.booleans()),
    st.tuples(st.just("has_payload"), st.booleans()),
    st.tuples(st.just("data"), st.sampled_from([1, 2])),
    st.tuples(st.just("children"), st.integers(0, 2)),
    st.tuples(st.just("payload_version"), st.integers(1, 3)),
    st.tuples(st.just("child_list_version"), st.integers(1, 3)),
)
TESTS: st.SearchStrategy[Test] = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("all"), st.lists(inner, max_size=2).map(tuple)),
        st.tuples(st.just("any"), st.lists(inner, max_size=2).map(tuple)),
    ),
    max_leaves=3,
)
KEPT: st.SearchStrategy[Kept | None] = st.one_of(
    st.none(), st.lists(st.tuples(PATHS, TESTS), max_size=2, unique_by=lambda kept: kept[0]).map(tuple)
)

_KINDS = {
    "exists": "if_node_exists",
    "has_payload": "if_has_payload",
    "children": "if_child_list_length",
    "payload_version": "if_payload_version",
    "child_list_version": "if_child_list_version",
}

Operation = tuple[dict[str, Any], Callable[[Naive], object]]
"""One operation, for the store in the notation of cases, and for the model."""


def condition(test: Test) -> Any:
    """A condition in the notation of cases."""
    kind, wanted = test
    if kind == "not":
        return {"if_not": condition(wanted)}
    if kind in ("all", "any"):
        return {f"if_{kind}": [condition(inner) for inner in wanted]}
    return {"if_data_matches": {"pattern": wanted}} if kind == "data" else {_KINDS[kind]: wanted}


def with_test(path: Path, test: Test | None) -> list[Any]:
    """A path whose last component has a condition, too."""
    return list(path) if test is None else [*path[:-1], {"if_all": [path[-1], condition(test)]}]


@st.composite
def puts(draw: st.DrawFn) -> Operation:
    path, value, test, kept = draw(PATHS), draw(VALUES), draw(st.one_of(st.none(), TESTS)), draw(KEPT)
    op: dict[str, Any] = {"op": "put", "adv": True, "path": with_test(path, test)}
    op["payload"] = {"none": True} if value is None else {"data": value}
    if kept is not None:
        conditions = [{"path": list(watched), "condition": condition(wanted)} for watched, wanted in kept]
        op["options"] = {"keep_while": conditions}
    return op, lambda model: model.put(path, value, test, kept)


@st.composite
def deletes(draw: st.DrawFn) -> Operation:
    path, test = draw(PATHS), draw(st.one_of(st.none(), TESTS))
    return {"op": "delete", "adv": True, "path": with_test(path, test)}, lambda model: model.delete(path, test)


@st.composite
def to_many(draw: st.DrawFn) -> Operation:
    parent, value = draw(st.one_of(st.just(()), PATHS)), draw(VALUES)
    path = [*parent, {"if_name_matches": {"any": True}}]
    if draw(st.booleans()):
        return {"op": "delete_many", "adv": True, "path": path}, lambda model: model.delete_children(parent)
    payload = {"none": True} if value is None else {"data": value}
    op = {"op": "put_many", "adv": True, "path": path, "payload": payload}
    return op, lambda model: model.put_children(parent, value)


OPERATIONS = st.one_of(puts(), puts(), deletes(), to_many())


class TreeBesideModel(RuleBasedStateMachine):
    """Whatever is done to both, they are the same, and so are their answers."""

    taken: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.runner = Runner()
        self.model = Naive()

    @rule(operation=OPERATIONS)
    def operate(self, operation: Operation) -> None:
        op, on_model = operation
        there = {path for path, _ in self.model.all()}
        expected = on_model(self.model)
        got = self.runner.step(op)
        if isinstance(expected, str):
            assert got["error"]["name"] == expected
            return
        gone = {tuple(node["path"]) for node in got["ok"]["nodes"] if "delete_reason" in node}
        left = {path for path, _ in self.model.all()}
        assert gone & there == there - left
        assert not (gone & left), "also what the command made itself may be gone at its end"

    @rule(operations=st.lists(OPERATIONS, min_size=1, max_size=4), aborts=st.booleans())
    def transact(self, operations: list[Operation], aborts: bool) -> None:
        before = self.runner.tree.state_hash
        ops = [op for op, _ in operations]
        wanted = {"op": "transaction", "mode": "rw", "return": {"value": 1}}
        self.runner.step(wanted | {"ops": [*ops, {"op": "abort", "reason": "no"}] if aborts else ops})
        self.model.transaction([on_model for _, on_model in operations], aborts=aborts)
        assert not aborts or self.runner.tree.state_hash == before

    @rule()
    def restart_from_a_dump(self) -> None:
        loaded = Tree.load(self.runner.tree.dump(), version=PATTERNS_COME, functions=FUNCTIONS)
        assert loaded.state_hash == self.runner.tree.state_hash
        self.runner.tree = loaded

    @invariant()
    def they_are_the_same(self) -> None:
        TreeBesideModel.taken += 1
        tree = self.runner.tree
        shape = {
            tuple(map(name_text, path)): (
                payload_json(found.payload).get("data"),
                found.payload_version,
                found.child_list_version,
                found.child_list_length,
            )
            for path, found in tree.contents()
        }
        assert shape == self.model.shape()
        assert tree.state_hash == tree.recomputed_state_hash()
        assert tree.state.size == len(shape)


def run(steps: int, *, same: bool = False) -> None:
    """At least so many steps, in runs of at most `STEPS_OF_A_RUN`; with `same` about so many, each time alike."""
    wanted = settings(
        max_examples=min(500, 1 + steps // STEPS_OF_A_RUN),
        stateful_step_count=STEPS_OF_A_RUN,
        deadline=None,
        database=None,
        derandomize=same,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        phases=(Phase.generate, Phase.shrink),
    )
    end = TreeBesideModel.taken + steps
    while True:
        run_state_machine_as_test(TreeBesideModel, settings=wanted)
        if same or TreeBesideModel.taken >= end:
            return


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.cluster.tree.modelled STEPS")
    run(int(sys.argv[1]))
    print(f"{TreeBesideModel.taken:,} steps: the tree and the model were the same after each.")
