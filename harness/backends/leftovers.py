"""What controllers that were killed left on this machine: processes, control groups, mounted volumes."""

from __future__ import annotations

from harness.backends import ownership
from harness.backends.agent import cgroups, volumes


def sweep() -> list[str]:
    """Remove it; a line for each thing removed."""
    return [*ownership.sweep(), *volumes.sweep(_is_left_over), *cgroups.sweep(_is_left_over)]


def _is_left_over(name: str) -> bool:
    """Whether a name begins with the marker of a controller of this PID namespace that is gone."""
    owner = ownership.parse(name.split(".")[0])
    return owner is not None and owner.pid_namespace == ownership.this_controller().pid_namespace and not owner.alive
