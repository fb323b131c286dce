"""Histories in every format that is text, and what becomes of them where a byte or two is wrong."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from splitbrain.results.arrow import history_hash
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.formats.rows import Rows, table_of

SOUND: Final[dict[str, tuple[str, ...]]] = {
    "edn": (
        (
            '{:process 0, :type :invoke, :f :write, :value 3, :time 15, :index 0, :key "a", :node "n", :error [:a]}\n'
            "{:process 0, :type :ok, :f :write, :value 3, :time 16, :index 1, :key nil, :node nil, :error nil}\n"
        ),
        (
            "[{:process 0, :type :invoke, :f :cas, :value [1 2]}\n {:process 0 :type :ok :f :cas :value [1 2]}\n"
            ";a comment\n #_{:a 1} {:process :nemesis, :type :info, :f :start, :value nil}]"
        ),
        (
            "{:process 0, :type :invoke, :f :txn, :value [[:r 1 nil] [:append 2 3]], :index 3}\n"
            "{:process 0, :type :ok, :f :txn, :value [[:r 1 [1 2]] [:append 2 3]], :index 4}\n"
        ),
        (
            "{:type :invoke, :process 0, :f :add, :value #{1 2}, :jepsen/more 4}\n"
            '#jepsen.history.Op{:type :ok, :process 0, :f :add, :value {:a 1.5 "b" \\c}, :jepsen/more #inst "2020"}\n'
        ),
        "{:process 0, :type :invoke, :f :read, :value ##Inf}\n{:process 0, :type :info, :f :read}\n",
    ),
    "jsonl": (
        (
            '{"process":0,"type":"invoke","f":"write","value":1,"time":5,"index":0,"key":"a","node":"n1","term":3}\n'
            '{"process":0,"type":"ok","f":"write","value":1,"error":{"a":[1.5,null]}}\n'
            '{"process":1,"type":"invoke","f":"txn","value":[["r","x",null],["append","y",3]]}\n'
            '{"process":1,"type":"info","f":"txn","mops":[{"f":"r","key":"x","value":null,"values":[1,2]}]}\n'
        ),
        '[{"process":0,"type":"invoke","f":"read","value":null},\n {"process":0,"type":"ok","f":"read","value":-0.5}]',
    ),
    "compact": ("c 0 0 1 3 -1\nc 1 1 0 -1 -1\nr 0 ok -1\nr 1 ok 3\nc 2 0 2 3 4\nr 2 fail 0\n",),
    "plume": ("w(5,17,3,42)\nr(5,0,4,43)\nw(6,1,3,42)\nw(5,18,3,-1)\nr(5,17,4,44)\n",),
    "awdit": ("w 5 17\nr 6 0\n-----\nr 5 17\n=====\nr 5 17\n\n", "r 1 2\n=====\nw 1 2"),
    "porcupine": (
        (
            "INFO  jepsen.util - 0\t:invoke\t:write\t3\nINFO  jepsen.util - 1\t:invoke\t:read\tnil\n"
            "INFO  jepsen.util - 0\t:ok\t:write\t3\nINFO  jepsen.util - 1\t:fail\t:read\t:timed-out\n"
            "INFO  jepsen.util - :nemesis\t:info\t:start\tnil\nINFO  jepsen.util - 2\t:invoke\t:cas\t[3 4]\n"
        ),
        (
            '{:process 0, :type :invoke, :f :append, :key "0", :value "x"}\n'
            '{:process 0, :type :ok, :f :append, :key "0", :value "x"}\n'
        ),
    ),
}
"""Format: histories that are read."""

_EDN: Final = (
    *("::value", ":value", ":", "-", "+", "1N", "1M", "1/2", "0x", "08", "00", "1.", "-0", "-0.0", "1_000", "9" * 30),
    *("1e999", "##NaN", "##Inf", "#", "#_", "#inst", "#{", "{", "}", "[", "]", '"', "\\", "\\u0000", "\\newline", ";"),
    *("nil", "true", "NaN", "@", "'", "^{:a 1}", "\u0663", "\u00b2", "\x00", "\r", "\x0b", "\x1f", "\x85", "\u2028"),
)
PIECES: Final[dict[str, tuple[str, ...]]] = {
    "edn": _EDN,
    "jsonl": (
        *("9" * 30, "-0", "-0.0", "1e999", "1E5", "NaN", "null", "true", "[", "]", "{", "}", '"', ",", ":", "1.5"),
        *("\\ud800", "\\u0000", "\x00", "-9223372036854775809", "18446744073709551616", "[[[[", '"nemesis"', "\r"),
        *("\u2028", "2147483648", "-3", '"mops":[{"f":"r","key":"x","value":99999999999999999999}]'),
    ),
    "compact": (*("-1", "9" * 18, "9" * 19, "\u0663", "c ", "r ", "ok", "fail", " ", "\t", "\r", "\n", "-", "\x00"),),
    "plume": (*("(", ")", ",", "-1", "-", "0", "9" * 18, "9" * 20, "\u0663", "r", "w", " ", "\n", "\r", "\x00", "x"),),
    "awdit": (*("-", "=", "r", "w", " ", "\t", "\n", "\r", "0", "9" * 19, "9" * 20, "\u0663", "\x00", "\x85", "x"),),
    "porcupine": (*_EDN, "\t", ":nemesis", "INFO  jepsen.util - ", "[1 2]", "[99999999999999999999 1]", ":timed-out"),
}
"""Format: what may slip in."""

Reader = Callable[[str], Rows]


def mutated(rng: random.Random, name: str) -> str:
    """A history of that format with some bytes added, replaced, left out or repeated."""
    text = rng.choice(SOUND[name])
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(text) + 1)
        until = min(len(text), at + rng.choice((1, 1, 2, 5, 20)))
        elsewhere = rng.randrange(len(text) + 1)
        text = rng.choice(
            (
                text[:at] + rng.choice(PIECES[name]) + text[at:],
                text[:at] + rng.choice(PIECES[name]) + text[until:],
                text[:at] + text[until:],
                text[:at] + chr(rng.randrange(300)) + text[at + 1 :],
                text[:elsewhere] + text[at:until] + text[elsewhere:],
            )
        )
    return text


def reader(name: str) -> Reader:
    """The reader of a format."""
    read = importlib.import_module(f"splitbrain.results.formats.{name}").read
    return lambda text: read(text, "history")


def outcome(read: Reader, text: str) -> tuple[str, ...]:
    """The ops that a reader finds, as a hash, and the fields that it left out; or why it refuses the text."""
    try:
        rows = read(text)
        table: pa.Table = table_of(rows, "history", "auto")
    except SplitbrainError as error:
        return "refused", str(error)
    return "read", history_hash(table), *rows.ignored
