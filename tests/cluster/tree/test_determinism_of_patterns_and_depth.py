"""Functions that read attributes by patterns of match, or whose depth on the stack has no bound (KH-8, D13)."""

# What is tried is not what one would write.
# pyright: basic, reportGeneralTypeIssues=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.errors import FunctionRefusedError
from splitbrain.cluster.tree import Functions, Procedure, PutNodes, Refused, Transact, Tree, Value


def hash_by_a_pattern(tx: Any, data: Any) -> Any:
    match "abc":
        case str(__hash__=found):
            return found()


def difference_by_a_pattern(tx: Any, data: Any) -> Any:
    match data:
        case [dict(keys=found)]:
            return list(found() - ("a",))


def letters_by_a_pattern(tx: Any, data: Any) -> Any:
    match data:
        case str(isalpha=found):
            return found()


def inner_function_calls_itself(tx: Any, data: Any) -> Any:
    def walk(left: Any) -> Any:
        return 1 + walk(left[1:]) if left else 0

    return walk(data)


def lambda_calls_itself(tx: Any, data: Any) -> Any:
    walk = lambda left: 1 + walk(left[1:]) if left else 0  # noqa: E731
    return walk(data)


def inner_functions_call_each_other(tx: Any, data: Any) -> Any:
    def even(left: Any) -> Any:
        return all(odd(each) for each in left)

    def odd(left: Any = ()) -> Any:
        return not even(left)

    return even(data)


@pytest.mark.parametrize(
    "function",
    [
        hash_by_a_pattern, difference_by_a_pattern, letters_by_a_pattern, inner_function_calls_itself,
        lambda_calls_itself, inner_functions_call_each_other,
    ],
)  # fmt: skip
def test_kh_8_a_function_that_goes_around_the_check_by_a_pattern_or_a_variable_is_refused(
    function: Callable[..., Any],
) -> None:
    functions = Functions()
    with pytest.raises(FunctionRefusedError, match="registered"):
        functions.add("tried", 1, function)
    assert functions.names() == []


def inner_functions(tx: Any, data: Any) -> Any:
    def twice(number: Any) -> Any:
        return 2 * number

    def four_times(number: Any) -> Any:
        return twice(twice(number))

    return [four_times(number) for number in data]


def test_kh_8_functions_within_a_function_that_call_others_are_taken() -> None:
    functions = Functions()
    functions.add("tried", 1, inner_functions)
    found = Tree(version=3, functions=functions).execute(Transact("tried", 1, encode_value([1, 2])))
    assert found == Value(encode_value([4, 8]))


def at_depth(frames: int, call: Callable[[], Any]) -> Any:
    return at_depth(frames - 1, call) if frames else call()


def runs_the_procedure(tx: Any, data: Any) -> Any:
    return tx.run_stored("/p", data)


def runs_itself(tx: Any, stored: Any, left: Any) -> Any:
    return 1 + tx.run_stored("/p", left - 1) if left else 0


def test_kh_8_how_deep_procedures_run_each_other_does_not_follow_the_depth_of_the_stack() -> None:
    functions = Functions()
    functions.add("tried", 1, runs_the_procedure)
    functions.add("procedure", 1, runs_itself)

    def result(left: int) -> str:
        tree = Tree(version=3, functions=functions)
        tree.execute(PutNodes(("p",), Procedure("procedure", 1, encode_value(None))))
        found = tree.execute(Transact("tried", 1, encode_value(left)))
        return found.reason if isinstance(found, Refused) else "ran"

    for left, expected in ((15, "ran"), (16, "limit_reached"), (400, "limit_reached")):
        assert [at_depth(frames, lambda left=left: result(left)) for frames in (0, 400)] == [expected] * 2
