"""Jepsen's EDN: what of it becomes what, in a hurry and slowly; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.results.arrow import from_table, history_hash, to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.formats import edn_text, read_history, read_table
from splitbrain.results.formats.edn_text import EdnError
from splitbrain.results.formats.export import pieces
from splitbrain.results.formats.rows import IGNORED_KEY
from splitbrain.results.history import HARNESS, NEMESIS, Mop, Op

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


def written(folder: Path, text: str) -> Path:
    path = folder / "history.edn"
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str, **options: Any) -> list[Op]:
    return read_history(written(folder, text), "edn", **options)


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(JSON)
def test_what_json_can_carry_survives_edn(value: Any) -> None:
    assert edn_text.parse(edn_text.written(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("-12", -12),
        ("+3", 3),
        ("0x1F", 31),
        ("12N", 12),
        ("340282366920938463463374607431768211456", 2**128),
        ("1.5", 1.5),
        ("1.5M", 1.5),
        ("1.10M", "1.10"),
        ("1e400", float("inf")),
        ("1e400M", "1e400"),
        ("-2/3", "-2/3"),
        ("##-Inf", float("-inf")),
        ("99999999999999999999999", 10**23 - 1),
        ("-0x1ffffffffffffffffN", -(2**65 - 1)),
        ("9" * 4300, 10**4300 - 1),
        (":timed-out", "timed-out"),
        ("::here", "here"),
        (":jepsen.x/y", "jepsen.x/y"),
        ("can't", "can't"),
        (r"\a", "a"),
        (r"\newline", "\n"),
        (r"\u00e9", "é"),
        (r"\;", ";"),
        (r'"a\tb\"c\\d\u00e9\101"', 'a\tb"c\\dé' + "A"),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ("(1, 2 ,3)", [1, 2, 3]),
        ("#{3 1 2 :b :a 10}", [1, 2, 3, 10, "a", "b"]),
        ("{1 :a, :b 2, nil 3, [1 2] 4}", {"1": "a", "b": 2, "null": 3, "[1,2]": 4}),
        ("[1 #_2 #_ #_ 3 4 5] ; comment\n", [1, 5]),
        ('#inst "2020-01-01"', "2020-01-01"),
        ("#jepsen.history.Op{:index 3}", {"index": 3}),
        ("#my/tag [1]", {"#my/tag": [1]}),
        ("#:node{:a 1 :b/c 2}", {"node/a": 1, "b/c": 2}),
        ('#object[java.lang.Object 0x4bd07fe5 "x"]', {"#object": ["java.lang.Object", 0x4BD07FE5, "x"]}),
        ("[[:append :x 1] [:r 7 nil]]", [["append", "x", 1], ["r", 7, None]]),
    ],
)
def test_a_form_becomes_a_value(text: str, value: Any) -> None:
    assert edn_text.parse(text) == value


@pytest.mark.parametrize(
    "text", ["[1 2", "[1 2)", "{:a}", "{1 2 :b}", '"abc', "}", "1 2", "", ":", "12x", '"\\q"', "#_", '{1 2, "1" 3}']
)
def test_what_is_no_form_is_refused(text: str) -> None:
    with pytest.raises(EdnError):
        edn_text.parse(text)
    with pytest.raises(EdnError):
        edn_text.json_of(text)


@pytest.mark.slow
@given(JSON)
def test_the_short_way_to_json_and_the_parser_agree(value: Any) -> None:
    text = edn_text.written(value)
    assert edn_text.json_of(text) == (None if value is None else edn_text.canonical_json(edn_text.parse(text)))


@given(st.text(alphabet="[]() ,:abnil-0123", max_size=12))
def test_the_short_way_to_json_accepts_only_what_the_parser_does(text: str) -> None:
    try:
        value = edn_text.parse(text)
    except EdnError:
        with pytest.raises(EdnError):
            edn_text.json_of(text)
    else:
        assert edn_text.json_of(text) == (None if value is None else edn_text.canonical_json(value))


# --- histories --------------------------------------------------------------------------------------------------------

OPS = [
    "{:process 0, :type :invoke, :f :write, :value 3}",
    "{:type :invoke, :f :read, :process 1, :value nil, :time 5}",
    "{:process :nemesis, :type :info, :f :start, :value {:n1 #{:n2 :n3}}}",
    '{:process 0, :type :ok, :f :write, :value 3, :node "n1", :error [:a "b"]}',
    "{:type :info, :f :read, :process 1, :error :timed-out, :term 4}",
]

FOUND = [
    Op(index=0, process=0, type="invoke", f="write", value=3),
    Op(index=1, time=5, process=1, type="invoke", f="read"),
    Op(index=2, process=NEMESIS, type="info", f="start", value={"n1": ["n2", "n3"]}),
    Op(index=3, process=0, type="ok", f="write", value=3, node="n1", error='["a","b"]'),
    Op(index=4, process=1, type="info", f="read", term=4, error="timed-out"),
]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(OPS),
        "\n".join(OPS) + "\n",
        "\r\n".join(OPS) + "\r\n",
        "\ufeff; a comment\n\n[" + "\n ; why\n ".join(OPS) + "]\n",
        "(" + ",\n".join(OPS) + ")",
        "[" + " ".join(OPS) + "]",
        " ".join(OPS),
        "\n".join(OPS).replace(", ", ",\n  "),
        "\n".join(f"#jepsen.history.Op{op}" for op in OPS),
        "\n".join(f"{op} ; so" for op in OPS),
        "#_{:not [an op]}\n" + "\n#_\n{:nor this}\n".join(OPS),
    ],
)
def test_ops_are_the_same_however_they_are_laid_out(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == FOUND
    assert read_history(written(tmp_path, text)) == FOUND


def test_a_failed_cas_did_not_happen(tmp_path: Path) -> None:
    ops = read(
        tmp_path, "{:process 0 :type :invoke :f :cas :value [1 2]}\n{:process 0 :type :fail :f :cas :value [1 2]}"
    )
    assert [op.type for op in ops] == ["invoke", "fail"]


def test_other_fields_are_noted(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "{:process 0, :type :invoke, :f :read, :link [1], :clock {:n1 2}}"))
    assert table.schema.metadata[IGNORED_KEY] == b"clock link"


def test_the_harness_has_a_name_as_a_process(tmp_path: Path) -> None:
    assert read(tmp_path, "{:process :harness, :type :info, :f :healed}")[0].process == HARNESS


def test_ops_come_in_the_order_of_their_indexes(tmp_path: Path) -> None:
    text = "{:index 7 :process 0 :type :ok :f :read :value 1}\n{:index 2 :process 0 :type :invoke :f :read}"
    assert [(op.index, op.type) for op in read(tmp_path, text)] == [(0, "invoke"), (1, "ok")]


def test_a_process_that_goes_on_crashed_before(tmp_path: Path) -> None:
    text = "{:process 0 :type :invoke :f :write :value 1 :time 3}\n{:process 0 :type :invoke :f :read :time 9}"
    assert [(op.type, op.f, op.time) for op in read(tmp_path, text)] == [
        ("invoke", "write", 3),
        ("info", "write", 9),
        ("invoke", "read", 9),
    ]


def test_a_process_may_act_again_after_info(tmp_path: Path) -> None:
    text = (
        "{:process 0 :type :invoke :f :write :value 1}\n{:process 0 :type :info :f :write :value 1}\n"
        "{:process 0 :type :invoke :f :read}"
    )
    assert [op.type for op in read(tmp_path, text)] == ["invoke", "info", "invoke"]


def test_ops_without_processes_get_one_each_if_they_alternate(tmp_path: Path) -> None:
    """The example of Elle's paper: no :process, no :f."""
    text = "{:index 0 :type :invoke :value [[:append 1 2]]}\n{:index 1 :type :ok :value [[:append 1 2]]}\n"
    ops = read(tmp_path, text + text.replace("x 0", "x 2").replace("x 1", "x 3"))
    assert [(op.process, op.f) for op in ops] == [(0, "txn"), (0, "txn"), (1, "txn"), (1, "txn")]
    with pytest.raises(HistoryFormatError, match=r":1: the op names no process\. Only where no op does"):
        read(tmp_path, text.splitlines()[0] + "\n" + text)


