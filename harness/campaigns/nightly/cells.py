"""The cells of a night: a workload under a nemesis, on a version of a system, on a backend, with bugs switched on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from splitbrain.harness.campaigns import compose
from splitbrain.harness.campaigns.compose import RunOptions
from splitbrain.results.errors import HarnessError, UsageError

NO_BUG: Final = "none"
PLAIN: Final = "default"
"""What an axis has that is not given."""

AXES: Final[Mapping[str, tuple[str, ...]]] = {
    "workload": (),
    "nemesis": (),
    "system": ("metadata",),
    "version": (PLAIN,),
    "backend": ("sim",),
    "bug": (NO_BUG,),
}
"""The axes of a matrix with their defaults; those without must be given."""

SEED_END: Final = 2**31


class Cell(msgspec.Struct, frozen=True, order=True):
    """A combination of the axes."""

    workload: str
    nemesis: str
    system: str = "metadata"
    version: str = PLAIN
    backend: str = "sim"
    bug: str = NO_BUG

    @property
    def name(self) -> str:
        """Its parts in the order of the axes; it is the same in every night."""
        return "/".join(msgspec.structs.astuple(self))

    @property
    def simulated(self) -> bool:
        """Whether its runs are simulated."""
        return self.backend == "sim"


DEFAULTS: Final[Mapping[str, Any]] = {**compose.DEFAULTS, "nodes": None, "time_limit": 30.0}
"""Those of `splitbrain run`; without a number of nodes, nodes are those of `hosts`, or five."""


def options_of_cell(cell: Cell, options: Mapping[str, Any], seed: int) -> RunOptions:
    """What `splitbrain run` needs for one run of a cell.

    Raises:
        UsageError: an option is wrong.
    """
    return RunOptions.of(
        **{
            **DEFAULTS,
            **options,
            "workload": cell.workload,
            "nemesis": cell.nemesis,
            "system": cell.system,
            "backend": cell.backend,
            "bug": "" if cell.bug == NO_BUG else cell.bug,
            "seed": seed,
        }
    )


def impossible(options: RunOptions) -> str | None:
    """Why no such test can be made anywhere; None if it can. Nothing is started.

    What this machine lacks is no such reason: a run of the cell says so, as an error.
    """
    try:
        compose.compose(options)
    except UsageError as error:
        return str(error)
    except HarnessError:
        return None
    return None


def fresh_seeds(night_seed: int, cell: Cell) -> Iterator[int]:
    """Seeds of a cell that no other cell and no other night is likely to have; the same for the same night."""
    number = 0
    while True:
        text = f"{night_seed} {cell.name} {number}".encode()
        yield int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) % SEED_END
        number += 1
