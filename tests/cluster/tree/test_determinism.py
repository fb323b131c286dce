"""Functions that may come to different results on different members are refused (KH-8, D13)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from splitbrain.cluster.errors import FunctionRefusedError
from splitbrain.cluster.tree import Functions, Transact, Tree, Value, encode_command

CONSTANT = ("a", 1)
CHANGING: list[int] = []


def clock(tx: Any, data: Any) -> Any:
    return time.time()


def randomness(tx: Any, data: Any) -> Any:
    return random.random()


def imports(tx: Any, data: Any) -> Any:
    import os

    return os.getpid()


def files(tx: Any, data: Any) -> Any:
    return open(data).read()


def set_display(tx: Any, data: Any) -> Any:
    return list({data, "b", *data})


def set_comprehension(tx: Any, data: Any) -> Any:
    return [name for name in {str(name) for name in data}]  # noqa: C416


def constant_set(tx: Any, data: Any) -> Any:
    return data in {"a", "b"}


def set_call(tx: Any, data: Any) -> Any:
    return list(set(data))


def keys_of_two(tx: Any, data: Any) -> Any:
    return list(data.keys() & data.keys())


def difference_of_views(tx: Any, data: Any) -> Any:
    ours = data.items()
    return list(ours - data.items())


def hashes(tx: Any, data: Any) -> Any:
    return hash(data)


def addresses(tx: Any, data: Any) -> Any:
    return id(data)


def representation(tx: Any, data: Any) -> Any:
    return repr(tx)


def changing_global(tx: Any, data: Any) -> Any:
    CHANGING.append(1)
    return len(CHANGING)


def changing_default(tx: Any, data: Any, seen: list[int] = []) -> Any:  # noqa: B006
    return seen


def itself(tx: Any, data: Any) -> Any:
    return itself(tx, data)


def by_another(tx: Any, data: Any) -> Any:
    return clock(tx, data)


def inner_lambda(tx: Any, data: Any) -> Any:
    return list(map(lambda _: time.time(), data))  # noqa: C417


def private(tx: Any, data: Any) -> Any:
    return tx._tree


def back_door(tx: Any, data: Any) -> Any:
    return "{0.__class__}".format(tx)  # noqa: UP030, UP032


def attribute_by_name(tx: Any, data: Any) -> Any:
    return getattr(tx, "_tree")  # noqa: B009


def catches_everything(tx: Any, data: Any) -> Any:
    try:
        tx.abort("no")
    except:  # noqa: E722
        return 1


def evaluates(tx: Any, data: Any) -> Any:
    return eval(data)


async def coroutine(tx: Any, data: Any) -> Any:
    return 1


def generator(tx: Any, data: Any) -> Any:
    yield 1


def closure() -> Callable[..., Any]:
    seen: list[int] = []

    def function(tx: Any, data: Any) -> Any:
        seen.append(1)
        return len(seen)

    return function


REFUSED = [
    clock, randomness, imports, files, set_display, set_comprehension, constant_set, set_call, keys_of_two,
    difference_of_views, hashes, addresses, representation, changing_global, changing_default, itself, by_another,
    inner_lambda, private, back_door, attribute_by_name, catches_everything, evaluates, coroutine, generator, closure(),
    print, Functions,
]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_kh_8_a_function_whose_result_may_differ_is_refused(function: Callable[..., Any]) -> None:
    functions = Functions()
    with pytest.raises(FunctionRefusedError, match="registered"):
        functions.add("tried", 1, function)
    assert functions.names() == []


def _helper(pairs: Any) -> Any:
    return sorted(pairs)


def fine(tx: Any, data: Any) -> Any:
    total = 0
    for name, value in data.items():
        total += value + len(name)
    try:
        return [total, _helper(list(data.items())), sorted(data), CONSTANT, dict.fromkeys(data, 1), len(data) - 1]
    except ValueError:
        return None


def hides_a_clock(tx: Any, data: Any) -> Any:
    return data["f"]()


def test_kh_8_a_function_of_its_data_alone_is_taken_and_gives_its_result() -> None:
    functions = Functions()
    functions.add("fine", 1, fine)
    tree = Tree(version=3, functions=functions)
    result = tree.execute(Transact("fine", 1, encode_command({"b": 2, "a": 1})))  # pyright: ignore[reportArgumentType]
    assert isinstance(result, Value)


def test_kh_8_the_built_in_functions_that_are_not_allowed_are_out_of_reach_when_it_runs() -> None:
    functions = Functions()
    functions.add("fine", 1, fine)
    found = functions.find("fine", 1, 3)
    assert found is not None
    reachable = found.call.__globals__  # pyright: ignore[reportFunctionMemberAccess]
    assert "open" not in reachable["__builtins__"]
    assert sorted(set(reachable) - {"__builtins__", "__name__"}) == ["CONSTANT", "_helper"]


def test_d13_what_a_name_and_a_version_stand_for_never_changes() -> None:
    functions = Functions()
    functions.add("fine", 1, fine)
    with pytest.raises(FunctionRefusedError, match="never changes"):
        functions.add("fine", 1, hides_a_clock)
    functions.add("fine", 2, hides_a_clock)
    assert functions.names() == [("fine", 1), ("fine", 2)]


def test_d13_a_function_is_unknown_before_the_version_of_the_state_machine_that_it_came_with() -> None:
    functions = Functions()
    functions.add("fine", 1, fine)
    assert functions.find("fine", 1, 2) is None
    assert functions.find("fine", 1, 3) is not None
    with pytest.raises(FunctionRefusedError, match="since"):
        functions.add("later", 1, fine, since=99)


def writes(tx: Any, data: Any) -> Any:
    return _through(tx, data)


def _through(tx: Any, data: Any) -> Any:
    return tx.put("/a", data)


def test_kh_8_whether_a_function_writes_is_seen_through_those_that_it_calls() -> None:
    functions = Functions()
    functions.add("writes", 1, writes)
    functions.add("reads", 1, fine)
    assert functions.writes("writes", 1)
    assert not functions.writes("reads", 1)
    assert functions.writes("unknown", 1)
