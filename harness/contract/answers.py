"""What the operations of the built-in groups may answer, by their names.

A node that mixes up its replies answers a question for a mapping with a number. No client can deal with that, so no
client sees it: each session is wrapped (`splitbrain.harness.validate.systems`), and an answer of a wrong shape is a
`NonsenseError`. The op ends as `info`, and the checker `answers` judges it. Whether a value of the right shape is the
right one is for the other checkers to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NotRequired, TypeAlias, TypedDict, cast

import msgspec

from splitbrain.harness.contract.brokers import Delivery
from splitbrain.harness.contract.sessions import Mop

_Pair: TypeAlias = tuple[Any, Any]
Asked: TypeAlias = Callable[[Sequence[Any]], "Shape"]
"""Gives the shape of the answers to a call with these arguments."""


class Runs(TypedDict):
    """What `Triggers.read_runs` answers."""

    changes: int | None
    runs: list[tuple[int, str, int]]


class Projected(TypedDict):
    """What `Topology.projected` answers."""

    tree: list[list[Any]]
    tables: list[list[Any]]
    routes: list[tuple[str, str, str, list[Any]]]


class Replicas(TypedDict):
    """What `MaintainedReplicas.replicas` answers."""

    members: list[str]
    cluster: list[str]
    last: int
    change: tuple[int, str, str, str, str | None] | None
    changes: list[tuple[int, str, str, str, str | None]]


class Read(TypedDict):
    """What `Streams.read_stream` answers."""

    values: list[int]
    end: int
    first: NotRequired[int]


class Flags(TypedDict):
    """What `FeatureFlags.list_flags` answers."""

    enabled: list[int]
    changing: list[int]
    needs: list[list[int]]


class Formed(TypedDict):
    """What `Formation.formed` answers."""

    phase: str
    founded: bool
    members: list[str]
    problem: str | None


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of an answer's value.

    Attributes:
        type: as msgspec converts to it; nothing is made into something else.
        words: what the operation answers, for a sentence that begins with "expected was".
        holds: what the type cannot say, of a value that has the type.
    """

    type: Any
    words: str
    holds: Callable[[Any], bool] | None = None

    def fits(self, value: object) -> bool:
        """Whether a value has this shape."""
        try:
            found = msgspec.convert(value, self.type)
        except msgspec.ValidationError:
            return False
        return self.holds is None or self.holds(found)


_WHETHER: Final = Shape(bool, "whether it did so: true or false")
_TOKEN: Final = Shape(int | None, "the fencing token, a whole number, or None")
_SUM: Final = Shape(int, "the sum afterwards, a whole number")
_NUMBER: Final = Shape(int | None, "a whole number, or None")
_DELIVERY: Final = Shape(Delivery | None, "a delivery with value, tag and redelivered, or None")
_OWNER: Final = Shape(str | int, "the owner's name")
_MAYBE_OWNER: Final = Shape(str | int | None, "the owner's name, or None")
_ENTITIES: Final = Shape(list[Annotated[list[Any], msgspec.Meta(min_length=1)]], "a list of entities, each a list")

_OF_TREES: Final[Mapping[str, Shape]] = {
    "get": Shape(tuple[Any, int, int, int] | None, "a payload with three whole numbers, or None"),
    "list": Shape(list[tuple[str, Any, int, int, int]], "a list of names, each with a payload and three whole numbers"),
}
_VERDICT: Final = Shape(
    Annotated[list[Any], msgspec.Meta(min_length=1)],
    "a list that begins with what the op came to",
    lambda found: isinstance(found[0], str),
)

_READS: Final[Mapping[str, Any]] = {"r": int | list[int] | None}
_READS_OF_OBJECTS: Final[Mapping[str, Any]] = {"r": int | None, "rp": dict[str, int]}


def _of_a_tree(arguments: Sequence[Any]) -> Shape:
    return _OF_TREES.get(arguments[1], _VERDICT) if len(arguments) > 1 else _VERDICT


