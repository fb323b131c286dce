"""What is wrong with a user's own model is said in a line, before or while it judges."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import check_ops
from splitbrain.checkers.models import IMPOSSIBLE, UNKNOWN, Assignment, AssignmentModel
from splitbrain.checkers.models.validation import STEPS_EXAMINED, examined, validated
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op

HERE = "tests.checkers.linearizable.test_model_validation"


class Tally:
    """A correct model: counts hits, in as many states as there are hits."""

    name: Any = "tally"
    fs: Any = frozenset({"hit", "total"})

    def init(self) -> Any:
        return 0

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        if f == "hit":
            return state + 1
        return state if result in (UNKNOWN, state) else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        return f == "total"


TALLY = Tally()


class Sized(Tally):
    """Needs a parameter."""

    def __init__(self, size: Any) -> None:
        self.size = size


class Box:
    """A state that is changed in place."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class Mutates(Tally):
    def init(self) -> Any:
        return Box()

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        state.value += 1
        return state


class Forgetful(Tally):
    """Counts its own calls."""

    calls = 0

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        self.calls += 1
        return self.calls


class ByIdentity(Tally):
    """States that are equal to nothing but themselves."""

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        return object()


class AnswersUnknown(Tally):
    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        return UNKNOWN


def hits(count: int) -> list[Op]:
    ops: list[Op] = []
    for _ in range(count):
        op = Op(process=0, type="invoke", f="hit")
        ops += [op, op.complete("ok")]
    return ops


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Mutates(), r"changed the state <.*> that hit was asked in, to <.*>: make a new state"),
        (Forgetful(), "answers hit in the state 0 with 1, then with 2: `step` must depend on its arguments only"),
        (ByIdentity(), "states must be compared by what they hold"),
        (AnswersUnknown(), "answers hit with Special.UNKNOWN: answer a state, or IMPOSSIBLE"),
    ],
)
def test_a_step_that_no_search_can_rely_on_is_refused(model: Tally, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_ops(hits(3), model)


class Guarded(AssignmentModel):
    """A hit has both guards: a value that is required, and one that is refused."""

    name = "guarded"
    fs = frozenset({"hit"})
    initial = 0

    def __init__(self, refused: int) -> None:
        self.refused = refused

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        return Assignment(requires=0, refuses=self.refused, becomes=1)


def test_an_assignment_that_refuses_what_it_requires_is_no_assignment() -> None:
    with pytest.raises(UsageError, match="model 'guarded' requires and refuses 0 for hit: "):
        check_ops(hits(1), Guarded(0))


def test_an_assignment_that_refuses_something_else_than_it_requires_needs_what_it_requires() -> None:
    assert check_ops(hits(1), Guarded(1)).valid == "true"
    assert check_ops(hits(2), Guarded(1)).valid == "false"


def test_a_correct_model_is_asked_twice_only_at_first() -> None:
    class Asked(Tally):
        calls = 0

        def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
            self.calls += 1
            return super().step(state, f, value, result)

    model = Asked()
    step = examined(model)
    state: Hashable = 0
    for _ in range(2 * STEPS_EXAMINED):
        state = step(state, "hit", None, None)
    assert state == 2 * STEPS_EXAMINED
    assert model.calls == 3 * STEPS_EXAMINED


def no_arguments(self: Any) -> Any:
    return True


def one_argument(self: Any, state: Any) -> Any:
    return state


def a_list(self: Any) -> Any:
    return [1]


def fails(self: Any) -> Any:
    return 1 // 0


def an_object(self: Any) -> Any:
    return object()


def impossible(self: Any) -> Any:
    return IMPOSSIBLE


def changed(**members: Any) -> Any:
    return type("Changed", (Tally,), members)()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (object(), r"is not a model: it lacks name, fs, init, step, observes\."),
        (changed(name=""), "`name` is ''"),
        (changed(name=3), "`name` is 3"),
        (changed(fs="hit"), "`fs` is 'hit'"),
        (changed(fs=frozenset()), r"`fs` is frozenset\(\)"),
        (changed(fs=[1]), r"`fs` is \[1\]"),
        (
            changed(step=one_argument),
            r"`step` does not fit .*: define step\(self, state, f, value, result\)",
        ),
        (changed(observes=no_arguments), r"define observes\(self, f, value, result\)"),
        (changed(overwrites=no_arguments), r"define overwrites\(self, f, value, result\)"),
        (changed(init=a_list), r"its initial state \[1\] is not hashable: use tuples and frozensets"),
        (changed(init=fails), "`init` failed: ZeroDivisionError"),
        (changed(init=an_object), "give equal states, and define __eq__"),
        (changed(init=impossible), "`init` answers Special.IMPOSSIBLE, which is no state"),
    ],
)
def test_what_is_no_model_is_refused_before_it_judges(model: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        validated("mine:Model", model)


@pytest.mark.parametrize(
    ("member", "meant"),
    [
        *[("ownd", "owned"), ("opaqe", "opaque"), ("overwrite", "overwrites"), ("fact", "facts")],
        *[("signatures", "signature"), ("at_frist", "at_first")],
    ],
)
def test_a_member_whose_name_is_nearly_an_optional_one_is_refused(member: str, meant: str) -> None:
    words = f"model mine:Model: `{member}` is no member of a model; did you mean `{meant}`"
    with pytest.raises(UsageError, match=re.escape(words)):
        validated("mine:Model", changed(**{member: True}))


@pytest.mark.parametrize("member", ["owner", "owners", "size", "is_opaque", "first", "factor", "_ownd"])
def test_a_member_of_another_name_is_fine(member: str) -> None:
    assert validated("mine:Model", changed(**{member: True})).name == "tally"


@pytest.mark.parametrize("name", models.names())
def test_no_member_of_a_built_in_model_is_taken_for_a_misspelled_one(name: str) -> None:
    found = models.model(name)
    assert validated(name, found) is found


def test_a_close_name_beside_the_optional_member_is_fine() -> None:
    assert validated("mine:Model", changed(owned=True, ownd=1)).name == "tally"


@pytest.mark.parametrize("name", [f"{HERE}:Tally", f"{HERE}:TALLY", f"{HERE}:Sized(3)", f"{HERE}:Sized([1])"])
def test_a_model_is_named_by_object_or_class_with_its_parameter(name: str) -> None:
    model = models.model(name)
    assert model.name == "tally"
    assert getattr(model, "size", None) in (None, 3, (1,))
    assert check_ops(hits(3), model).valid == "true"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{HERE}:Tally(3)", "takes no parameter"),
        (f"{HERE}:TALLY(3)", "is an object and takes no parameter"),
        (f"{HERE}:Sized", "needs a parameter, JSON in parentheses"),
        (f"{HERE}:Sized(", "there is no model"),
        (f"{HERE}:hits", "is not a model: it lacks name"),
        (f"{HERE}:Missing", "cannot be imported"),
        ("no.such.module:Model", "cannot be imported"),
    ],
)
def test_a_model_that_cannot_be_made_is_refused(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        models.model(name)
