"""What errors of the metadata cluster's client mean to the harness, and replies that cannot be read."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from splitbrain.cluster.client import ClientError, InvalidPathError, MisfitError
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError, NonsenseError

T = TypeVar("T")


def classified(error: ClientError) -> DefiniteError | IndefiniteError:
    """An error of the client as the harness classifies it."""
    if isinstance(error, MisfitError):
        return NonsenseError(str(error))
    return (DefiniteError if error.definite else IndefiniteError)(str(error))


def refused(error: ClientError) -> DefiniteError | IndefiniteError:
    """The same of a request after which the op certainly did not happen, whatever became of the request."""
    return NonsenseError(str(error)) if isinstance(error, MisfitError) else DefiniteError(str(error))


def readable(value: Any, shape: type[T], what: str) -> T:
    """What a node answered, as a value of this type.

    Raises:
        NonsenseError: it is none.
    """
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise NonsenseError(f"{what} was answered with {value!r:.80}: {error}") from error


class _Classified:
    """A context in which the cluster's errors are raised as the harness classifies them.

    Raises:
        DefiniteError: the request certainly did not happen.
        IndefiniteError: its outcome is unknown.
        NonsenseError: the answer does not fit the request, or cannot be read.
    """

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, InvalidPathError):
            raise DefiniteError(str(error)) from error
        if isinstance(error, ClientError):
            raise classified(error) from error
        if isinstance(error, msgspec.MsgspecError):
            raise NonsenseError(f"a reply cannot be read: {error}") from error


CLASSIFIED: Final = _Classified()