def _done(asked: Sequence[Mop], reads: Mapping[str, Any]) -> Shape:
    """The same reads and writes as were asked for, in their order, and of each read what was read."""

    def holds(found: Any) -> bool:
        done = cast("list[tuple[str, Any, Any]]", found)
        return len(done) == len(asked) and all(
            f == wanted[0]
            and (key == wanted[1] or list(key) == list(wanted[1]))
            and (Shape(reads[f], "").fits(value) if f in reads else value == wanted[2])
            for (f, key, value), wanted in zip(done, asked, strict=True)
        )

    return Shape(list[tuple[str, Any, Any]], "the steps that were asked for, with what each of them read", holds)


def _of_a_transaction(arguments: Sequence[Any]) -> Shape:
    return _done(arguments[0] if arguments else (), _READS)


def _of_a_universe(arguments: Sequence[Any]) -> Shape:
    return _done(arguments[1] if len(arguments) > 1 else (), _READS_OF_OBJECTS)


ANSWERS: Final[Mapping[str, Shape | Asked]] = {
    "compare_and_set": _WHETHER,
    "create": _WHETHER,
    "elements": Shape(list[int], "a list of whole numbers"),
    "increment": _SUM,
    "read_counter": _NUMBER,
    "read_runs": Shape(Runs, "the number of changes, and what ran: lists of a number, a name and a number"),
    "in_tree": _of_a_tree,
    "look_up": _NUMBER,
    "come_and_go": Shape(tuple[int | None, int | None], "two whole numbers, or None in their place"),
    "differing_records": Shape(list[str], "a list of keys"),
    "lock": _TOKEN,
    "unlock": _WHETHER,
    "lease_lock": _TOKEN,
    "lease_unlock": _WHETHER,
    "transact": _of_a_transaction,
    "update": Shape(dict[str, int | None], "a whole number, or None, by key"),
    "in_universe": _of_a_universe,
    "delete": Shape(bool | None, "whether it was there: true or false, or None where that is unknown"),
    "claim": _OWNER,
    "disconnect": _MAYBE_OWNER,
    "owned": Shape(tuple[str | int | None, list[tuple[str, str]]], "the owner's name, or None, and a list of queues"),
    "entities": _ENTITIES,
    "entities_with_values": _ENTITIES,
    "projected": Shape(Projected | None, "tree and tables, two lists of entities, and routes, or None"),
    "take": _DELIVERY,
    "consume": _DELIVERY,
    "take_classic": _DELIVERY,
    "convert_classic": _WHETHER,
    "purge": Shape(int, "the number of messages, a whole number"),
    "replicas": Shape(Replicas, "a dict with members, cluster, last, change and changes"),
    "publish_to_stream": Shape(int | None, "an offset, a whole number, or None"),
    "publish_once": Shape(int | None, "an offset, a whole number, or None"),
    "read_stream": Shape(Read, "a dict with values, a list of whole numbers, end, and first where it begins later"),
    "list_flags": Shape(Flags, "a dict with enabled, changing and needs"),
    "formed": Shape(Formed, "a dict with phase, founded, members and problem"),
}
"""By operation. Those that are left out answer nothing that is used, or any value that was written."""

ANYTHING: Final = frozenset(
    {
        *("read", "write", "read_as", "add", "prepare_triggers", "write_record"),
        *("prepare_topology", "declare", "declare_with_value"),
        *("declare_queue", "publish", "leave", "declare_single_active", "declare_limited", "declare_expiring"),
        *("migrate", "roll_back", "declare_maintained", "grow", "shrink", "drain", "revive"),
        *("declare_stream", "declare_short_stream", "enable_flag", "declare_classic", "put_classic"),
    }
)
"""The operations that `ANSWERS` leaves out."""


def misfit(operation: str, arguments: Sequence[Any], value: object) -> str | None:
    """What an operation answers, in words, if `value` cannot be its answer; None if it can.

    Args:
        operation: its name, in one of the built-in groups.
        arguments: with which it was called, in the order of its protocol.
        value: of the answer.
    """
    rule = ANSWERS.get(operation)
    if rule is None:
        return None
    shape = rule if isinstance(rule, Shape) else rule(arguments)
    return None if shape.fits(value) else shape.words
