"""What is exported reads back: the same history, the same verdict; and says to Jepsen what it has to."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.engine import judge
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.arrow import from_table, history_hash, to_table
from splitbrain.results.errors import UnknownNameError
from splitbrain.results.formats import read_table
from splitbrain.results.formats.export import PIECE_ROWS, WRITERS, pieces
from splitbrain.results.history import HARNESS, NEMESIS, Mop, Op, OpType

FOLDER = os.environ.get("SPLITBRAIN_CORPORA")

VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.lists(st.integers(0, 3), min_size=2, max_size=2),
    st.tuples(st.sampled_from(["a", "1"]), st.lists(st.integers(0, 3), max_size=2)).map(list),
    st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=2),
)
KINDS: st.SearchStrategy[OpType] = st.sampled_from(("invoke", "info", "ok"))
ENDS: st.SearchStrategy[OpType] = st.sampled_from(("ok", "fail", "info"))
FUNCTIONS = st.sampled_from(["read", "write", "cas", "a b", "naïve", ":x"])
NOTES: st.SearchStrategy[tuple[str, Any]] = st.sampled_from(
    [
        ("healed", None),
        ("phase", {"phase": "heal"}),
        ("stall", {"gap_ms": 250}),
        ("crash", {"node": "naïve", "log": "a\n:b"}),
        ("recovered", {"seconds": 1.5}),
    ]
)


@st.composite
def histories(draw: st.DrawFn) -> pa.Table:
    """Histories that hold together and say everything that a history can, but for micro-operations."""
    keys = st.sampled_from(draw(st.sampled_from([[None], ["k", "1"], [None, "k"]])))
    functions = draw(st.sampled_from([FUNCTIONS, st.just("cas")]))
    ops: list[Op] = []
    under_way: dict[int, Op] = {}
    for _ in range(draw(st.integers(0, 12))):
        process = draw(st.integers(HARNESS, 3))
        about: dict[str, Any] = {
            "time": draw(st.integers(-1, 2**40)),
            "node": draw(st.none() | st.text(max_size=3)),
            "error": draw(st.none() | st.text(max_size=5)),
            "term": draw(st.none() | st.integers(0, 9)),
        }
        asked = under_way.pop(process, None)
        if process < 0:
            kind = draw(KINDS)
            f, value = draw(NOTES if process == HARNESS else st.tuples(FUNCTIONS, VALUES))
            ops.append(Op(process=process, type=kind, f=f, key=draw(keys), value=value, **about))
        elif asked is None:
            under_way[process] = Op(
                process=process,
                type="invoke",
                f=draw(functions),
                key=draw(keys),
                value=draw(VALUES),
                due=draw(st.none() | st.integers(0, 2**40)),
                **about,
            )
            ops.append(under_way[process])
        else:
            kind = draw(ENDS)
            ops.append(Op(process=process, type=kind, f=asked.f, key=asked.key, value=draw(VALUES), **about))
    return to_table([_numbered(op, index) for index, op in enumerate(ops)])


def _numbered(op: Op, index: int) -> Op:
    return msgspec.structs.replace(op, index=index)


def text_of(table: pa.Table, name: str) -> str:
    return "".join(text for _, text in pieces(table, name))


def back(text: str, name: str) -> pa.Table:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history"
        path.write_text(text, encoding="utf-8")
        return read_table(path, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WRITERS))
@settings(max_examples=60)
@given(table=histories())
def test_what_is_exported_reads_back_as_the_same_history(name: str, table: pa.Table) -> None:
    assert history_hash(back(text_of(table, name), name)) == history_hash(table)


@pytest.mark.slow
@settings(max_examples=25)
@given(table=histories())
def test_edn_of_one_line_reads_back_as_well(table: pa.Table) -> None:
    """The parser understands what the patterns do."""
    text = text_of(table, "edn").replace("}\n", "} ")
    assert history_hash(back(f"[{text}]", "edn")) == history_hash(table)


def test_json_lines_carry_micro_operations() -> None:
    mops = (Mop(f="append", key="x", value=1), Mop(f="r", key="y", values=(1, 2)))
    table = to_table([Op(index=0, process=0, type="invoke", f="txn", mops=mops)])
    assert history_hash(back(text_of(table, "jsonl"), "jsonl")) == history_hash(table)


def test_transactions_are_what_elle_reads() -> None:
    mops = (Mop(f="append", key="x", value=1), Mop(f="r", key="y", values=(1, 2)), Mop(f="r", key="z"))
    table = to_table([Op(index=0, process=0, type="invoke", f="txn", mops=mops)])
    text = text_of(table, "edn")
    assert ':value [[:append "x" 1] [:r "y" [1 2]] [:r "z" nil]]' in text
    assert back(text, "edn").column("mops").to_pylist() == table.column("mops").to_pylist()


CAS_ANSWER = ", :splitbrain/type :ok, :splitbrain/value false}"
NEMESIS_INVOKES = ", :splitbrain/type :invoke}"


def test_ops_are_what_jepsen_and_knossos_read() -> None:
    write = Op(index=0, time=5, process=0, type="invoke", f="write", key="k", value=3)
    cas = Op(index=2, time=7, process=0, type="invoke", f="cas", key="k", value=[1, 2])
    table = to_table(
        [
            write,
            Op(index=1, time=6, process=0, type="ok", f="write", key="k"),
            cas,
            Op(index=3, time=8, process=0, type="ok", f="cas", key="k", value=False),
            Op(index=4, time=9, process=NEMESIS, type="invoke", f="partition", value={"n1": ["n2"]}),
        ]
    )
    assert text_of(table, "edn").splitlines() == [
        '{:index 0, :time 5, :type :invoke, :process 0, :f :write, :value ["k" 3]}',
        '{:index 1, :time 6, :type :ok, :process 0, :f :write, :value ["k" 3], :splitbrain/value nil}',
        '{:index 2, :time 7, :type :invoke, :process 0, :f :cas, :value ["k" [1 2]]}',
        '{:index 3, :time 8, :type :fail, :process 0, :f :cas, :value ["k" [1 2]]' + CAS_ANSWER,
        '{:index 4, :time 9, :type :info, :process :nemesis, :f :partition, :value {:n1 ["n2"]}' + NEMESIS_INVOKES,
    ]


def test_a_long_history_is_written_in_pieces() -> None:
    """A completion finds its invocation across pieces."""
    ops = [Op(index=0, process=0, type="invoke", f="write", value=1)]
    ops += [Op(index=n, process=NEMESIS, type="info", f="tick") for n in range(1, PIECE_ROWS)]
    ops += [Op(index=PIECE_ROWS, process=0, type="ok", f="write")]
    table = to_table(ops)
    written = list(pieces(table, "edn"))
    assert [count for count, _ in written] == [PIECE_ROWS, PIECE_ROWS + 1]
    assert ":type :ok, :process 0, :f :write, :value 1," in written[1][1]
    assert history_hash(back("".join(text for _, text in written), "edn")) == history_hash(table)


def test_a_format_that_is_not_written_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="there is no format 'compact' to export to"):
        pieces(to_table([]), "compact")


def test_functions_of_a_transaction_are_keywords_wherever_it_has_them() -> None:
    value = [["r", "x", None], ["w", "k", "r"]]
    table = to_table([Op(index=0, time=0, process=0, type="invoke", f="txn", value=value)])
    assert ':value [[:r "x" nil] [:w "k" "r"]]' in text_of(table, "edn")
    assert from_table(back(text_of(table, "edn"), "edn"))[0].value == value


# --- published histories ----------------------------------------------------------------------------------------------

MODELS = {"porcupine-etcd": "cas-register", "porcupine-kv": "kv", "knossos": "cas-register", "elle-cli": "cas-register"}


def published(source: str) -> list[tuple[Path, bool]]:
    """The histories of a source that are about linearizability, and whether they are linearizable."""
    if FOLDER is None:
        return []
    folder = Path(FOLDER) / source
    entries: list[dict[str, Any]] = json.loads((folder / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    if source == "elle-cli":
        entries = [entry for entry in entries if entry["model"] == "cas-register"]
    return [(folder / entry["file"], entry["expected"]) for entry in entries]


@pytest.mark.skipif(FOLDER is None, reason="SPLITBRAIN_CORPORA is not set: no published histories here")
@pytest.mark.slow
@pytest.mark.parametrize("source", MODELS)
def test_published_histories_read_export_and_read_back_with_their_verdicts(source: str) -> None:
    assert published(source)
    spec = CheckerSpec("linearizable", {"model": MODELS[source], "witness_time_s": 0})
    for path, expected in published(source):
        table = read_table(path)
        again = back(text_of(table, "jsonl"), "jsonl")
        assert history_hash(again) == history_hash(table), path
        again = back(text_of(table, "edn"), "edn")
        assert history_hash(again) == history_hash(table), path
        [verdict] = judge(again, [spec])
        assert verdict.valid == ("true" if expected else "false"), path
