"""Readers of other tools' histories: what they read, and what they refuse."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from splitbrain.results.arrow import to_table, write_parquet
from splitbrain.results.errors import HistoryFormatError, UnknownNameError, UsageError
from splitbrain.results.formats import read_history
from splitbrain.results.history import Op, pairs

LOG = """INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 1\t:invoke\t:write\t3
INFO  jepsen.core - Run complete
INFO  jepsen.util - :nemesis\t:info\t:start\tnil
INFO  jepsen.util - 0\t:ok\t:read\tnil
INFO  jepsen.util - 2   :invoke :cas    [3 4]
INFO  jepsen.util - 2   :fail   :cas    [3 4]
INFO  jepsen.util - 1\t:info\t:write\t:timed-out
INFO  jepsen.util - 3\t:invoke\t:read\tnil
INFO  jepsen.util - 3\t:fail\t:read\t:timed-out
INFO  jepsen.util - 2\t:invoke\t:cas\t[3 4]
INFO  jepsen.util - 2\t:ok\t:cas\t[3 4]
INFO  jepsen.util - 4\t:invoke\t:write\t1
"""

KV = """{:process 0, :type :invoke, :f :append, :key "0", :value "x 0 \\"0\\" y"}
{:process 1, :type :invoke, :f :get, :key "0", :value nil}
{:process 0, :type :ok, :f :append, :key "0", :value "x 0 \\"0\\" y"}
{:process 1, :type :ok, :f :get, :key "0", :value "x 0 \\"0\\" y"}
"""

LINES = """{"process":0,"type":"invoke","f":"write","value":3}
{"process":0,"type":"ok","f":"write","value":3}
"""

ARRAY = """[{"process":0,"type":"invoke","f":"write","value":3},
 {"process":0,"type":"ok","f":"write","value":3}]
"""

VECTOR = """[{:process 0, :type :invoke, :f :write, :value 3}
 {:process 0, :type :ok, :f :write, :value 3}]
"""

COMPACT = """c 0 2 0 0 0
c 1 4 1 7 0
c 2 7 2 -1 1
r 0 ok -1
r 2 fail -1
c 3 2 2 7 8
r 3 ok -1
c 4 4 0 0 0
r 4 ok 8
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "history"
    path.write_text(text, encoding="utf-8")
    return path


def short(ops: list[Op]) -> list[tuple[int, str, str, object]]:
    return [(op.process, op.type, op.f, op.value) for op in ops]


def test_a_jepsen_log_is_read_with_its_failed_cas_as_an_answer(tmp_path: Path) -> None:
    ops = read_history(written(tmp_path, LOG), "porcupine")
    assert short(ops) == [
        (0, "invoke", "read", None),
        (1, "invoke", "write", 3),
        (-1, "info", "start", None),
        (0, "ok", "read", None),
        (2, "invoke", "cas", [3, 4]),
        (2, "ok", "cas", False),
        (1, "info", "write", None),
        (3, "invoke", "read", None),
        (3, "fail", "read", None),
        (2, "invoke", "cas", [3, 4]),
        (2, "ok", "cas", [3, 4]),
        (4, "invoke", "write", 1),
    ]
    assert [op.index for op in ops] == list(range(len(ops)))
    assert ops[6].error == "timed-out"


def test_a_key_value_log_is_read_with_its_keys(tmp_path: Path) -> None:
    ops = read_history(written(tmp_path, KV), "porcupine")
    assert {op.key for op in ops} == {"0"}
    assert ops[3].value == 'x 0 "0" y'


def test_a_compact_history_is_read_with_nil_and_failed_cas(tmp_path: Path) -> None:
    ops = read_history(written(tmp_path, COMPACT), "compact")
    assert short(ops) == [
        (2, "invoke", "read", None),
        (4, "invoke", "write", 7),
        (7, "invoke", "cas", [None, 1]),
        (2, "ok", "read", None),
        (7, "ok", "cas", False),
        (2, "invoke", "cas", [7, 8]),
        (2, "ok", "cas", [7, 8]),
        (4, "info", "write", None),
        (4, "invoke", "read", None),
        (4, "ok", "read", 8),
    ]


@pytest.mark.parametrize(("name", "text"), [("porcupine", LOG), ("porcupine", KV), ("compact", COMPACT)])
def test_what_is_read_pairs_up(tmp_path: Path, name: str, text: str) -> None:
    assert list(pairs(read_history(written(tmp_path, text), name)))


def test_json_lines_come_back_as_they_were(tmp_path: Path) -> None:
    ops = [
        Op(index=0, time=5, process=1, type="invoke", f="write", key="k", value={"a": [1, None]}, node="n1"),
        Op(index=1, time=9, process=1, type="info", f="write", key="k", error="timeout"),
    ]
    text = "".join(msgspec.json.encode(op).decode() + "\n" for op in ops)
    assert read_history(written(tmp_path, text), "jsonl") == ops


