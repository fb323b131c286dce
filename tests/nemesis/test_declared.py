"""What the author of a kind of fault mistyped or left out is an error before a run, which says where it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from examples.own_nemesis import EXILE, Exile, ExileRequest
from splitbrain.harness.contract.faults import LinkFault
from splitbrain.nemesis import catalogue
from splitbrain.nemesis.compose import Composed
from splitbrain.nemesis.kinds import Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.results.errors import UsageError

THREE = ("n1", "n2", "n3")


def ways(*given: Injection) -> dict[str, Ways]:
    return {"exile": Ways((given,), "cuts off")}


def way(request: Mapping[str, Any], **fields: Any) -> dict[str, Ways]:
    return ways(Injection(request, nodes=2, **cast("Any", {"needs": ("cut",), **fields})))


needs_a_typing_error = always(cast("Any", "cutt"))


def returns_a_text(_: Any) -> Any:
    return "cut"


def asks_for_more(request: Any) -> Any:
    return request.spoil


def drawn(*_: Any) -> dict[str, Any]:
    return {"one_way": True}


ONE = Injection({})

IN_WAY = "the way 'exile' of kind of fault 'exile'"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"needs": needs_a_typing_error},
            "no fault 'cutt' .* in what needs.* example of kind of fault 'exile'. .* 'cut'",
        ),
        ({"needs": returns_a_text}, "'cut' is no collection of names"),
        ({"needs": asks_for_more}, r"example of kind of fault 'exile': its needs\(\) raised Attribute"),
        (
            {"example": "{spec"},
            "kind of fault 'exile' is '{spec'; it must be a request as a JSON object",
        ),
        ({"example": '["leader"]'}, "it must be a request as a JSON object"),
        ({"example": '{"spce": "leader"}'}, "no field 'spce' in the example of kind .* Did you mean 'spec'"),
        ({"example": '{"spec": "laeder"}'}, "no node spec 'laeder' in the example of kind .* Did you mean 'leader'"),
        ({"example": '{"one_way": "yes"}'}, "the example of kind of fault 'exile': one_way is 'yes': Expected `bool`"),
        ({"marks": ("node bouncd",)}, "no coverage mark 'node bouncd' in the marks of kind of fault 'exile'. Did you"),
        ({"marks": "node bounced"}, "the marks of kind of fault 'exile': 'node bounced' is no collection of names"),
        ({"nemesis": Exile()}, "kind of fault 'exile': its nemesis is .*; it must be a class, or a function"),
        ({"ways": way({"spce": "leader"})}, f"no field 'spce' in {IN_WAY}. Did you mean 'spec'"),
        ({"ways": way({"spce": "leader"}, figures=drawn)}, f"no field 'spce' in {IN_WAY}"),
        ({"ways": way({"spec": "laeder"})}, f"no node spec 'laeder' in {IN_WAY}. Did you mean 'leader'"),
        ({"ways": way({"spec": "laeder"}, figures=drawn)}, f"no node spec 'laeder' in {IN_WAY}"),
        ({"ways": way({"spec": 3}, figures=drawn)}, f"{IN_WAY}: spec is 3: Expected `str"),
        ({"ways": way({"order": THREE})}, f"{IN_WAY}: every request has order of its own: remove it"),
        ({"ways": way({}, needs=("disk-ful",))}, f"no fault 'disk-ful' .* in the needs of {IN_WAY}. .* 'disk-full'"),
        ({"ways": way({}, needs="cut")}, f"the needs of {IN_WAY}: 'cut' is no collection of names"),
        (
            {"ways": {"exile": Ways(cast("Any", (ONE,)), "")}},
            rf"{IN_WAY}: Injection.* is no group of Injection\(...\)",
        ),
    ],
)
def test_a_typing_error_in_a_kind_is_an_error_when_it_is_made(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        dataclasses.replace(EXILE, **fields)


class LinksRequest(ExileRequest, tag="links", frozen=True, kw_only=True):
    """A request with descriptions of faults in it, one of them for each node."""

    disturb: LinkFault
    each: dict[str, LinkFault] = msgspec.field(default_factory=dict[str, LinkFault])


def links(request: Mapping[str, Any], **fields: Any) -> Kind[LinksRequest]:
    given = {"request": LinksRequest, "example": '{"disturb": {"loss": 0.5}}', "ways": way(request, **fields)}
    return dataclasses.replace(EXILE, **given)  # type: ignore[return-value]


def test_what_is_drawn_later_may_be_left_out_and_nothing_else() -> None:
    assert links({}, figures=drawn).name == "links"
    with pytest.raises(UsageError, match=r"the way 'exile' of kind of fault 'links': .* required field `disturb`"):
        links({})


def test_fields_are_checked_inside_of_fields_too() -> None:
    with pytest.raises(UsageError, match=r"no field 'los' in disturb of the way .* Did you mean 'loss'"):
        links({"disturb": {"los": 0.5}})
    with pytest.raises(UsageError, match=r"no field 'los' in n1 of each of the way"):
        links({"disturb": {"loss": 0.5}, "each": {"n1": {"los": 0.5}}})
    with pytest.raises(UsageError, match=r"disturb is .*loss"):
        links({"disturb": {"loss": 7.0}}, figures=drawn)


def test_a_kind_whose_ops_are_always_over_may_say_so_in_its_ways() -> None:
    assert dataclasses.replace(EXILE, over=True, ways=way({"over": True})).over
    with pytest.raises(UsageError, match="no field 'over'"):
        dataclasses.replace(EXILE, ways=way({"over": True}))


# --- nemeses ----------------------------------------------------------------------------------------------------------


class Lacking:
    """What is there of a nemesis is set from outside."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger


