"""How the nodes of `splitbrain cluster up` find each other, if they are not started with their founders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from splitbrain.results.errors import UsageError

BACKENDS: Final = ("classic", "consul", "etcd")
"""Those that work with several nodes on one machine: the others take a node's name from its host."""


def discovery_arguments(
    backend: str | None, endpoint: str | None, cluster: str | None, founders: Sequence[str]
) -> list[str]:
    """The arguments of each of the first nodes; none without a backend.

    Raises:
        UsageError: an option is for another backend, or no node would take its value.
    """
    asked = [("--discovery-endpoint", endpoint), ("--discovery-cluster", cluster)]
    given = [each for option, value in asked if value is not None for each in (option, value)]
    if given and backend not in ("consul", "etcd"):
        raise UsageError(f"{given[0]} is for --discovery consul and --discovery etcd.")
    if backend is None:
        return []
    names = ["--discovery-list", ",".join(founders)] if backend == "classic" else []
    arguments = ["--discovery", backend, "--discovery-nodes", str(len(founders)), *names, *given]
    _check(backend, endpoint, arguments)
    return arguments


def _check(backend: str, endpoint: str | None, arguments: Sequence[str]) -> None:
    """Refuse what the nodes would refuse, before any of them is started."""
    from splitbrain.cluster.embedded_formation import ArgumentError, check_arguments

    endpoints = [] if endpoint is None else endpoint.split(",") if backend == "etcd" else [endpoint]
    try:
        check_arguments(arguments, endpoints)
    except ArgumentError as error:
        raise UsageError(str(error)) from error
