"""A function that carries out a list of operations, all of them or none."""

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.tree import Functions, Refused, Transaction

FUNCTIONS: Final = Functions()


@FUNCTIONS.register("steps", version=1)
def steps(tx: Transaction, data: Any) -> Any:
    """Carry out [operation, path, value] after one another; the values that its gets found, None where there is none.

    Operations are put, create, update, delete and get. Aborts with the number of the first that is refused.
    """
    found: list[Any] = []
    for number, (operation, path, value) in enumerate(data):
        result: Any = None
        if operation == "get":
            found.append(tx.value(tx.get(path)))
        elif operation == "put":
            result = tx.put(path, value)
        elif operation == "create":
            result = tx.create(path, value)
        elif operation == "update":
            result = tx.update(path, value)
        elif operation == "delete":
            result = tx.delete(path)
        else:
            raise ValueError(operation)
        if isinstance(result, Refused):
            tx.abort(number)
    return found
