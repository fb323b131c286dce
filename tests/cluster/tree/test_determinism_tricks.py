"""Functions that try to come to different results on different members, by ways around the check (KH-8, D13)."""

# What is tried is not what one would write.
# ruff: noqa: B006, B012, C400, C416, RET504, RUF017, SIM118
# pyright: basic, reportUnusedVariable=false, reportAttributeAccessIssue=false, reportReturnType=false

from __future__ import annotations

import enum
import functools
import time
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
import pytest

from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.errors import FunctionRefusedError
from splitbrain.cluster.tree import Aborted, Functions, Refused, Transact, Tree, Value

NOW = time.time


class Changing(msgspec.Struct, frozen=True):
    """Frozen, and what is in it is not."""

    seen: list[int]


class MadeAnew(msgspec.Struct, frozen=True):
    """A default that is made when a struct is made."""

    at: float = msgspec.field(default_factory=time.time)


class AfterInit(msgspec.Struct, frozen=True):
    """Code that runs when a struct is made."""

    at: float = 0.0

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "at", time.time())


class Asked(msgspec.Struct, frozen=True):
    """Code that runs when an attribute is read."""

    @property
    def now(self) -> float:
        return time.time()


class Base(msgspec.Struct, frozen=True):
    """Code in a base class."""

    def now(self) -> float:
        return time.time()


class Derived(Base, frozen=True):
    """It has that code."""


class Counting(msgspec.Struct, frozen=True):
    """A variable of the class that can change."""

    seen: ClassVar[list[int]] = []


class Sneaky(str):
    """A text that is another one each time."""

    __slots__ = ()

    def __add__(self, other: str) -> str:
        return f"{time.time()}{other}"


class Colour(enum.IntEnum):
    """A number with methods."""

    RED = 1


class KeyError(Exception):  # noqa: A001
    """No built-in exception, but the name of one."""

    def __str__(self) -> str:
        return str(time.time())


class Plain(msgspec.Struct, frozen=True):
    """What may be used."""

    name: str = "x"
    parts: tuple[int, ...] = ()


CHANGING, SNEAKY, PLAIN = Changing([]), Sneaky("a"), Plain("y", (1, 2))


def clock_by_alias(tx: Any, data: Any) -> Any:
    return NOW()


def list_in_a_struct(tx: Any, data: Any) -> Any:
    CHANGING.seen.append(1)
    return len(CHANGING.seen)


def default_made_anew(tx: Any, data: Any) -> Any:
    return MadeAnew().at


def code_after_init(tx: Any, data: Any) -> Any:
    return AfterInit().at


def property_of_a_struct(tx: Any, data: Any) -> Any:
    return Asked().now


def method_of_a_base(tx: Any, data: Any) -> Any:
    return Derived().now()


def variable_of_a_class(tx: Any, data: Any) -> Any:
    Counting.seen.append(1)
    return len(Counting.seen)


def text_of_a_class_of_ones_own(tx: Any, data: Any) -> Any:
    return SNEAKY + "b"


def number_of_a_class_of_ones_own(tx: Any, data: Any) -> Any:
    return Colour.RED.name


def exception_of_the_same_name(tx: Any, data: Any) -> Any:
    raise KeyError


def _counted() -> int:
    return 1


def attribute_of_a_function(tx: Any, data: Any) -> Any:
    try:
        _counted.times = _counted.times + 1
    except TypeError:
        _counted.times = 1
    return _counted.times


def deletes_an_attribute(tx: Any, data: Any) -> Any:
    del _counted.times


def text_of_an_exception(tx: Any, data: Any) -> Any:
    try:
        return 1 + data
    except (TypeError, ValueError) as error:
        return str(error)


def catches_too_little_memory(tx: Any, data: Any) -> Any:
    try:
        return [0] * data
    except Exception:
        return []


def returns_finally(tx: Any, data: Any) -> Any:
    try:
        tx.abort("no")
    finally:
        return 1


def continues_finally(tx: Any, data: Any) -> Any:
    for _ in range(2):
        try:
            tx.abort("no")
        finally:
            continue
    return 1


def reckons_finally(tx: Any, data: Any) -> Any:
    try:
        tx.abort("no")
    finally:
        data = 2
        return data


def asserts(tx: Any, data: Any) -> Any:
    assert data, "nothing"
    return 1


def shown(tx: Any, data: Any) -> Any:
    return f"{data!r}"


def letters(tx: Any, data: Any) -> Any:
    return data.isalpha()


def capitals(tx: Any, data: Any) -> Any:
    return list(map(str.upper, data))


def power(tx: Any, data: Any) -> Any:
    return data**0.5


