"""Keys become texts, and stay apart: in names, in each format of histories, and in the checkers of transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats import read_table
from splitbrain.results.keys import key_names

ALIKE = [1, "1", True, "true", [1, 2], "[1,2]", 1.0, "1.0", '"1"']
"""Keys, each of which another one could be taken for."""


def table_of_text(folder: Path, text: str, **options: Any) -> pa.Table:
    (folder / "history").write_text(text)
    return read_table(folder / "history", **options)


def keys_of(table: pa.Table) -> list[str | None]:
    return table.column("key").to_pylist()


def judged(table: pa.Table, checker: str, model: str) -> Verdict:
    [verdict] = engine.judge(table, [CheckerSpec(checker, {"consistency_models": [model]})])
    assert "crashes" not in verdict.evidence, verdict.evidence["crashes"]
    return verdict


def test_different_keys_have_different_names() -> None:
    assert len(set(key_names(ALIKE))) == len(ALIKE)
    assert key_names(ALIKE)[:4] == ["1", '"1"', "true", '"true"']
    assert key_names([1, "1", 1]) == ["1", '"1"', "1"]


def test_a_string_is_bare_where_nothing_reads_like_it() -> None:
    assert key_names(["1", "x", '"q"']) == ["1", "x", '"q"']
    assert key_names(["x", 1]) == ["x", "1"]


PAIRS = [("1", '"1"'), ("true", '"true"'), ("[1 2]", '"[1,2]"'), ("nil", '"null"')]


@pytest.mark.parametrize("checker", ["list-append", "rw-register"])
@pytest.mark.parametrize("names", PAIRS, ids=lambda names: names[0])
@pytest.mark.parametrize("suffix", [".edn", ".json"])
def test_transactions_on_keys_that_read_alike_are_on_two_keys(
    tmp_path: Path, checker: str, names: tuple[str, str], suffix: str
) -> None:
    """Serializable: each key has one write, and the last transaction read both; as one key, two wrote one value."""
    one, other = names
    does = "append" if checker == "list-append" else "w"
    read = "[1]" if checker == "list-append" else "1"
    values = [
        f"[[:{does} {one} 1]]",
        f"[[:{does} {other} 1] [:{does} {other} 2]]",
        f"[[:r {one} {read}] [:r {other} {'[1 2]' if checker == 'list-append' else '2'}]]",
    ]
    text = "\n".join(
        f"{{:process {process}, :type :{kind}, :f :txn, :value {value}}}"
        for process, value in enumerate(values)
        for kind in ("invoke", "ok")
    )
    if suffix == ".json":
        text = as_json(text)
    found = judged(table_of_text(tmp_path, text), checker, "strict-serializable")
    assert found.valid == "true", found.sentence
    assert found.figures["keys"] == 2
    assert "repeated_writes" not in found.figures or not found.figures["repeated_writes"]


def as_json(edn: str) -> str:
    """The same history as an array of JSON."""
    words = {"{:process": '{"process":', ", :type :": ',"type":"', ", :f :txn, :value ": '","f":"txn","value":'}
    for one, other in words.items():
        edn = edn.replace(one, other)
    for function in ("append", "w", "r"):
        edn = edn.replace(f"[:{function} ", f'["{function}" ')
    lines = (line.replace("nil", "null").replace(" ", ",").replace('":,', '":') for line in edn.splitlines())
    return "[" + ",\n".join(lines) + "]"


def test_a_violation_on_one_of_two_keys_that_read_alike_has_a_verified_witness_that_names_it(tmp_path: Path) -> None:
    values = ['[[:append 1 1] [:append "1" 1]]', '[[:r 1 [1]] [:r "1" []]]', '[[:r "1" [1]]]']
    text = "\n".join(
        f"{{:process {process}, :type :{kind}, :f :txn, :value {value}}}"
        for process, value in enumerate(values)
        for kind in ("invoke", "ok")
    )
    found = judged(table_of_text(tmp_path, text), "list-append", "serializable")
    assert found.valid == "false"
    assert 'appended 1 to "1" after T' in found.sentence


def test_keys_of_ops_are_told_apart_in_each_format(tmp_path: Path) -> None:
    edn = '{:process 0, :type :invoke, :f :read, :key 1}\n{:process 1, :type :invoke, :f :read, :key "1"}'
    assert keys_of(table_of_text(tmp_path, edn)) == ["1", '"1"']
    lines = '{"process":0,"type":"invoke","f":"read","key":1}\n{"process":1,"type":"invoke","f":"read","key":"1"}'
    assert keys_of(table_of_text(tmp_path, lines)) == ["1", '"1"']
    tuples = (
        '{:process 0, :type :invoke, :f :read, :value [1 nil]}\n{:process 1, :type :invoke, :f :write, :value ["1" 2]}'
    )
    assert keys_of(table_of_text(tmp_path, tuples, independent="yes")) == ["1", '"1"']


def test_registers_of_keys_that_read_alike_are_two_registers(tmp_path: Path) -> None:
    ops = [
        ("write", "[1 5]", "[1 5]"),
        ("write", '["1" 6]', '["1" 6]'),
        ("read", "[1 nil]", "[1 5]"),
        ("read", '["1" nil]', '["1" 6]'),
    ]
    text = "\n".join(
        f"{{:process {process}, :type :{kind}, :f :{f}, :value {value}}}"
        for process, (f, asked, answered) in enumerate(ops)
        for kind, value in (("invoke", asked), ("ok", answered))
    )
    table = table_of_text(tmp_path, text)
    [verdict] = engine.judge(table, [CheckerSpec("linearizable", {"model": "register"})])
    assert verdict.valid == "true", verdict.sentence


def test_objects_that_a_predicate_read_could_not_tell_apart_are_refused(tmp_path: Path) -> None:
    text = (
        '{:process 0, :type :invoke, :f :txn, :value [[:w 1 1] [:w "1" 2]]}\n'
        '{:process 0, :type :ok, :f :txn, :value [[:w 1 1] [:w "1" 2]]}'
    )
    with pytest.raises(HistoryFormatError, match="keys that differ as text"):
        engine.judge(table_of_text(tmp_path, text), [CheckerSpec("closed-predicate", {})])


def test_values_that_python_takes_for_equal_are_told_apart(tmp_path: Path) -> None:
    """x was written as 1 and read as true: no transaction wrote that. The other register shows that reads are good."""
    values = ["[[:w :x 1] [:w :y 2]]", "[[:r :x true] [:r :y 2] [:w :y 3]]", "[[:r :x 1]]"]
    text = "\n".join(
        f"{{:process {process}, :type :{kind}, :f :txn, :value {value}}}"
        for process, value in enumerate(values)
        for kind in ("invoke", "ok")
    )
    found = judged(table_of_text(tmp_path, text), "rw-register", "serializable")
    assert found.valid == "false"
    assert found.anomalies[0] == "garbage-read"
