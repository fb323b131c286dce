"""Models by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable
from typing import Any, Final, cast

import msgspec

from splitbrain.checkers.models.counters import Counter, UniqueIds
from splitbrain.checkers.models.key_values import KeyValue
from splitbrain.checkers.models.locks import FencedMutex, Mutex, OwnerMutex, ReentrantMutex, Semaphore
from splitbrain.checkers.models.model import Model, apart, frozen
from splitbrain.checkers.models.queues import FifoQueue, PriorityQueue, Stack, UnorderedQueue
from splitbrain.checkers.models.registers import CasRegister, CreateOnce, MultiRegister, ReadModes, Register
from splitbrain.checkers.models.sets import GrowSet, Set
from splitbrain.checkers.models.trees import Tree
from splitbrain.checkers.models.validation import validated
from splitbrain.results import plugins
from splitbrain.results.errors import UnknownNameError, UsageError

_MODELS: Final[dict[str, Callable[..., Model]]] = {
    model.name: model
    for model in (
        Register,
        CasRegister,
        MultiRegister,
        ReadModes,
        CreateOnce,
        KeyValue,
        Mutex,
        OwnerMutex,
        ReentrantMutex,
        FencedMutex,
        Semaphore,
        Set,
        GrowSet,
        FifoQueue,
        UnorderedQueue,
        PriorityQueue,
        Stack,
        Counter,
        UniqueIds,
        Tree,
    )
}

_NAME: Final = re.compile(r"(?P<base>[^()]+)(?:\((?P<parameter>.*)\))?", re.DOTALL)


def names() -> list[str]:
    """Names of all models, sorted."""
    return sorted(_MODELS)


def is_own(name: str) -> bool:
    """Whether a model of splitbrain has that name, with or without a parameter."""
    split = _NAME.fullmatch(name)
    return split is not None and split["base"] in _MODELS


def model(name: str) -> Model:
    """The model of that name, or the one at `module:attribute` (an instance, or a class).

    Either may end in a parameter, JSON in parentheses, with which the class is called: `semaphore(2)`,
    `register("a")`, `my.module:Account(100)`.

    Raises:
        UnknownNameError: there is none of that name.
        UsageError: the parameter does not fit, `module:attribute` cannot be imported, or it is not a model.
    """
    split = _NAME.fullmatch(name)
    if split is None:
        raise UnknownNameError("model", name, _MODELS)
    base, text = split["base"], split["parameter"]
    arguments = () if text is None else (_parameter(name, text),)
    make = _MODELS.get(base)
    if make is None:
        return _imported(base, arguments)
    if arguments and not parameter(make):
        raise UsageError(f"model {base!r} takes no parameter: leave out ({text}).")
    return make(*(map(apart, arguments) if getattr(make, "opaque", None) is not None else arguments))


def parameter(described: object) -> str:
    """What the parameter of a model, or of its class, stands for; empty if it takes none."""
    return getattr(described, "parameter", "")


def _parameter(name: str, text: str) -> Hashable:
    try:
        return frozen(msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise UsageError(f"model {name!r}: its parameter {text!r} is not JSON ({error}). Quote a string.") from error


def _imported(location: str, arguments: tuple[Hashable, ...]) -> Model:
    found: Any = plugins.find("model", location, _MODELS)
    if isinstance(found, type):
        return validated(location, _made(location, cast("type[Any]", found), arguments))
    if arguments:
        raise UsageError(f"model {location} is an object and takes no parameter: name a class, or leave it out.")
    return validated(location, found)


def _made(location: str, described: type[Any], arguments: tuple[Hashable, ...]) -> Any:
    try:
        inspect.signature(described).bind(*arguments)
    except TypeError as error:
        wanted = "takes no parameter" if arguments else "needs a parameter, JSON in parentheses"
        raise UsageError(f"model {location} {wanted} ({error}).") from error
    return described(*arguments)
