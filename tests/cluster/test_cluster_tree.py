"""The metadata tree (KH-1 to KH-5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.errors import InvalidPathError
from splitbrain.cluster.tree import (
    Children,
    CompareAndSwap,
    Create,
    Delete,
    Done,
    Get,
    Increment,
    InvalidCommand,
    ManyNodesDenied,
    MismatchingNode,
    Names,
    NodeNotFound,
    Path,
    PlainCommand,
    Procedure,
    Properties,
    Put,
    Result,
    Tree,
    Update,
    format_path,
    parse_path,
)

A: Path = ("a",)
AB: Path = ("a", "b")
ABC: Path = ("a", "b", "c")


def tree_after(*commands: PlainCommand) -> Tree:
    tree = Tree()
    for command in commands:
        tree.execute(command)
    return tree


def found(tree: Tree, path: Path) -> Properties:
    result = tree.query(Get(path))
    assert isinstance(result, Done)
    assert result.properties is not None
    return result.properties


class TestVersions:
    def test_a_new_node_begins_with_versions_one_kh_1(self) -> None:
        assert found(tree_after(Put(A, b"x")), A) == Properties(b"x", 1, 1, 0)

    def test_the_payload_version_counts_changes_and_not_puts_kh_1(self) -> None:
        tree = tree_after(Put(A, b"x"), Put(A, b"x"))
        assert found(tree, A).payload_version == 1
        tree.execute(Put(A, b"y"))
        assert found(tree, A).payload_version == 2
        tree.execute(Put(A, None))
        assert found(tree, A) == Properties(None, 3, 1, 0)

    def test_the_child_list_version_counts_commands_that_change_direct_children_kh_1(self) -> None:
        tree = tree_after(Put(A, b"x"))
        tree.execute(Put(AB, b"1"))
        assert found(tree, A) == Properties(b"x", 1, 2, 1)
        tree.execute(Put(AB, b"2"))
        tree.execute(Put(ABC, b"3"))
        assert found(tree, A).child_list_version == 2
        tree.execute(Delete(AB))
        assert found(tree, A) == Properties(b"x", 1, 3, 0)
        tree.execute(Delete(AB))
        assert found(tree, A).child_list_version == 3

    def test_a_command_that_creates_a_whole_branch_counts_once_at_its_top_kh_1(self) -> None:
        tree = tree_after(Put(ABC, b"x"))
        assert found(tree, ()) == Properties(None, 1, 2, 1)
        assert found(tree, A) == Properties(None, 1, 1, 1)
        assert found(tree, AB) == Properties(None, 1, 1, 1)


class TestCommands:
    def test_put_creates_missing_parents_without_payload_and_they_stay_kh_4(self) -> None:
        tree = tree_after(Put(ABC, b"x"), Delete(ABC))
        assert found(tree, AB) == Properties(None, 1, 2, 0)

    def test_create_of_an_existing_node_fails_with_what_was_found_kh_4(self) -> None:
        tree = tree_after(Create(A, b"first"))
        assert tree.execute(Create(A, b"second")) == MismatchingNode(A, Properties(b"first", 1, 1, 0))
        assert found(tree, A).payload == b"first"

    def test_create_of_a_node_that_exists_only_as_a_parent_fails_kh_4(self) -> None:
        tree = tree_after(Put(AB, b"x"))
        assert isinstance(tree.execute(Create(A, b"y")), MismatchingNode)

    def test_update_of_a_missing_node_fails_and_creates_nothing_kh_4(self) -> None:
        tree = Tree()
        assert tree.execute(Update(AB, b"x")) == NodeNotFound(AB)
        assert tree.query(Get(A)) == NodeNotFound(A)

    def test_compare_and_swap_of_a_missing_node_is_node_not_found_kh_4(self) -> None:
        assert Tree().execute(CompareAndSwap(A, b"x", b"y")) == NodeNotFound(A)

    def test_compare_and_swap_changes_only_what_it_expects_kh_4(self) -> None:
        tree = tree_after(Put(A, b"x"))
        assert tree.execute(CompareAndSwap(A, b"z", b"y")) == MismatchingNode(A, Properties(b"x", 1, 1, 0))
        assert tree.execute(CompareAndSwap(A, b"x", b"y")) == Done(Properties(b"y", 2, 1, 0))

    def test_compare_and_swap_does_not_match_a_node_without_payload_kh_4(self) -> None:
        tree = tree_after(Put(AB, b"x"))
        assert isinstance(tree.execute(CompareAndSwap(A, b"", b"y")), MismatchingNode)

    def test_delete_removes_everything_below_and_a_missing_node_is_no_error_kh_5(self) -> None:
        tree = tree_after(Put(ABC, b"x"))
        assert tree.execute(Delete(A)) == Done(None)
        assert tree.query(Get(ABC)) == NodeNotFound(ABC)
        assert tree.execute(Delete(ABC)) == Done(None)

    def test_the_root_can_be_emptied_and_never_goes_away(self) -> None:
        tree = tree_after(Put((), b"x"), Put(AB, b"y"))
        assert tree.execute(Delete(())) == Done(Properties(None, 3, 3, 0))

    def test_children_are_the_names_of_direct_children_in_order(self) -> None:
        tree = tree_after(Put(("s", "10"), None), Put(("s", "9"), None), Put(("s", "9", "deep"), None))
        assert tree.query(Children(("s",))) == Names(("10", "9"))
        assert tree.query(Children(("t",))) == NodeNotFound(("t",))

    @pytest.mark.parametrize("path", [("*",), ("a", "**"), ("a*", "b")])
    def test_patterns_are_refused_by_whatever_works_on_one_node_kh_5(self, path: Path) -> None:
        tree = tree_after(Put(A, b"x"))
        before = tree.state_hash
        commands: list[PlainCommand] = [
            Put(path, b""),
            Create(path, b""),
            Update(path, b""),
            CompareAndSwap(path, b"x", b""),
            Delete(path),
        ]
        assert [tree.execute(command) for command in commands] == [ManyNodesDenied(path)] * 5
        assert [tree.query(Get(path)), tree.query(Children(path))] == [ManyNodesDenied(path)] * 2
        assert tree.state_hash == before


class TestIncrement:
    def test_a_missing_node_counts_as_0_and_the_result_has_the_sum(self) -> None:
        tree = Tree()
        assert tree.execute(Increment(AB, 3)) == Done(Properties(b"\x03", 1, 1, 0))
        assert tree.execute(Increment(AB, 200)) == Done(Properties(b"\xcc\xcb", 2, 1, 0))
        assert tree.execute(Increment(AB, -204)) == Done(Properties(b"\xff", 3, 1, 0))

    def test_adding_nothing_changes_nothing_but_creates_the_node(self) -> None:
        tree = tree_after(Increment(A, 0), Increment(A, 0))
        assert found(tree, A) == Properties(b"\x00", 1, 1, 0)

    @pytest.mark.parametrize("payload", [None, b"", b"\xa11", b"\xc3", b"\xc0", b"\xcb?\xf0" + bytes(6), b"\x01\x01"])
    def test_what_is_no_whole_number_stays_as_it_is(self, payload: bytes | None) -> None:
        tree = tree_after(Put(A, payload))
        assert tree.execute(Increment(A, 1)) == MismatchingNode(A, Properties(payload, 1, 1, 0))
        assert found(tree, A).payload == payload

    def test_a_sum_that_msgpack_cannot_carry_is_refused(self) -> None:
        tree = tree_after(Increment(A, 2**63), Increment(A, 2**63 - 1))
        assert isinstance(tree.execute(Increment(A, 1)), InvalidCommand)
        assert found(tree, A).payload_version == 2

    def test_a_pattern_is_refused(self) -> None:
        assert Tree().execute(Increment(("*",), 1)) == ManyNodesDenied(("*",))


class TestPaths:
    @pytest.mark.parametrize("text", ["", "a", "a/b", "//", "/a/", "/a//b", "//a"])
    def test_what_is_no_path_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidPathError, match="is not a path"):
            parse_path(text)

    @pytest.mark.slow
    @given(st.lists(st.text(min_size=1).filter(lambda name: "/" not in name)).map(tuple))
    def test_a_path_survives_being_written_and_read(self, path: Path) -> None:
        assert parse_path(format_path(path)) == path


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, max_size=3).map(tuple)
PAYLOADS = st.sampled_from([b"1", b"2", None])
COMMANDS: st.SearchStrategy[PlainCommand] = st.one_of(
    st.builds(Put, PATHS, PAYLOADS),
    st.builds(Create, PATHS, PAYLOADS),
    st.builds(Update, PATHS, PAYLOADS),
    st.builds(CompareAndSwap, PATHS, st.sampled_from([b"1", b"2"]), PAYLOADS),
    st.builds(Delete, PATHS),
    st.builds(Increment, PATHS, st.integers(-3, 3)),
)


class PlainModel:
    """The tree as one dictionary from paths to payloads."""

    def __init__(self) -> None:
        self.payloads: dict[Path, bytes | None] = {(): None}

    def execute(self, command: PlainCommand) -> str:
        path = command.path
        exists = path in self.payloads
        payload: bytes | None
        match command:
            case Delete():
                for below in [known for known in self.payloads if known[: len(path)] == path]:
                    del self.payloads[below]
                self.payloads.setdefault((), None)
                return "Done"
            case Create() if exists:
                return "MismatchingNode"
            case Update() | CompareAndSwap() if not exists:
                return "NodeNotFound"
            case CompareAndSwap() if self.payloads[path] != command.expected:
                return "MismatchingNode"
            case Increment():
                before = self.payloads.get(path, b"\x00")
                if before is None:
                    return "MismatchingNode"
                payload = bytes([before[0] + command.by & 0xFF])  # small numbers are one byte in msgpack
            case _:
                assert not isinstance(command.payload, Procedure)
                payload = command.payload
        for depth in range(len(path)):
            self.payloads.setdefault(path[:depth], None)
        self.payloads[path] = payload
        return "Done"


def everything(tree: Tree) -> dict[Path, Properties]:
    seen: dict[Path, Properties] = {}
    pending: list[Path] = [()]
    while pending:
        path = pending.pop()
        seen[path] = found(tree, path)
        names = tree.query(Children(path))
        assert isinstance(names, Names)
        assert seen[path].child_list_length == len(names.names)
        pending += [(*path, name) for name in names.names]
    return seen


@pytest.mark.slow
@given(st.lists(COMMANDS, max_size=40))
def test_any_commands_do_what_they_do_to_a_plain_dictionary(commands: list[PlainCommand]) -> None:
    tree, model = Tree(), PlainModel()
    for command in commands:
        result: Result = tree.execute(command)
        assert type(result).__name__ == model.execute(command)
    assert {path: node.payload for path, node in everything(tree).items()} == model.payloads


@given(st.lists(COMMANDS, max_size=40))
def test_the_incremental_state_hash_is_the_hash_of_the_whole_tree(commands: list[PlainCommand]) -> None:
    tree = Tree()
    for command in commands:
        tree.execute(command)
        assert tree.state_hash == tree.recomputed_state_hash()


@pytest.mark.slow
@given(st.lists(COMMANDS, max_size=12), st.lists(COMMANDS, max_size=12))
def test_state_hashes_are_equal_exactly_for_equal_trees(some: list[PlainCommand], others: list[PlainCommand]) -> None:
    first, second = tree_after(*some), tree_after(*others)
    assert (first.state_hash == second.state_hash) == (everything(first) == everything(second))


def test_the_state_hash_does_not_depend_on_the_order_in_which_children_came() -> None:
    commands = [Put(("s", str(n)), b"x") for n in range(20)]
    assert tree_after(*commands).state_hash == tree_after(commands[0], *reversed(commands[1:])).state_hash


@given(st.lists(COMMANDS, max_size=30), st.lists(COMMANDS, max_size=10))
def test_a_tree_that_was_loaded_from_its_dump_goes_on_like_the_one_that_was_dumped(
    before: list[PlainCommand], after: list[PlainCommand]
) -> None:
    tree = tree_after(*before)
    again = Tree.load(tree.dump())
    assert again.dump() == tree.dump()
    assert again.state_hash == tree.state_hash == again.recomputed_state_hash()
    assert [again.execute(command) for command in after] == [tree.execute(command) for command in after]
    assert again.state_hash == tree.state_hash


@given(st.permutations([Put(("s", str(n)), b"x") for n in range(6)]))
def test_the_dump_does_not_depend_on_the_order_in_which_children_came(commands: list[PlainCommand]) -> None:
    assert tree_after(*commands).dump() == tree_after(*sorted(commands, key=lambda put: put.path)).dump()


# --- version 2: implicit parents (D14) ----------------------------------------------------------------------------


def test_d14_an_implicit_parent_goes_with_its_last_child_and_so_on_upwards() -> None:
    tree = Tree(version=2)
    tree.execute(Put(("a", "b", "c"), b"1"))
    tree.execute(Put(("a", "b", "d"), b"1"))
    root = tree.properties(())
    tree.execute(Delete(("a", "b", "c")))
    assert tree.properties(("a", "b")) is not None, "it has another child"
    assert tree.execute(Delete(("a", "b", "d"))) == Done(None)
    assert (tree.properties(("a", "b")), tree.properties(("a",))) == (None, None)
    assert root is not None
    assert tree.properties(()) == Properties(None, 1, root.child_list_version + 1, 0), "one change of its children"
    assert tree.state_hash == tree.recomputed_state_hash()


def test_d14_parents_that_a_command_named_or_that_have_a_payload_stay() -> None:
    tree = Tree(version=2)
    tree.execute(Put(("named",), None))
    tree.execute(Put(("named", "child"), b"1"))
    tree.execute(Delete(("named", "child")))
    assert tree.properties(("named",)) is not None
    tree.execute(Put(("full", "child"), b"1"))
    tree.execute(Put(("full",), b"2"))
    tree.execute(Delete(("full", "child")))
    assert tree.properties(("full",)) is not None, "it is implicit, and has a payload"
    assert tree.execute(Put(("full",), None)) == Done(None), "without it, it is not needed any more"
    assert tree.properties(("full",)) is None


def test_d14_in_version_1_parents_stay_and_those_that_stayed_are_explicit_ever_after() -> None:
    tree = Tree()
    tree.execute(Put(("a", "b"), b"1"))
    tree.version = 2
    tree.execute(Delete(("a", "b")))
    assert tree.properties(("a",)) is not None


class _Naive:
    """Version 2 by its rule alone: after each command every implicit node without children and payload is removed."""

    def __init__(self) -> None:
        self.nodes: dict[Path, bytes | None] = {(): None}
        self.implicit: set[Path] = set()

    def put(self, path: Path, payload: bytes | None) -> None:
        for end in range(1, len(path)):
            if path[:end] not in self.nodes:
                self.nodes[path[:end]] = None
                self.implicit.add(path[:end])
        self.nodes[path] = payload
        self.sweep()

    def delete(self, path: Path) -> None:
        for node in [node for node in self.nodes if node[: len(path)] == path and node != ()]:
            del self.nodes[node]
            self.implicit.discard(node)
        if not path:
            self.nodes[()] = None
        self.sweep()

    def sweep(self) -> None:
        while unneeded := [
            path
            for path in self.implicit
            if self.nodes[path] is None and not any(other[:-1] == path for other in self.nodes if other)
        ]:
            for path in unneeded:
                del self.nodes[path]
                self.implicit.discard(path)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "clear", "delete"]),
            st.lists(st.sampled_from("ab"), max_size=4).map(tuple),
        ),
        max_size=25,
    )
)
def test_d14_trees_are_what_the_rule_alone_makes_of_them_and_dumps_keep_it(
    commands: list[tuple[str, tuple[str, ...]]],
) -> None:
    tree, naive = Tree([("a",)], version=2), _Naive()
    for kind, path in commands:
        if kind == "delete":
            tree.execute(Delete(path))
            naive.delete(path)
        else:
            payload = b"x" if kind == "put" else None
            tree.execute(Put(path, payload))
            naive.put(path, payload)
        assert {path: properties.payload for path, properties in tree.contents()} == naive.nodes
        assert tree.state_hash == tree.recomputed_state_hash()
        tree = Tree.load(tree.dump(), [("a",)], version=2)
        assert tree.state_hash == tree.recomputed_state_hash()