def test_an_empty_file_is_an_empty_history(tmp_path: Path) -> None:
    assert read_history(written(tmp_path, ""), "porcupine") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("porcupine", LOG),
        ("porcupine", KV),
        ("compact", COMPACT),
        ("jsonl", LINES),
        ("edn", KV),
    ],
)
def test_a_file_cut_anywhere_inside_a_line_is_refused_with_the_line(tmp_path: Path, name: str, text: str) -> None:
    for cut in range(1, len(text), 3):
        if text[cut - 1] == "\n":
            continue
        if text[cut - 1] == "}" and text[:cut].rpartition("\n")[2].startswith("{"):
            continue  # whole: the bracket says where the op ends
        path = written(tmp_path, text[:cut])
        line = text[:cut].count("\n") + 1
        with pytest.raises(HistoryFormatError) as caught:
            read_history(path, name)
        assert str(caught.value).startswith(f"{path}:{line}: ")


@pytest.mark.parametrize(("name", "text"), [("jsonl", ARRAY), ("edn", VECTOR)])
def test_a_file_that_is_one_list_is_refused_without_its_bracket(tmp_path: Path, name: str, text: str) -> None:
    end = text.rindex("]")
    for cut in range(1, end):
        path = written(tmp_path, text[:cut])
        with pytest.raises(HistoryFormatError) as caught:
            read_history(path, name)
        assert str(caught.value).startswith(f"{path}:")
    assert len(read_history(written(tmp_path, text[: end + 1]), name)) == 2


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("porcupine", "hello\n", "history:1: expected 'INFO  jepsen.util"),
        ("porcupine", "INFO  jepsen.util - 1\t:invoke\n", "expected 'PROCESS :invoke"),
        ("porcupine", "INFO  jepsen.util - 1\t:invoke\t:add\t1\n", "expected :read, :write or :cas, found ':add'"),
        ("porcupine", "INFO  jepsen.util - 1\t:invoke\t:write\tx\n", "expected a number as the value of a write"),
        (
            "porcupine",
            "INFO  jepsen.util - 1\t:invoke\t:cas\t[1]\n",
            r"expected the value of a cas as '\[EXPECTED NEW\]'",
        ),
        (
            "porcupine",
            "INFO  jepsen.util - 1\t:ok\t:write\t1\n",
            "process 1 completes 'write', which it did not invoke",
        ),
        ("porcupine", LOG + "INFO  jepsen.util - 4\t:ok\t:read\t1\n", "completes 'read', but its open op is 'write'"),
        ("porcupine", '{:process 0, :type :invoke, :f :pop, :key "0", :value nil}\n', "expected '{:process N"),
        (
            "porcupine",
            KV[: KV.index("\n") + 1] + '{:process 0, :type :ok, :f :append, :key "1", :value "x"}\n',
            "completes append of key '1', but its open op is of key '0'",
        ),
        ("compact", "c 0 1 9 0 0\n", "history:1: expected 'c ID CLIENT F A B' with F 0, 1 or 2"),
        ("compact", "c 0 1 x 0 0\n", "history:1: expected 'c ID CLIENT F A B'"),
        ("compact", "r 3 ok 1\n", "op 3 returns, but is not under way"),
        ("compact", "q 0\n", "expected 'c ID CLIENT F A B'"),
        ("jsonl", '{"process":"a","type":"ok","f":"read"}\n', "expected a process as a whole number, 'nemesis'"),
        ("jsonl", '{"process":1,"f":"read"}\n', "expected an op as a JSON object"),
    ],
)
def test_a_wrong_line_is_refused_with_its_place_and_what_was_expected(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    with pytest.raises(HistoryFormatError, match=words):
        read_history(written(tmp_path, text), name)


def test_a_file_that_is_missing_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_history(tmp_path / "nowhere", "compact")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HistoryFormatError, match="1: not UTF-8 text"):
        read_history(tmp_path / "binary", "compact")


def test_an_unknown_format_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'compact'"):
        read_history(written(tmp_path, ""), "compct")


# --- what is read without being told its format -----------------------------------------------------------------------


@contextmanager
def piped(content: bytes) -> Generator[str]:
    """The path of a pipe that gives `content` once."""
    read_end, write_end = os.pipe()

    def fill() -> None:
        with open(write_end, "wb") as file:
            file.write(content)

    writer = threading.Thread(target=fill)
    writer.start()
    try:
        yield f"/dev/fd/{read_end}"
    finally:
        os.close(read_end)
        writer.join()


def test_a_pipe_is_read_whole_though_its_head_tells_the_format() -> None:
    """Every line is 64 bytes, so that the rest of the pipe is a history of its own behind any power of two."""
    pair = [
        "{:process 0, :type :invoke, :f :write, :value 1}".ljust(63) + "\n",
        "{:process 0, :type :ok, :f :write, :value 1}".ljust(63) + "\n",
    ]
    with piped("".join(pair * 1500).encode()) as path:
        assert len(read_history(path)) == 3000