def test_a_transaction_has_its_micro_operations_as_columns(tmp_path: Path) -> None:
    table = read_table(
        written(
            tmp_path,
            "{:process 0 :type :invoke :f :txn :value [[:append :x 1] [:r :y nil]]}\n"
            "{:process 0 :type :ok :f :txn :value [[:append :x 1] [:r :y [3 4]]]}",
        )
    )
    assert from_table(table)[1].mops == (Mop("append", "x", 1), Mop("r", "y", values=(3, 4)))
    assert table.column("value").to_pylist()[1] == '[["append","x",1],["r","y",[3,4]]]'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{:process 0, :type :invoke, :f :read}\n[1 2]", ":2: expected an op as a map, found"),
        (
            "{:process 0, :type :begin, :f :read}",
            ":1: expected an op's type as invoke, ok, fail or info, found 'begin'",
        ),
        ("\n{:process 0, :f :read}", ":2: expected an op's type .* found none"),
        ("{:process 0, :type :invoke, :value 3}", ":1: the op has no function"),
        ("{:process :client, :type :invoke, :f :read}", ":1: :process .*client.* is not a whole number or :nemesis"),
        ("{:process -7, :type :invoke, :f :read}", ":1: expected a process from 0"),
        ("{:process 0, :type :invoke, :f :read, :time 1.5}", ":1: :time 1.5 is not a whole number"),
        ("{:process 0, :type :ok, :f :read}", ":1: process 0 completes 'read', which it did not invoke"),
        (
            "{:process 0, :type :invoke, :f :read}\n{:process 0, :type :ok, :f :write}",
            ":2: process 0 completes 'write', but its open op is 'read'",
        ),
        ("{:process 0, :type :invoke, :f :write, :value 12x}", ":1: not EDN: expected a number, found '12x'"),
        ("{:process 0x, :type :invoke, :f :read}", ":1: not EDN: expected a number, found '0x'"),
        ("{:process 0, :type :invoke, :f :read, :time 1.}.5", ":1: "),
        ("{:process true, :type :invoke, :f :read}", ":1: :process true is not a whole number"),
        ("{:process 007, :type :invoke, :f :read}", ":1: not EDN: expected a number, found '007'"),
        ("{:process 0, :type :invoke, :f :write, :value \u0663}\n{:process \u0663, :type :invoke, :f :read}", ":2: "),
        ("{:process 0, :type :invoke, :f :read, :extra 1x}", ":1: not EDN: expected a number, found '1x'"),
        ("{:process 0, :type :invoke, :f :write, :value [1 ##NaN]}", ":1: :value .* is not a finite number"),
        ("{:process 0, :type :invoke,\n :f :write, :value 12x}", ":2: not EDN: expected a number, found '12x'"),
        ("[{:process 0, :type :invoke, :f :read}\n", r":1: not EDN: the text ends, and '\[' is not closed"),
        ("[{:process 0, :type :invoke, :f :read}]\n{}", ":2: not EDN: expected the end"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(HistoryFormatError, match=words):
        read(tmp_path, text)


# --- independent keys -------------------------------------------------------------------------------------------------

KEYED = """{:process 0, :type :invoke, :f :cas, :value [7 [1 2]]}
{:process 1, :type :invoke, :f :read, :value [8 nil]}
{:process 0, :type :fail, :f :cas, :value :timed-out}
{:process 1, :type :ok, :f :read, :value [8 3]}
{:process 2, :type :invoke, :f :write, :value [8 [4 4]]}
{:process :nemesis, :type :info, :f :start, :value [1 2]}
{:process 2, :type :info, :f :write}
"""


def test_tuples_become_keys_where_every_value_is_one(tmp_path: Path) -> None:
    assert [(op.key, op.value) for op in read(tmp_path, KEYED)] == [
        ("7", [1, 2]),
        ("8", None),
        ("7", "timed-out"),
        ("8", 3),
        ("8", [4, 4]),
        (None, [1, 2]),
        ("8", None),
    ]


def test_tuples_stay_where_one_says_so(tmp_path: Path) -> None:
    assert {op.key for op in read(tmp_path, KEYED, independent="no")} == {None}


@pytest.mark.parametrize(
    "text",
    [
        "{:process 0, :type :invoke, :f :cas, :value [1 2]}",
        "{:process 0, :type :invoke, :f :cas, :value [1 nil]}",
        "{:process 0, :type :invoke, :f :cas, :value [1 2]}\n{:process 1, :type :invoke, :f :read, :value nil}",
        "{:process 0, :type :invoke, :f :txn, :value [[:r :x nil] [:w :y 2]]}",
        "{:process 0, :type :invoke, :f :add, :value [1 2]}\n{:process 0, :type :ok, :f :add, :value 3}",
    ],
)
def test_pairs_that_are_no_tuples_stay(tmp_path: Path, text: str) -> None:
    assert {op.key for op in read(tmp_path, text)} == {None}


def test_a_cas_of_a_pair_is_a_tuple_if_one_says_so(tmp_path: Path) -> None:
    text = "{:process 0, :type :invoke, :f :cas, :value [1 2]}"
    assert [(op.key, op.value) for op in read(tmp_path, text, independent="yes")] == [("1", 2)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{:process 0, :type :invoke, :f :write, :value 3}", r":1: expected \[key value\], as of independent keys"),
        (
            "{:process 0, :type :invoke, :f :read, :value [1 nil]}\n{:process 0, :type :ok, :f :read, :value [2 3]}",
            ":2: process 0 completes read of key '2', but its open op is of key '1'",
        ),
    ],
)
def test_tuples_that_are_none_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(HistoryFormatError, match=words):
        read(tmp_path, text, independent="yes")


