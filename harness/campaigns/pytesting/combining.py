"""From markers and command-line options to what a test of pytest runs: options of a run and a seed, once or many times.

Processes of xdist collect on their own, and must come to the same tests: nothing here is drawn. The seed of a test is a
function of its name.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast

import msgspec

from splitbrain.harness.campaigns.compose import RunOptions
from splitbrain.harness.campaigns.nightly.cells import DEFAULTS, SEED_END
from splitbrain.results import quantities
from splitbrain.results.errors import UsageError

OWN: Final = ("matrix", "seeds", "budget", "inconclusive")
"""What a marker takes beside options of a run."""

SEEDS_MAX: Final = 100_000


class Marker(Protocol):
    """A marker of pytest."""

    @property
    def args(self) -> tuple[Any, ...]:
        """Arguments without names."""
        ...

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Arguments with names."""
        ...


class Combination(msgspec.Struct, frozen=True, kw_only=True):
    """What a test runs.

    Attributes:
        id: of the test, among those of its function.
        options: of the run, as far as they are given.
        seed: its root seed.
        budget_s: seconds after which the test is not begun any more, None for any.
        inconclusive: what an inconclusive run does to the test.
    """

    id: str
    options: Mapping[str, Any]
    seed: int
    budget_s: float | None = None
    inconclusive: str = "skip"


def combinations(
    markers: Sequence[Marker], given: Any, name: str, root: Path, *, always: bool = False
) -> list[Combination] | None:
    """What a function of tests runs; None if that is one thing, and no marker makes more of it.

    Args:
        markers: of the function, the nearest first.
        given: the options of the command line.
        name: of the function, with its file.
        root: to which paths are relative.
        always: whether to give one thing as well.

    Raises:
        UsageError: a marker or an option is wrong.
    """
    wanted: dict[str, Any] = {}
    for marker in reversed(markers):
        if marker.args:
            raise UsageError(
                f"the marker splitbrain takes names only, such as workload='register': {marker.args[0]!r}."
            )
        wanted |= marker.kwargs
    known = {*OWN, *RunOptions.__struct_fields__} - {"seed", "scheduled"}
    for each in wanted:
        if each not in known:
            raise UsageError(f"the marker splitbrain has no {each!r}. There are: {', '.join(sorted(known))}.")
    if wanted.get("inconclusive", "skip") not in ("skip", "fail"):
        raise UsageError(f"inconclusive={wanted['inconclusive']!r}: give 'skip' or 'fail'.")
    if given.splitbrain_backend is not None:
        wanted["backend"] = given.splitbrain_backend
    seeds = _seeds(wanted, given, name)
    cells = list(_cells({key: value for key, value in wanted.items() if key not in OWN}, wanted, root))
    if len(cells) == 1 and len(seeds) == 1 and not cells[0][0] and not always:
        return None
    budget = given.splitbrain_budget or wanted.get("budget")
    budget_s = None if budget is None else quantities.age("budget", str(budget))
    return [
        Combination(
            id="-".join([*words, *([f"seed{seed}"] if len(seeds) > 1 or not words else [])]),
            options=options,
            seed=seed,
            budget_s=budget_s,
            inconclusive=given.splitbrain_inconclusive or wanted.get("inconclusive", "skip"),
        )
        for words, options in cells
        for seed in seeds
    ]


def _seeds(wanted: Mapping[str, Any], given: Any, name: str) -> list[int]:
    """The seeds of a function: as given, or so many that follow from its name."""
    listed: Any = given.splitbrain_seed
    if listed is not None:
        return _checked([word.strip() for word in str(listed).split(",")], "--splitbrain-seed")
    asked: Any = wanted.get("seeds", 1) if given.splitbrain_seeds is None else given.splitbrain_seeds
    if isinstance(asked, (list, tuple, range)):
        return _checked(list(cast("Iterable[Any]", asked)), "seeds")
    if not isinstance(asked, int) or isinstance(asked, bool) or not 1 <= asked <= SEEDS_MAX:
        raise UsageError(f"seeds={asked!r}: give a number from 1 to {SEEDS_MAX:,}, or a list of seeds.")
    return [seed_of(name, number) for number in range(asked)]


def _checked(seeds: Sequence[Any], what: str) -> list[int]:
    found: list[int] = []
    for each in seeds:
        text = str(each)
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < SEED_END) or int(text) in found:
            raise UsageError(f"{what} {text}: give whole numbers from 0 to {SEED_END - 1}, each once.")
        found.append(int(text))
    if not found:
        raise UsageError(f"{what} is empty: give a seed.")
    return found


def seed_of(name: str, number: int) -> int:
    """A seed that follows from the name of a test."""
    return int.from_bytes(hashlib.blake2b(f"{name} {number}".encode(), digest_size=8).digest()) % SEED_END


def _cells(
    given: Mapping[str, Any], wanted: Mapping[str, Any], root: Path
) -> Iterable[tuple[list[str], Mapping[str, Any]]]:
    """The words that name a combination, and its options: of a matrix file, or of the lists of a marker."""
    if wanted.get("matrix") is not None:
        from splitbrain.harness.campaigns.nightly.matrix import load_matrix

        matrix = load_matrix(root / str(wanted["matrix"]))
        for cell in matrix.cells:
            options = msgspec.to_builtins(matrix.options(cell, 0))
            yield [cell.name.replace("/", "-")], {**options, **given}
        return
    axes = {
        name: list(cast("Iterable[Any]", value)) for name, value in given.items() if isinstance(value, list | tuple)
    }
    for name, values in axes.items():
        if not values:
            raise UsageError(f"{name}=[] is empty: give a value.")
    for chosen in itertools.product(*axes.values()):
        yield [str(value) or "none" for value in chosen], {**given, **dict(zip(axes, chosen, strict=True))}


def run_options(options: Mapping[str, Any], seed: int) -> RunOptions:
    """Options of a run with the defaults of `splitbrain run`, in simulation unless another backend is named.

    Raises:
        UsageError: one is wrong.
    """
    usual = {"workload": "register", "nemesis": "partition,kill", "backend": "sim"}
    try:
        return RunOptions.of(**{**DEFAULTS, **usual, **options, "seed": seed})
    except (TypeError, msgspec.ValidationError) as error:
        raise UsageError(f"an option of splitbrain is wrong: {error}.") from error
