"""Regular expressions of permissions and policies, in the syntax of the tree: no member spends long on one."""

from __future__ import annotations

from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.tree.regex import RegexError, compile_regex


def checked_expression(text: str) -> str:
    """The expression.

    Raises:
        InvalidRequestError: it is not in order.
    """
    try:
        compile_regex(text)
    except RegexError as error:
        raise InvalidRequestError(f"invalid_expression: {text[:80]!r}: {error}.") from error
    return text


def is_found(expression: str, name: str) -> bool:
    """Whether an expression that is in order is found in a name."""
    return compile_regex(expression).found_in(name)