def power_in_place(tx: Any, data: Any) -> Any:
    data **= 0.5
    return data


def difference_within_a_call(tx: Any, data: Any) -> Any:
    return list(data.keys() - ("a", "b"))


def difference_after_a_call(tx: Any, data: Any) -> Any:
    count = len(data)
    return [name for name in data.keys() - {}.keys()], count


def difference_from_the_right(tx: Any, data: Any) -> Any:
    return list(("a", "b") - data.keys())


def view_kept(tx: Any, data: Any) -> Any:
    views = [data.keys()]
    return list(views[0] - views[0])


def view_given_away(tx: Any, data: Any) -> Any:
    return _difference(data.items(), data.items())


def _difference(one: Any, other: Any) -> Any:
    return list(one - other)


def view_beside_a_call(tx: Any, data: Any) -> Any:
    return _without(len(data), data.items())


def view_beside_a_function(tx: Any, data: Any) -> Any:
    return _without(len, data.items())


def _without(count: Any, one: Any) -> Any:
    return list(one - ("a", "b"))


def view_appended_after_a_call(tx: Any, data: Any) -> Any:
    count, kept = len(data), []
    kept.append(data.keys())
    return list(kept[0] - ("a", "b")), count


def view_given_to_a_local_name(tx: Any, data: Any) -> Any:
    less = _less
    return list(less(data.items()))


def view_given_to_a_method(tx: Any, data: Any) -> Any:
    return list(tx.put("/a", data.items()))


def _less(one: Any) -> Any:
    return list(one - ("a", "b"))


def enumerate(one: Any) -> Any:  # noqa: A001
    """No built-in function, but the name of one."""
    return list(one - ("a", "b"))


def view_given_to_a_function_of_the_same_name(tx: Any, data: Any) -> Any:
    return enumerate(data.keys())


def view_by_a_method_kept(tx: Any, data: Any) -> Any:
    keys = data.keys
    return list(keys() - keys())


def default_of_a_keyword(tx: Any, data: Any, *, seen: dict[str, int] = {}) -> Any:
    return len(seen)


def class_body(tx: Any, data: Any) -> Any:
    class Here:
        at = NOW()

    return Here.at


def walrus_of_a_set(tx: Any, data: Any) -> Any:
    return [*(found := {*data}), len(found)]


def inner_generator_with_clock(tx: Any, data: Any) -> Any:
    return list(NOW() for _ in data)


def by_vars(tx: Any, data: Any) -> Any:
    return vars(tx)


def by_type(tx: Any, data: Any) -> Any:
    return type(tx)


def by_globals(tx: Any, data: Any) -> Any:
    return globals()["time"]


def each_other(tx: Any, data: Any) -> Any:
    return _other(tx, data)


def _other(tx: Any, data: Any) -> Any:
    return each_other(tx, data)


@functools.lru_cache
def cached(tx: Any, data: Any) -> Any:
    return data


REFUSED = [
    clock_by_alias, list_in_a_struct, default_made_anew, code_after_init, property_of_a_struct, method_of_a_base,
    variable_of_a_class, text_of_a_class_of_ones_own, number_of_a_class_of_ones_own, exception_of_the_same_name,
    attribute_of_a_function, deletes_an_attribute, text_of_an_exception, catches_too_little_memory, returns_finally,
    continues_finally, reckons_finally, asserts, shown, letters, capitals, power, power_in_place,
    difference_within_a_call, difference_after_a_call, difference_from_the_right, view_kept, view_given_away,
    view_beside_a_call, view_beside_a_function, view_appended_after_a_call, view_given_to_a_local_name,
    view_given_to_a_method, view_given_to_a_function_of_the_same_name,
    view_by_a_method_kept, default_of_a_keyword, class_body, walrus_of_a_set, inner_generator_with_clock, by_vars,
    by_type, by_globals, each_other, cached, functools.partial(clock_by_alias, 1),
]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: getattr(function, "__name__", "partial"))
def test_kh_8_a_function_that_goes_around_the_check_is_refused(function: Callable[..., Any]) -> None:
    functions = Functions()
    with pytest.raises(FunctionRefusedError, match="registered"):
        functions.add("tried", 1, function)
    assert functions.names() == []


def views(tx: Any, data: Any) -> Any:
    pairs = sorted(data.items(), key=lambda pair: pair[1], reverse=True)
    return [
        pairs[0], list(zip(data.keys(), data.values(), strict=True)),
        list(zip(range(len(pairs)), data.items(), strict=True)),
        list(zip(list(data), data.values(), data.items(), strict=True)),
        max(data.values()) - 1, len(data.keys()), dict(data.items()), [name for name in data.keys()],
        {name: value for name, value in data.items()}, sum(value for value in data.values()),
    ]  # fmt: skip


