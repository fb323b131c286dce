"""What makes no sense gets one clear answer, and the store stays as it is; regular expressions are bounded."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.commands import decode_value
from splitbrain.cluster.errors import CorruptExportError, InvalidRequestError
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import (
    NEWEST_VERSION,
    PATTERNS_COME,
    Component,
    DeleteNodes,
    Export,
    IfAll,
    IfDataMatches,
    IfNameMatches,
    IfNot,
    InvalidCommand,
    KeepWhile,
    Pattern,
    Procedure,
    Put,
    PutNodes,
    Refused,
    RegisterTrigger,
    Transact,
    Tree,
    Value,
    encode_command,
    parse_pattern,
    transfer,
    triggers,
    writes,
)
from splitbrain.cluster.tree.datapattern import DataPatternError, decoded
from splitbrain.cluster.tree.regex import RegexError, compile_regex
from splitbrain.cluster.tree.transfer import Record, command_of, decode, encode, records


def some_tree() -> Tree:
    tree = Tree(version=PATTERNS_COME)
    tree.execute(PutNodes(parse_pattern("/:a/b"), b"\x01"))
    kept = (KeepWhile(parse_pattern("/:a"), IfNameMatches()),)
    tree.execute(PutNodes(parse_pattern("/kept"), b"\x02", keep_while=kept))
    return tree


def nested(depth: int) -> Component:
    condition: Component = IfNameMatches()
    for _ in range(depth):
        condition = IfNot(condition)
    return condition


DEEP = b"\x91" * 100_000 + b"\xc0"

BAD: list[Pattern] = [
    (IfNameMatches("a" * 1_000_000),),
    (IfNameMatches("(" * 100 + ")" * 100),),
    (IfNameMatches("(a{99}){99}"),),
    (IfNameMatches(r"(a)\1"),),
    (nested(100),),
    (IfAll(tuple(IfNameMatches() for _ in range(1_000))),),
    (IfDataMatches(DEEP),),
    (IfDataMatches(b"\xc1"),),
    (IfDataMatches(b"\xc0" + b"\x00" * 1_000_000),),
    ("a",) * 1_000,
    ("a" * 10_000,),
    ("a/b",),
]


@pytest.mark.parametrize("pattern", BAD, ids=range(len(BAD)))
def test_a_pattern_that_is_not_in_order_is_refused_and_changes_nothing(pattern: Pattern) -> None:
    tree = some_tree()
    before = tree.state_hash
    for command in (PutNodes(pattern, b"x", many=True), DeleteNodes(pattern, many=True)):
        result = tree.execute(command)
        assert isinstance(result, Refused)
        assert result.reason == "invalid_path"
        assert 0 < len(result.detail) < 1_000
    assert tree.state_hash == before


@pytest.mark.parametrize(
    "data",
    [
        msgspec.msgpack.encode(["put_nodes", [["if_there_is_rain", True]], None]),
        msgspec.msgpack.encode(["put_nodes", [["if_node_exists", "yes"]], None]),
        b"\x99" + b"\x93\xa6if_not" * 30_000,
        DEEP,
    ],
)
def test_a_command_with_an_unknown_condition_or_too_deep_is_no_command_and_changes_nothing(data: bytes) -> None:
    store = Store()
    store.apply(Entry(1, 1, "noop", msgspec.msgpack.encode([PATTERNS_COME])))
    before = store.state_hash
    assert isinstance(store.apply(Entry(2, 1, "command", data)), InvalidCommand)
    assert store.state_hash == before


@pytest.mark.parametrize("version", [1, 2])
def test_ra43_before_version_3_no_member_carries_out_a_command_with_patterns(version: int) -> None:
    tree = Tree(version=version)
    for command in (PutNodes(("a",), b"x"), Transact("f", 1, b"\xc0")):
        assert isinstance(tree.execute(command), InvalidCommand)
    assert tree.state_hash == Tree(version=version).state_hash


# --- regular expressions ------------------------------------------------------------------------------------------

LITERALS = st.sampled_from(["a", "b", "ab", ".", "[ab]", "[^a]", r"\.", "(a|b)", "(?:ab)", "(a|)", "(ab|b)"])
REPEATED = st.tuples(LITERALS, st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}"])).map("".join)
BODIES = st.lists(REPEATED, max_size=5).map("".join)
ALTERNATIVES = st.tuples(st.sampled_from(["", "^"]), BODIES, st.sampled_from(["", "$"])).map("".join)
PATTERNS = st.lists(ALTERNATIVES, min_size=1, max_size=3).map("|".join)


@given(PATTERNS, st.lists(st.text("ab.c", max_size=8), min_size=1, max_size=8))
def test_a_pattern_finds_what_pythons_re_finds(pattern: str, names: list[str]) -> None:
    compiled = compile_regex(pattern)
    for name in names:
        assert compiled.found_in(name) == (re.search(pattern, name) is not None), (pattern, name)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a+)+$", "(.*){5}x"])
def test_a_pattern_that_backtracks_for_hours_elsewhere_is_matched_in_time(pattern: str) -> None:
    assert not compile_regex(pattern).found_in("a" * 255 + "c")  # ends at all


@pytest.mark.parametrize(
    "pattern", ["(", ")", "a**", "*", "[a", "[b-a]", "a{2", "a{3,1}", "a^b", r"\q", "(?=a)", "a$b"]
)
def test_what_is_no_pattern_is_refused_with_its_place(pattern: str) -> None:
    with pytest.raises(RegexError, match="at character"):
        compile_regex(pattern)


# --- export and import --------------------------------------------------------------------------------------------


def test_kh_18_an_export_is_imported_as_it_was() -> None:
    tree, other = some_tree(), Tree(version=PATTERNS_COME)
    data = b"".join(encode(records(tree.state)))
    for record in decode(data):
        other.execute(command_of(record))
    assert list(records(other.state)) == list(records(tree.state))


def test_kh_18_an_import_that_is_cut_short_or_has_a_flipped_bit_is_refused() -> None:
    data = b"".join(encode(records(some_tree().state)))
    for end in range(len(data)):
        with pytest.raises(CorruptExportError):
            decode(data[:end])
    for at in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(CorruptExportError):
            decode(bytes(flipped))
    with pytest.raises(CorruptExportError):
        decode(data + b"x")


@pytest.mark.parametrize(
    "record",
    [
        Record(("b" * 5_000,), b"\x01"),
        Record(("b",) * 100, b"\x01"),
        Record(("b", "*"), b"\x01"),
        Record(("b",), b"\xc1"),
        Record(("b",), b"\x01\x01"),
        Record(("b",), DEEP),
        Record(("b",), Procedure("f", 1, b"")),
        Record(("b",), b"\x01", (KeepWhile((nested(100),), IfNameMatches()),)),
        Record(("b",), b"\x01", (KeepWhile(("a",), nested(100)),)),
        Record(("b",), b"\x01", (KeepWhile(("a",), IfNameMatches("(")),)),
    ],
    ids=range(10),
)
def test_kh_18_an_import_with_what_cannot_be_put_or_read_is_refused_before_the_first_node(record: Record) -> None:
    """Also if its checksums are right."""
    with pytest.raises(CorruptExportError, match=r"^Record 2 of the export \(byte 35\) makes no sense: .{1,300}$"):
        decode(b"".join(encode([Record(("ok",), b"\x01"), record])))


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x01\x01", b"\xa1\xff", DEEP], ids=range(5))
def test_a_stored_value_that_no_client_wrote_is_one_clear_error(payload: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        decode_value(payload)


def test_kh_18_paths_count_towards_the_limit_of_an_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the answer could be many times larger than a node sends, and is made in vain."""
    monkeypatch.setattr(transfer, "MAX_EXPORT_BYTES", 10_000)
    tree = Tree(version=NEWEST_VERSION)
    for number in range(40):
        tree.execute(Put((f"{number}" + "x" * 250, "y" * 250), b"1"))
    found = tree.query(Export())
    assert isinstance(found, Refused)
    assert (found.reason, found.detail[:30]) == ("too_many_nodes", "an export has at most 10,000 b")
    assert isinstance(tree.query(Export((f"{0}" + "x" * 250,))), Value)