def lacking(*names: str, **instead: Any) -> Any:
    """A factory of a nemesis that lacks these members, and has others instead of those of EXILE's."""
    members = {name: getattr(Exile, name) for name in ("fs", "faults", "invoke", "heal") if name not in names}
    return type("Lacking", (Lacking,), {**members, **instead})


def failing(ledger: Ledger) -> Any:
    raise KeyError("x")


def without_ledger() -> Any:
    return Exile()


def a_class(ledger: Ledger) -> Any:
    return Exile


FACTORIES: dict[str, Any] = {
    "NO_FS": lacking("fs"),
    "NO_FAULTS": lacking("faults"),
    "NO_INVOKE": lacking("invoke"),
    "NO_HEAL": lacking("heal", "faults"),
    "OTHER_OPS": lacking(fs=frozenset({"exlie", "return"})),
    "OPS_IN_A_TEXT": lacking(fs="exile return"),
    "TYPING_ERROR": lacking(faults=frozenset({"cuts"})),
    "NO_FAULT": lacking(faults=frozenset[str]()),
    "NO_LEDGER": without_ledger,
    "A_CLASS": a_class,
    "FAILS": failing,
}
globals().update({name: dataclasses.replace(EXILE, nemesis=factory) for name, factory in FACTORIES.items()})


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("NO_FS", "Lacking has no fs: a nemesis has fs, faults, invoke and heal"),
        ("NO_FAULTS", "Lacking has no faults"),
        ("NO_INVOKE", "Lacking has no invoke"),
        ("NO_HEAL", "Lacking has no faults and no heal"),
        ("OTHER_OPS", r"does not handle the op 'exile': add it to its fs \(exlie, return\)"),
        ("OPS_IN_A_TEXT", "'exile return' is no collection of names"),
        ("TYPING_ERROR", "Did you mean 'cut'"),
        ("NO_FAULT", "does not list 'cut', which its kind needs: add it to its faults"),
        ("NO_LEDGER", "too many positional arguments; its kind calls .* with the ledger of the test"),
        ("A_CLASS", "Exile is a class where a nemesis is needed"),
        ("FAILS", "cannot be made: KeyError: 'x'. Correct its code"),
    ],
)
def test_what_is_no_nemesis_is_refused_before_a_run_by_its_name(name: str, problem: str) -> None:
    with pytest.raises(UsageError, match=rf"nemesis '{__name__}:{name}'.*{problem}"):
        catalogue.build([f"{__name__}:{name}"], nodes=THREE)


def test_what_is_no_nemesis_is_not_composed() -> None:
    with pytest.raises(UsageError, match="nemesis Lacking: Lacking has no heal"):
        Composed([lacking("heal")(Ledger())])


def test_all_built_in_nemeses_list_what_they_need() -> None:
    for name in catalogue.NEMESES:
        assert catalogue.build([name]).nemesis is not None