def structs(tx: Any, data: Any) -> Any:
    match Plain(*data):
        case Plain(name="a"):
            return PLAIN.parts
        case other:
            return other.name


def handles(tx: Any, data: Any) -> Any:
    try:
        return data[0] // data[1]
    except (ZeroDivisionError, TypeError):
        return None
    except IndexError:
        raise ValueError from None


def sums(tx: Any, data: Any) -> Any:
    return [sum(data), sum([[1], [2]], []), pow(2, 70, 1000), pow(3, 2)]


def ran(function: Callable[..., Any], data: Any) -> Any:
    functions = Functions()
    functions.add("tried", 1, function)
    tree = Tree(version=3, functions=functions)
    before = tree.state_hash
    found = tree.execute(Transact("tried", 1, encode_value(data)))
    return msgspec.msgpack.decode(found.data) if isinstance(found, Value) else (found, tree.state_hash == before)


def test_kh_8_what_is_harmless_is_taken_and_gives_its_result() -> None:
    assert ran(views, {"a": 1, "b": 2})[0] == ["b", 2]
    assert ran(structs, ["a"]) == [1, 2]
    assert ran(structs, ["b"]) == "b"
    assert ran(handles, [4, 0]) is None
    refused, same = ran(handles, [])
    assert (refused.reason, refused.detail, same) == ("function_failed", "ValueError", True)


def test_kh_8_a_sum_of_floats_is_the_same_on_every_python() -> None:
    """Since 3.12 the built-in `sum` compensates for what floats lose."""
    assert ran(sums, [0.1] * 10) == [0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1, [1, 2], 424, 9]


def root(tx: Any, data: Any) -> Any:
    return pow(data, 0.5)


def test_kh_8_a_power_of_a_float_is_refused_when_it_is_taken() -> None:
    refused, same = ran(root, 2)
    assert (refused.reason, refused.detail, same) == ("function_failed", "TypeError", True)


def address_of_a_function(tx: Any, data: Any) -> Any:
    tx.put("/a", data % _counted)


def _same(value: Any) -> Any:
    return value


def address_of_an_iterator(tx: Any, data: Any) -> Any:
    tx.put("/b", 1)
    return data % map(_same, data)


def address_in_a_condition(tx: Any, data: Any) -> Any:
    return tx.compare_and_swap("/a", data % [].append, 1) is None


@pytest.mark.parametrize("function", [address_of_a_function, address_of_an_iterator, address_in_a_condition])
def test_kh_8_an_address_neither_gets_into_the_tree_nor_out_of_it(function: Callable[..., Any]) -> None:
    refused, same = ran(function, "%s")
    assert isinstance(refused, Refused)
    assert "address" in refused.detail
    assert same


def aborts_with_an_address(tx: Any, data: Any) -> Any:
    tx.abort(data % _counted)


def test_kh_8_an_abort_with_an_address_has_no_reason() -> None:
    assert ran(aborts_with_an_address, "%s") == (Aborted(encode_value(None)), True)


def deeper(tx: Any, data: Any) -> Any:
    value = data
    for _ in range(data):
        value = (value,)
    tx.put("/a", value)
    return 1


def deeper_in_structs(tx: Any, data: Any) -> Any:
    value = data
    for _ in range(data):
        value = Plain(value)  # pyright: ignore[reportArgumentType]
    tx.put("/a", value)
    return 1


def at_depth(frames: int, call: Callable[[], Any]) -> Any:
    return at_depth(frames - 1, call) if frames else call()


@pytest.mark.parametrize("function", [deeper, deeper_in_structs])
def test_kh_8_how_deep_a_value_may_be_nested_does_not_follow_the_depth_of_the_stack(
    function: Callable[..., Any],
) -> None:
    """msgpack gives up where the stack ends: on one member sooner than on another."""
    functions = Functions()
    functions.add("deeper", 1, function)
    for depth in (20, 31, 33, 700):
        answers = [
            at_depth(
                frames,
                lambda: Tree(version=3, functions=functions).execute(Transact("deeper", 1, encode_value(depth))),  # noqa: B023
            )
            for frames in (0, 400)
        ]
        assert answers[0] == answers[1]
        assert isinstance(answers[0], Value) == (depth < 32)


def asks_for_too_much(tx: Any, data: Any) -> Any:
    return len([0] * data)


def test_kh_8_a_member_without_memory_ends_and_does_not_answer_for_the_others() -> None:
    with pytest.raises(MemoryError):
        ran(asks_for_too_much, 1 << 60)
