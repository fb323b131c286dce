"""The registered functions of entities, as nodes need them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from splitbrain.cluster.bugs import M57, M58, NO_BUGS, Bugs
from splitbrain.cluster.entities import (
    bindings,
    exchanges,
    maintenance,
    parameters,
    permissions,
    policies,
    queues,
    route_index,
    tables,
    topology,
    users,
    vhosts,
)
from splitbrain.cluster.entities.store import Operation
from splitbrain.cluster.tree import Functions

_MODULES: Final[tuple[Any, ...]] = (
    vhosts, users, permissions, exchanges, queues, bindings, parameters, policies, maintenance, tables, topology,
)  # fmt: skip


def add_functions(functions: Functions, bugs: Bugs = NO_BUGS) -> None:
    """Register them all.

    Raises:
        FunctionRefusedError: there are functions of these names already.
    """
    broken: dict[Operation, Callable[..., Any]] = {}
    if M57 in bugs:
        broken[route_index.PROJECT] = route_index.project_ends_alone
    if M58 in bugs:
        broken[bindings.ADD] = bindings.add_binding_to_anything
    for module in _MODULES:
        for operation, function in module.FUNCTIONS:
            functions.add(operation.name, operation.version, broken.get(operation) or function)


@lru_cache(maxsize=8)
def functions_of(bugs: Bugs = NO_BUGS) -> Functions:
    """A registry of them alone."""
    functions = Functions()
    add_functions(functions, bugs)
    return functions
