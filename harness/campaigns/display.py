"""How a run in progress is shown. The command line draws a line; the library shows nothing by default."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeAlias

from splitbrain.harness.campaigns.leaders import Leaders
from splitbrain.results.history import Op


class Display(Protocol):
    """Shows one run.

    Attributes:
        leaders: finds the leader, once the nodes are up.
    """

    leaders: Leaders | None

    def observe(self, op: Op) -> None:
        """Take note of an op that was recorded."""
        ...

    def up(self, seconds: float) -> None:
        """Say how long it took from the first step of deploying until every node answered."""
        ...

    def during(self, phase: str, hint: str = "") -> AbstractContextManager[Callable[[str], None]]:
        """Show a phase that is not recorded; gives a function to call with the current step.

        Args:
            phase: its name ("judging").
            hint: a line that stays, once it takes long.
        """
        ...


Displays: TypeAlias = Callable[[str], AbstractContextManager[Display]]
"""From a title to a display, for the length of a block."""


class Silent:
    """A display that shows nothing."""

    def __init__(self) -> None:
        self.leaders: Leaders | None = None

    def observe(self, op: Op) -> None:
        """Nothing."""

    def up(self, seconds: float) -> None:
        """Nothing."""

    @contextmanager
    def during(self, phase: str, hint: str = "") -> Generator[Callable[[str], None]]:
        """Nothing."""
        yield lambda _: None


@contextmanager
def silent(_title: str) -> Generator[Display]:
    """A display that shows nothing."""
    yield Silent()