def test_a_pipe_of_parquet_is_read(tmp_path: Path) -> None:
    ops = [Op(index=at, time=at, process=-1, type="info", f="start", value=f"{at * at:x}") for at in range(30_000)]
    write_parquet(to_table(ops), tmp_path / "history.parquet")
    content = (tmp_path / "history.parquet").read_bytes()
    assert len(content) > 1 << 16
    with piped(content) as path:
        assert read_history(path) == ops
    assert read_history(tmp_path / "history.parquet") == ops


@pytest.mark.parametrize(
    ("column", "found", "expected"),
    [("value", "{3", "the value '{3' is not JSON"), ("type", "done", "an op's type is 'done'")],
)
def test_parquet_of_which_a_text_means_nothing_is_refused_with_the_text(
    tmp_path: Path, column: str, found: str, expected: str
) -> None:
    table = to_table([Op(index=at, time=at, process=0, type="invoke", f="read") for at in range(200)])
    texts: list[str | None] = table.column(column).to_pylist()
    texts[150] = found
    place = table.column_names.index(column)
    write_parquet(table.set_column(place, table.field(place), pa.array(texts, pa.string())), tmp_path / "h.parquet")
    with pytest.raises(HistoryFormatError, match=rf"h\.parquet: {re.escape(expected)}"):
        read_history(tmp_path / "h.parquet")


@pytest.mark.parametrize("text", ["", " \n\n\t", "\ufeff\n"])
def test_a_file_without_anything_is_said_to_be_empty(tmp_path: Path, text: str) -> None:
    with pytest.raises(HistoryFormatError, match="the file is empty"):
        read_history(written(tmp_path, text))


@pytest.mark.parametrize("tag", ["#jepsen.history.Op", "#jepsen.history.Op ", "#knossos.op.Op", "#knossos.op.Op "])
@pytest.mark.parametrize("around", ["{}", "[{}]", ";; by Jepsen\n({})"])
@pytest.mark.parametrize("apart", ["\n", " "])
def test_records_are_recognised_and_read_as_maps(tmp_path: Path, tag: str, around: str, apart: str) -> None:
    text = apart.join(f"{tag}{{:process 0, :type {kind}, :f :write, :value 3}}" for kind in (":invoke", ":ok"))
    ops = read_history(written(tmp_path, around.replace("{}", text) + "\n"))
    assert short(ops) == [(0, "invoke", "write", 3), (0, "ok", "write", 3)]


# --- JSON that is too much --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("1e400", "the (value|error) 1e400 cannot be read"),
        ("[2,-1e400]", r"the (value|error) \[2,-1e400\] cannot be read"),
        ("[" * 100_000 + "]" * 100_000, "nested deeper than 200"),
        ('{"a":' * 201 + "1" + "}" * 201, "nested deeper than 200"),
    ],
    ids=["number", "number-inside", "far-too-deep", "too-deep"],
)
@pytest.mark.parametrize("field", ["value", "error"])
@pytest.mark.parametrize("array", [False, True], ids=["lines", "array"])
def test_a_json_value_that_is_too_much_is_refused_with_its_line(
    tmp_path: Path, value: str, words: str, field: str, array: bool
) -> None:
    ops = [
        '{"process":0,"type":"invoke","f":"write","value":"[[["}',
        f'{{"process":1,"type":"invoke","f":"write","{field}":{value}}}',
    ]
    text = f"[{(',' + chr(10)).join(ops)}]" if array else "".join(f"{op}\n" for op in ops)
    path = written(tmp_path, text)
    with pytest.raises(HistoryFormatError, match=words) as caught:
        read_history(path, "jsonl")
    assert str(caught.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize("form", ["[{},{}]", "{}\n{}\n"])
def test_a_transaction_of_json_may_leave_out_its_function_as_one_of_edn(tmp_path: Path, form: str) -> None:
    ops = [f'{{"process":0,"type":"{kind}","value":[["append","x",1]]}}' for kind in ("invoke", "ok")]
    file = tmp_path / "h.json"
    file.write_text(form.format(*ops))
    assert [(op.f, op.value) for op in read_history(file)] == [("txn", [["append", "x", 1]])] * 2
    file.write_text(form.format(*(op.replace('[["append","x",1]]', "3") for op in ops)))
    with pytest.raises(HistoryFormatError, match="the op has no function"):
        read_history(file)


def test_a_json_value_of_many_brackets_that_is_not_deep_is_read(tmp_path: Path) -> None:
    value = [[[1], "[{" * 300]] * 150
    text = msgspec.json.encode({"process": 0, "type": "invoke", "f": "write", "value": value}).decode() + "\n"
    assert read_history(written(tmp_path, text), "jsonl")[0].value == value
