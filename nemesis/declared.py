"""What a kind of fault declares, checked before a run: a typing error is an error then, and not a silent gap."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any, Final, cast, get_args, get_origin

import msgspec

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import MARKS
from splitbrain.harness.contract.test import Nemesis
from splitbrain.nemesis.checks import check_name
from splitbrain.results.errors import UnknownNameError, UsageError
from splitbrain.results.nemesisop import Request, RequestOfNodes, asked, own_fields

FAULTS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)

_METHODS: Final = ("invoke", "heal")


def check_faults(what: str, given: object) -> None:
    """Refuse what names no faults of backends (FaultKind).

    Raises:
        UsageError: it is no collection of names; or one is unknown (UnknownNameError).
    """
    for name in _names(what, given, '("cut",)'):
        if name not in FAULTS:
            raise UnknownNameError("fault", name, FAULTS, f"that a backend injects, in {what}")


def check_marks(what: str, given: object) -> None:
    """Refuse what names no coverage marks.

    Raises:
        UsageError: as of `check_faults`.
    """
    for name in _names(what, given, '("node bounced",)'):
        if name not in MARKS:
            raise UnknownNameError("coverage mark", name, MARKS, f"in {what}")


def check_example(what: str, example: str, of: type[Request], specs: Collection[str]) -> Request:
    """The request that an example in JSON stands for.

    Args:
        what: where it stands, for messages.
        example: a request as a person writes it.
        of: the kind's own request.
        specs: the node specs that its requests may name.

    Raises:
        UsageError: it is no JSON object, or not such a request.
    """
    try:
        value = msgspec.json.decode(example, type=dict[str, Any])
    except (msgspec.MsgspecError, TypeError) as error:
        raise UsageError(f"{what} is {example!r:.80}; it must be a request as a JSON object: {error}.") from None
    return check_request(what, value, of, specs)


def check_request(what: str, value: Mapping[str, Any], of: type[Request], specs: Collection[str]) -> Request:
    """A whole request, decoded.

    Args:
        what: where it stands, for messages.
        value: the request.
        of: the kind's own request.
        specs: the node specs that its requests may name.

    Raises:
        UsageError: a field is missing or wrong; a field or a node spec is unknown (UnknownNameError).
    """
    check_template(what, own_fields(dict(value)), of, specs)
    try:
        return asked(dict(value), of)
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None


def check_template(what: str, value: Mapping[str, Any], of: type[Request], specs: Collection[str]) -> None:
    """Refuse a request whose rest is drawn later, if what it has already is wrong.

    Args:
        what, value, of, specs: as of `check_request`.

    Raises:
        UsageError: as of `check_request`, but fields may be missing.
    """
    _check_names(what, value, of)
    for name, each in value.items():
        try:
            msgspec.convert(each, _fields(of)[name])
        except (msgspec.ValidationError, UsageError) as error:
            raise UsageError(f"{what}: {name} is {each!r:.80}: {str(error).rstrip('.')}.") from None
    if issubclass(of, RequestOfNodes) and value.get("spec") is not None:
        check_name("node spec", value["spec"], specs, f"in {what}")


def check_nemesis(what: str, nemesis: Nemesis, ops: Iterable[str] = (), needs: Iterable[FaultKind] = ()) -> None:
    """Refuse what is no nemesis, or lacks an op or a fault that it must have.

    Args:
        what: how errors name it ("nemesis 'kill'").
        nemesis: the object.
        ops: the functions of ops that it must handle.
        needs: the faults that its requests ask of a backend.

    Raises:
        UsageError: so it is.
    """
    if isinstance(nemesis, type):
        raise UsageError(f"{what}: {nemesis.__name__} is a class where a nemesis is needed: make an instance of it.")
    where = f"{what}: {type(nemesis).__name__}"
    lacking = [name for name in ("fs", "faults") if not hasattr(nemesis, name)]
    lacking += [name for name in _METHODS if not callable(getattr(nemesis, name, None))]
    if lacking:
        raise UsageError(f"{where} has no {' and no '.join(lacking)}: a nemesis has fs, faults, invoke and heal.")
    handled = _names(f"fs of {where}", nemesis.fs, 'frozenset({"kill", "start"})')
    for op in ops:
        if op not in handled:
            raise UsageError(f"{where} does not handle the op {op!r}: add it to its fs ({', '.join(sorted(handled))}).")
    check_faults(f"faults of {where}", nemesis.faults)
    for need in needs:
        if need not in nemesis.faults:
            raise UsageError(f"{where} does not list {need!r}, which its kind needs: add it to its faults.")


def _names(what: str, given: object, example: str) -> Collection[str]:
    """The names in a collection; a text is none, though it can be iterated.

    Raises:
        UsageError: it is no collection of texts.
    """
    if isinstance(given, str) or not isinstance(given, Collection):
        raise UsageError(f"{what}: {given!r:.80} is no collection of names: give one, such as {example}.")
    names = cast("Collection[object]", given)
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"{what}: {name!r:.80} is no name: give a text, as in {example}.")
    return cast("Collection[str]", names)


# --- fields -----------------------------------------------------------------------------------------------------------


@cache
def _fields(of: type[msgspec.Struct]) -> dict[str, Any]:
    """The types of the fields of a request, or of a part of one."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(of)}


def _check_names(what: str, value: object, of: Any) -> None:
    """Refuse a field that a type does not have, also further inside: decoding ignores it."""
    if not isinstance(value, Mapping):
        return
    given = cast("Mapping[str, object]", value)
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        fields = _fields(of)
        for name, each in given.items():
            if name not in fields:
                raise UnknownNameError("field", name, [each for each in fields if each != "order"], f"in {what}")
            _check_names(f"{name} of {what}", each, fields[name])
    elif get_origin(of) is dict:
        for name, each in given.items():
            _check_names(f"{name} of {what}", each, get_args(of)[1])
