"""Which parts of a run its checkers want to see."""

from __future__ import annotations

from typing import Final

from splitbrain.checkers.registry import checker
from splitbrain.checkers.stored import Specs
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.errors import UsageError

BY_RUN: Final = "run"
BY_KEY: Final = "key"
OF_TELEMETRY: Final = "telemetry"
WHOLE: Final = "whole run"


def wants(spec: CheckerSpec, scope: str) -> bool:
    """Whether a checker judges this kind of group; one that is unknown judges nothing, and its verdict says so."""
    try:
        return checker(spec.name).partition == scope
    except UsageError:
        return False


def scopes(specs: Specs) -> tuple[str, ...]:
    """How the checkers of a run want to see its history: all of it, its keys one by one, or beside its telemetry."""
    return tuple(scope for scope in (BY_RUN, BY_KEY, WHOLE) if any(wants(spec, scope) for spec in specs))
