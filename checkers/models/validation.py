"""What a user's own model must be, said before and while it judges."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from splitbrain.checkers.models.model import Model, Special, State, is_built_in
from splitbrain.results.errors import UsageError

Step: TypeAlias = Callable[[State, str, Any, Any], State | Special]

STEPS_EXAMINED: Final = 1_000
"""The number of first steps of a user's model that are computed twice."""

_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "init": (),
    "step": ("state", "f", "value", "result"),
    "observes": ("f", "value", "result"),
}
_OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "overwrites": ("f", "value", "result"),
    "facts": ("f", "value", "result"),
    "at_first": ("place",),
    "signature": ("calls",),
}
_FLAGS: Final = ("owned", "opaque")
_CLOSE: Final = 0.81
"""From this similarity on (`difflib`) a member is taken for a misspelled optional one; `owner` (0.8) is a fine name."""


def validated(location: str, found: Any) -> Model:
    """The object at `location`, if it is a model.

    Raises:
        UsageError: it lacks a member, a member is nearly named like an optional one, a method takes other arguments, or
            its initial state cannot be a state.
    """
    missing = [member for member in ("name", "fs", *_METHODS) if not hasattr(found, member)]
    if missing:
        raise UsageError(f"{location} is not a model: it lacks {', '.join(missing)}.")
    if not isinstance(found.name, str) or not found.name:
        raise UsageError(f"model {location}: `name` is {found.name!r}; give it a text.")
    if not _are_names(found.fs):
        raise UsageError(
            f"model {location}: `fs` is {found.fs!r}; give the names of its functions, a frozenset of texts."
        )
    for method, parameters in {**_METHODS, **_OPTIONAL}.items():
        if hasattr(found, method):
            _refuse_other_arguments(location, found, method, parameters)
    _refuse_misspelled_members(location, found)
    model = cast(Model, found)
    _refuse_initial_state(location, model)
    return model


def _are_names(fs: Any) -> bool:
    if not isinstance(fs, frozenset | set | tuple | list):
        return False
    names = tuple(cast("set[Any]", fs))
    return bool(names) and all(isinstance(name, str) for name in names)


def _refuse_other_arguments(location: str, found: Any, method: str, parameters: tuple[str, ...]) -> None:
    try:
        inspect.signature(getattr(found, method)).bind(*parameters)
    except TypeError as error:
        expected = f"{method}({', '.join(('self', *parameters))})"
        raise UsageError(f"model {location}: `{method}` does not fit ({error}): define {expected}.") from error


def _refuse_misspelled_members(location: str, found: Any) -> None:
    """Refuse names such as `ownd`: the model would be judged as if it had no such member, without a word."""
    optional = (*_OPTIONAL, *_FLAGS)
    for member in dir(found):
        if member.startswith("_") or member in (*_METHODS, *optional):
            continue
        close = difflib.get_close_matches(member, optional, n=1, cutoff=_CLOSE)
        if close and not hasattr(found, close[0]):
            raise UsageError(
                f"model {location}: `{member}` is no member of a model; did you mean `{close[0]}`? Otherwise begin its "
                f"name with an underscore."
            )


def _refuse_initial_state(location: str, model: Model) -> None:
    try:
        state, again = model.init(), model.init()
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"model {location}: `init` failed: {type(error).__name__}: {error}.") from error
    try:
        hash(state)
    except TypeError as error:
        raise UsageError(
            f"model {location}: its initial state {state!r} is not hashable: use tuples and frozensets."
        ) from error
    if isinstance(state, Special):
        raise UsageError(f"model {location}: `init` answers {state}, which is no state.")
    if state != again:
        raise UsageError(
            f"model {location}: `init` gives {state!r}, then {again!r}: give equal states, and define __eq__ and "
            "__hash__ where a state is an object of your own."
        )


def examined(model: Model) -> Step:
    """The model's step; a user's is watched for a while for what would make a search meaningless.

    The function that is returned raises UsageError if the step changes the state that it is given, answers what is no
    state, or answers the same question in two ways.
    """
    if is_built_in(model):
        return model.step
    left = STEPS_EXAMINED

    def step(state: State, f: str, value: Any, result: Any) -> State | Special:
        nonlocal left
        if not left:
            return model.step(state, f, value, result)
        left -= 1
        before, said = hash(state), repr(state)
        following = model.step(state, f, value, result)
        if hash(state) != before:
            raise UsageError(
                f"model {model.name!r} changed the state {said} that {f} was asked in, to {state!r}: make a new state."
            )
        if following in (Special.UNKNOWN, Special.ANY):
            raise UsageError(f"model {model.name!r} answers {f} with {following}: answer a state, or IMPOSSIBLE.")
        again = model.step(state, f, value, result)
        if again != following:
            raise UsageError(
                f"model {model.name!r} answers {f} in the state {said} with {following!r}, then with {again!r}: `step` "
                "must depend on its arguments only, and states must be compared by what they hold."
            )
        return following

    return step
