"""Texts of values and numbers in texts are the same on every Python, or are refused (KH-8, D13)."""

# What is tried is not what one would write.
# ruff: noqa: UP018, UP031
# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.errors import FunctionRefusedError
from splitbrain.cluster.tree import Functions, Transact, Tree, Value

TEMPLATE = "%-10s"
SHAKING_FACE = chr(0x1FAE8)
"""A character of Unicode 15: Python 3.11 shows a list that has it in another way than 3.12 does."""


def ran(function: Callable[..., Any], data: Any) -> Any:
    functions = Functions()
    functions.add("tried", 1, function)
    found = Tree(version=3, functions=functions).execute(Transact("tried", 1, encode_value(data)))
    return msgspec.msgpack.decode(found.data) if isinstance(found, Value) else found.detail  # pyright: ignore


def puts_a_list_into_a_text(tx: Any, data: Any) -> Any:
    return f"found {data}"


def puts_the_text_of_a_list_into_a_text(tx: Any, data: Any) -> Any:
    return f"found {data!s}"


def with_a_format_that_comes_with_the_data(tx: Any, data: Any) -> Any:
    return f"{data['value']:{data['format']}}"


def with_the_format_of_a_language(tx: Any, data: Any) -> Any:
    return f"{data:n}"


def by_a_template(tx: Any, data: Any) -> Any:
    return "found %s" % data


def by_a_template_with_names(tx: Any, data: Any) -> Any:
    return "%% %(a)r" % data


def by_a_template_of_bytes(tx: Any, data: Any) -> Any:
    return b"%a" % data


def by_a_template_of_the_module(tx: Any, data: Any) -> Any:
    return TEMPLATE % data


@pytest.mark.parametrize(
    "function",
    [
        puts_a_list_into_a_text, puts_the_text_of_a_list_into_a_text, with_a_format_that_comes_with_the_data,
        with_the_format_of_a_language, by_a_template, by_a_template_with_names, by_a_template_of_bytes,
        by_a_template_of_the_module,
    ],
)  # fmt: skip
def test_kh_8_a_function_that_puts_any_value_into_a_text_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(FunctionRefusedError, match=r"registered: it (puts a value into a text|uses %s)"):
        Functions().add("tried", 1, function)


def formats(tx: Any, data: Any) -> Any:
    """100 % so: %s in a description is none in a template."""
    return [f"/{data['t']:s}/{data['n']:d}", f"{data['f']:.2f}{data['n']:>4}", "%03d" % data["n"], data["n"] % 4]


def test_kh_8_a_format_says_of_what_type_a_value_is() -> None:
    assert ran(formats, {"t": "a", "n": 7, "f": 0.5}) == ["/a/7", "0.50   7", "007", 3]
    assert ran(formats, {"t": ["a"], "n": 7, "f": 0.5}) == "TypeError"


def as_text(tx: Any, data: Any) -> Any:
    return [str(value) for value in data]


@pytest.mark.parametrize("value", [[SHAKING_FACE], {"a": 1}, [], b"a"])
def test_kh_8_a_list_a_dict_and_bytes_have_no_text(value: Any) -> None:
    assert ran(as_text, [value]) == "TypeError"


def test_kh_8_texts_and_numbers_have_one() -> None:
    values = ["a", SHAKING_FACE, 1, -2.5, True, None]
    assert ran(as_text, values) == ["a", SHAKING_FACE, "1", "-2.5", "True", "None"]


def large(tx: Any, data: Any) -> Any:
    return len(str(pow(10, data)))


def test_kh_8_how_long_a_number_may_be_as_text_is_no_setting_of_the_process() -> None:
    assert ran(large, 639) == 640
    assert ran(large, 640) == "ValueError"


def whole(tx: Any, data: Any) -> Any:
    return int(data)


def real(tx: Any, data: Any) -> Any:
    return float(data)


@pytest.mark.parametrize("function", [whole, real])
def test_kh_8_a_number_is_read_from_ascii_alone(function: Callable[..., Any]) -> None:
    """Each version of Unicode has more digits, and Python takes those that it knows."""
    assert ran(function, " 12 ") == ran(function, b"12") == ran(function, 12) == 12
    assert ran(function, chr(0x0663)) == ran(function, chr(0x11F53)) == ran(function, "1" * 641) == "ValueError"
    assert ran(function, [1]) == "TypeError"


def kinds(tx: Any, data: Any) -> Any:
    found = []
    for value in data:
        match value:
            case bool():
                found.append("bool")
            case int(number):
                found.append(number + 1)
            case str(text):
                found.append(text + "!")
            case float():
                found.append("float")
    return [
        found, [isinstance(value, (int, str)) for value in data], list(map(str, [1, 2])), sorted(data[:2], key=str),
        int("ff", 16), int.from_bytes(b"a", "little"), float.fromhex("0x1p-1"), str.join("-", ["a", "b"]), str(), int(),
    ]  # fmt: skip


def test_kh_8_the_types_of_texts_and_numbers_are_used_as_ever() -> None:
    assert ran(kinds, [2, 1, True, "a", 0.5, None]) == [
        [3, 2, "bool", "a!", "float"], [True, True, True, True, False, False], ["1", "2"], [1, 2], 255, 97, 0.5, "a-b",
        "", 0,
    ]  # fmt: skip