def test_an_answer_without_its_key_is_refused_where_every_invocation_has_one(tmp_path: Path) -> None:
    """Read as one register of pairs, the answer would be called stale."""
    text = KEYED.replace(":value [8 3]", ":value 3")
    with pytest.raises(HistoryFormatError, match=r":4: expected \[key value\], as of independent keys, found 3"):
        read(tmp_path, text)
    assert {op.key for op in read(tmp_path, text, independent="no")} == {None}


def test_formats_that_name_their_keys_refuse_to_look_for_others(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("c 0 0 1 1 0\n")
    with pytest.raises(UsageError, match="compact has keys apart from values"):
        read_table(tmp_path / "x", independent="yes")


def test_a_layout_more_changes_nothing(tmp_path: Path) -> None:
    """However many layouts there are, ops read as the parser reads them."""
    lines = [f"{{:process {n}, :type :invoke, :f :write, :value {n}, :x{n} 1}}" for n in range(100)]
    for count in (60, 100):
        in_lines = history_hash(read_table(written(tmp_path, "\n".join(lines[:count]))))
        assert in_lines == history_hash(read_table(written(tmp_path, " ".join(lines[:count]))))


@pytest.mark.parametrize("text", ["1" * 4301, "0x1" + "0" * 3600, "-" + "1" * 4301 + "N"])
def test_a_number_longer_than_python_prints_is_refused(text: str) -> None:
    with pytest.raises(EdnError, match="a number has more than 4,300 digits"):
        edn_text.parse(text)


def test_a_whole_number_is_the_same_in_every_format_and_equal_to_no_text(tmp_path: Path) -> None:
    """A read of the text of a number that was written is a violation, however large the number is."""
    lines = [
        {"process": 0, "type": "invoke", "f": "write", "value": 2**64},
        {"process": 0, "type": "ok", "f": "write", "value": 2**64},
        {"process": 0, "type": "invoke", "f": "read", "value": None},
        {"process": 0, "type": "ok", "f": "read", "value": str(2**64)},
    ]
    (tmp_path / "h.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = read_history(tmp_path / "h.jsonl", "jsonl")
    (tmp_path / "h.edn").write_text("".join(text for _, text in pieces(to_table(told), "edn")))
    assert [op.value for op in read_history(tmp_path / "h.edn", "edn")] == [2**64, 2**64, None, str(2**64)]
