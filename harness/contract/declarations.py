"""What a system declares, checked once when a test is made: a mistake is an error then, and not a silent gap."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path  # noqa: TID251 - for types; the backends do the work
from typing import Any, Final, NamedTuple, cast, get_args

from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.discovery import Discovery
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.groups import Groups
from splitbrain.harness.contract.membership import Learners, Membership
from splitbrain.harness.contract.migrations import Migrations
from splitbrain.harness.contract.moments import SystemMarks
from splitbrain.harness.contract.operations import group_named, lacking
from splitbrain.harness.contract.read_modes import READ, SESSION_READS, ReadMode, ReadPromise
from splitbrain.harness.contract.settings import Setting
from splitbrain.harness.contract.transfer import Transfer
from splitbrain.results.errors import UsageError

_METHODS: Final = ("command", "connect", "view", "telemetry")
_OF_CLIENTS: Final = ("open", "setup", "invoke", "close")
_OF_MEMBERSHIP: Final = tuple(name for name in vars(Membership) if not name.startswith("_"))
_OF_UPGRADES: Final = ("begin", "version", "choose", "in_force")
_OF_LEARNERS: Final = tuple(name for name in vars(Learners) if not name.startswith("_"))
_OF_MIGRATIONS: Final = tuple(name for name in vars(Migrations) if not name.startswith("_"))
_OF_TRANSFER: Final = tuple(name for name in vars(Transfer) if not name.startswith("_"))
_OF_DISCOVERY: Final = tuple(name for name in vars(Discovery) if not name.startswith("_"))
_OF_GROUPS: Final = tuple(name for name in vars(Groups) if not name.startswith("_"))


class _Rule(NamedTuple):
    """What a value must be, and how that is said."""

    holds: Callable[[Any], bool]
    words: str


def check_system(system: Any) -> None:
    """Refuse a system that lacks a member of its protocol, or that declares what cannot be.

    Raises:
        UsageError: it does; the message names the system, the member or field, and what belongs there.
    """
    name = getattr(system, "name", None) or type(system).__name__
    for member, rule in _MEMBERS.items():
        if not hasattr(system, member):
            raise UsageError(f"system {name!r} has no {member!r}: add it, {rule.words} (splitbrain.System).")
        _require(name, member, getattr(system, member), rule)
    _check_capabilities(name, system.capabilities)
    _check_sessions(name, system)


def _check_capabilities(system: str, declared: Capabilities) -> None:
    for field, rule in _FIELDS.items():
        _require(system, f"capabilities.{field}", getattr(declared, field), rule)
    for field, rule in _ELECTIONS.items() if declared.elections is not None else ():
        _require(system, f"capabilities.elections.{field}", getattr(declared.elections, field), rule)
    for group in sorted(declared.operations):
        try:
            group_named(group)
        except UsageError as error:
            raise UsageError(f"system {system!r}, capabilities.operations: {error}") from error


def check_workload(workload: Any) -> None:
    """Refuse a workload whose names are no collections of names, or whose client lacks a method.

    Raises:
        UsageError: so it is; the message names the workload, the field, and what belongs there.
    """
    for field, rule in _OF_WORKLOADS.items():
        value = getattr(workload, field)
        if not rule.holds(value):
            raise UsageError(f"workload {workload.name!r}: {field} is {value!r:.80}; it must be {rule.words}.")
    if isinstance(workload.client, type):
        raise UsageError(f"workload {workload.name!r}: its client is a class: give {workload.client.__name__}().")
    lacks = [name for name in _OF_CLIENTS if not callable(getattr(workload.client, name, None))]
    if lacks:
        raise UsageError(
            f"workload {workload.name!r}: its client {type(workload.client).__name__} has no {', no '.join(lacks)}: a "
            f"client has the methods {', '.join(_OF_CLIENTS)}, as a splitbrain.SessionClient has."
        )


def _require(system: str, member: str, value: object, rule: _Rule) -> None:
    if not rule.holds(value):
        raise UsageError(f"system {system!r}: {member} is {value!r:.80}; it must be {rule.words}.")


def _check_sessions(name: str, system: Any) -> None:
    """Refuse operations that sessions do not have, where `connect` says of which class they are."""
    session = _session_class(getattr(system.connect, "__func__", system.connect))
    if session is None:
        return
    for group in sorted(system.capabilities.operations):
        missing = lacking(session, group_named(group))
        if missing:
            raise UsageError(
                f"system {name!r}: capabilities.operations has {group!r}, but {session.__name__}, which connect "
                f"returns, lacks {', '.join(missing)}. Add these methods, or leave {group!r} out."
            )


@lru_cache(maxsize=32)
def _session_class(connect: Callable[..., Any]) -> type | None:
    """The class that `connect` is annotated to return; None if that says nothing of methods.

    A protocol, Any, a class that finds its methods at run time and an annotation that cannot be evaluated say nothing.
    Each session is checked again when it is opened, so that nothing depends on the annotation alone.
    """
    try:
        found = typing.get_type_hints(connect).get("return")
    except (NameError, TypeError, AttributeError, SyntaxError):
        return None
    if not isinstance(found, type) or found is Any or hasattr(found, "__getattr__"):
        return None
    return None if getattr(found, "_is_protocol", False) else found


# --- rules ----------------------------------------------------------------------------------------------------------


def _mapping_of(keys: type, values: type | tuple[type, ...]) -> Callable[[object], bool]:
    def holds(value: object) -> bool:
        if not isinstance(value, Mapping):
            return False
        known = cast("Mapping[object, object]", value)
        return all(isinstance(key, keys) and isinstance(each, values) for key, each in known.items())

    return holds


def _groups(value: object) -> bool:
    if not _mapping_of(str, (str, tuple))(value):
        return False
    return all(isinstance(each, str) or _texts(tuple)(each) for each in cast("Mapping[str, object]", value).values())


def _names_and_counts(value: object) -> bool:
    counts = _mapping_of(str, int)(value)
    return counts and all(each >= 1 and each is not True for each in cast("Mapping[str, int]", value).values())


def _by_setting(value: object) -> bool:
    if not isinstance(value, tuple):
        return False
    for each in cast("tuple[object, ...]", value):
        if not isinstance(each, tuple) or len(cast("tuple[object, ...]", each)) != 3:
            return False
        name, at, fs = cast("tuple[object, object, object]", each)
        if not _is_name(name) or not isinstance(at, int) or not _texts(frozenset)(fs):
            return False
    return True


def _kinds_and_reasons(value: object) -> bool:
    texts = _mapping_of(str, str)(value)
    return texts and all(kind in get_args(FaultKind) for kind in cast("Mapping[str, str]", value))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _texts(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds) and all(_is_name(each) for each in cast("Any", value))


def _modes(value: object) -> bool:
    known: tuple[object, ...] = get_args(ReadMode)
    modes = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    return bool(modes) and all(mode in known for mode in modes)


def _session_reads(value: object) -> bool:
    if not _mapping_of(str, ReadPromise)(value):
        return False
    reads = cast("Mapping[str, ReadPromise]", value)
    known = {*reads, "write"}
    if not set(reads) <= set(SESSION_READS):
        return False
    return not reads or (READ in reads and all(known.issuperset(promise.follows) for promise in reads.values()))


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _bound(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def _instance(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind)


def _none_or(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


def _with(*methods: str) -> Callable[[object], bool]:
    return lambda value: all(callable(getattr(value, method, None)) for method in methods)


_MEMBERS: Final[Mapping[str, _Rule]] = {
    "name": _Rule(_is_name, "the name as given to --system"),
    "bugs": _Rule(_mapping_of(str, str), "a mapping from switches to a line on each, such as {}"),
    "election_timeout_s": _Rule(_number, "a number of seconds above 0"),
    "capabilities": _Rule(_instance(Capabilities), "a Capabilities(...)"),
    **{method: _Rule(callable, "a method") for method in _METHODS},
}

_FIELDS: Final[Mapping[str, _Rule]] = {
    "operations": _Rule(_texts(frozenset), 'a frozenset of names, such as frozenset({"key-value"})'),
    "read_modes": _Rule(_modes, f"a tuple of one or more of {', '.join(get_args(ReadMode))}"),
    "isolations": _Rule(_texts(tuple), 'a tuple of names of levels, such as ("read-committed", "serializable")'),
    "session_reads": _Rule(
        _session_reads,
        f"{{}}, or a mapping from {READ!r} and any of {', '.join(SESSION_READS[1:])} to ReadPromise(...)s, which "
        "follow these or 'write'",
    ),
    "isolation": _Rule(_is_name, "the name of a consistency model (docs/transactions.md)"),
    "elections": _Rule(_none_or(_instance(Elections)), "an Elections(...), or None"),
    "membership": _Rule(_none_or(_with(*_OF_MEMBERSHIP)), f"None, or have {', '.join(_OF_MEMBERSHIP)}"),
    "upgrades": _Rule(_none_or(_with(*_OF_UPGRADES)), f"None, or have newest, {', '.join(_OF_UPGRADES)}"),
    "transfer": _Rule(_none_or(_with(*_OF_TRANSFER)), f"None, or have {', '.join(_OF_TRANSFER)}"),
    "migrations": _Rule(_none_or(_with(*_OF_MIGRATIONS)), f"None, or have second, {', '.join(_OF_MIGRATIONS)}"),
    "learners": _Rule(_none_or(_with(*_OF_LEARNERS)), f"None, or have {', '.join(_OF_LEARNERS)}"),
    "groups": _Rule(_none_or(_with(*_OF_GROUPS)), f"None, or have {', '.join(_OF_GROUPS)}"),
    "discovery": _Rule(_none_or(_with(*_OF_DISCOVERY)), f"None, or have {', '.join(_OF_DISCOVERY)}"),
    "gives_up": _Rule(_instance(str), "the name of an error, or an empty text"),
    "last_words": _Rule(_none_or(callable), "None, or a function that takes a log and returns a line"),
    "shared_sessions": _Rule(_instance(bool), "true or false"),
    "standbys": _Rule(_instance(bool), "true or false"),
    "image": _Rule(_none_or(_is_name), "the name of an image, or None"),
    "image_for": _Rule(_none_or(callable), "None, or a function that returns the name of an image"),
    "uploads": _Rule(_mapping_of(str, Path), "a mapping from names to paths"),
    "programs": _Rule(_mapping_of(str, str), "a mapping from programs to Debian's packages"),
    "release": _Rule(_none_or(callable), "None, or a function that returns a Release(...) or None"),
    "imports": _Rule(_texts(tuple), "a tuple of modules"),
    "one_address": _Rule(_instance(bool), "true or false"),
    "start_s": _Rule(_number, "a number of seconds above 0"),
    "slow_worlds": _Rule(_instance(bool), "true or false"),
    "immune": _Rule(
        _kinds_and_reasons, f"a mapping from kinds of fault to reasons; the kinds are {', '.join(get_args(FaultKind))}"
    ),
    "settings": _Rule(_mapping_of(str, Setting), "a mapping from names to Setting(...)"),
    "simulation": _Rule(
        _none_or(_with("embed")), "None, or have embed (splitbrain.harness.contract.embedding.Embeddable)"
    ),
    "recovery": _Rule(
        _none_or(_with("recover")), "None, or have recover (splitbrain.harness.contract.embedding.Recoverable)"
    ),
    "telemetry_checkers": _Rule(_none_or(callable), "None, or a function that returns names of checkers"),
    "observation": _Rule(
        _none_or(_with("observe")), "None, or have observe (splitbrain.harness.contract.observing.Observable)"
    ),
    "count_marks": _Rule(_none_or(callable), "None, or a function that returns a context"),
    "marks": _Rule(_none_or(_instance(SystemMarks)), "a SystemMarks(...), or None"),
}
"""One rule for each field of `Capabilities`."""

_SECONDS: Final = _Rule(_bound, "a number of seconds, 0 or more")

_ELECTIONS: Final[Mapping[str, _Rule]] = {
    "timeout_s": _Rule(_number, "a number of seconds above 0"),
    "recovery_s": _Rule(_none_or(_bound), "a number of seconds, 0 or more, or None"),
    "recovery_per_outage": _Rule(_bound, "a number, 0 or more"),
    "outage_limit_s": _SECONDS,
    "lease_s": _SECONDS,
    "lease_setting": _Rule(_instance(str), "the name of a setting, or an empty text"),
    "local": _Rule(_texts(frozenset), 'a frozenset of functions of ops, such as frozenset({"read"})'),
    "local_where": _Rule(_by_setting, "a tuple of (name of a setting, its value, frozenset of functions of ops)"),
    "group": _Rule(_instance(str), "the name of a group, or an empty text"),
    "scaled_by": _Rule(_names_and_counts, "a mapping from names of settings to whole numbers of 1 or more"),
    "own_groups": _Rule(_groups, "a mapping from operations to patterns of names of groups, or tuples of them"),
}
"""One rule for each field of `Elections`."""

_OF_WORKLOADS: Final[Mapping[str, _Rule]] = {
    "fs": _Rule(_texts(tuple, list), 'a tuple of functions of ops, such as ("read",)'),
    "needs": _Rule(_texts(frozenset, set), 'a frozenset of groups of operations, such as frozenset({"key-value"})'),
    "local": _Rule(_texts(frozenset, set), 'a frozenset of functions of ops, such as frozenset({"read"})'),
}
"""One rule for each field of `Workload` that has names: a text would be taken for its letters."""