def test_encoded_commands_are_what_the_log_has() -> None:
    command = PutNodes(parse_pattern("/:a/*"), b"x", many=True)
    assert msgspec.msgpack.decode(encode_command(command))[0] == "put_nodes"


@pytest.mark.parametrize(
    "command", [PutNodes(parse_pattern("/many/*"), b"x", many=True), DeleteNodes(parse_pattern("/many/*"), many=True)]
)
def test_a_command_that_looks_at_too_many_nodes_is_refused_and_changes_nothing(
    command: PutNodes | DeleteNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = some_tree()
    for number in range(20):
        tree.execute(PutNodes(("many", str(number)), b"\x01"))
    before = tree.state_hash
    monkeypatch.setattr(writes, "MAX_VISITED", 10)
    result = tree.execute(command)
    assert isinstance(result, Refused)
    assert result.reason == "too_many_nodes"
    assert tree.state_hash == before == tree.recomputed_state_hash()


def test_a_command_that_triggers_more_than_may_wait_is_refused_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = some_tree()
    tree.execute(RegisterTrigger("t", parse_pattern("/many/*"), ("p",), ("create",)))
    monkeypatch.setattr(triggers, "MAX_PENDING", 1)
    tree.execute(PutNodes(("many", "1"), b"\x01"))
    before = tree.state_hash
    result = tree.execute(PutNodes(("many", "2"), b"\x01"))
    assert isinstance(result, Refused)
    assert result.reason == "limit_reached"
    assert tree.state_hash == before == tree.recomputed_state_hash()


def nested_key(depth: int) -> bytes:
    """A dict in msgpack of which the key is a list of a list and so on."""
    return b"\x81" + b"\x91" * depth + b"\x01\x01"


def below_other_calls(calls: int, data: bytes) -> bool:
    if calls:
        return below_other_calls(calls - 1, data)
    try:
        decoded(data)
    except DataPatternError:
        return False
    return True


@pytest.mark.parametrize("depth", [20, 30, 31, 33, 100, 700])
def test_a_key_counts_for_how_deep_a_value_is_nested_however_deep_the_stack_is(depth: int) -> None:
    assert [below_other_calls(calls, nested_key(depth)) for calls in (0, 400)] == [depth < 31] * 2
