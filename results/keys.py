"""Names of keys: how keys of any kind become texts that are different where the keys are.

A key may be a string, a number, true, a list. A history has it as a text: a string as it is, anything else as JSON. If
another key of the history reads like that string, as 1 and "1" do, the string keeps its quotation marks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from splitbrain.results.values import canonical_json


def key_names(keys: Iterable[Any]) -> list[str]:
    """The name of each key: equal keys (`splitbrain.results.values`) have equal names, others have different ones.

    Args:
        keys: all keys of a history, as JSON has them; a key may be there several times.

    Raises:
        NotFiniteError: a key holds a number that is not finite.
    """
    texts = [(canonical_json(key), key) for key in keys]
    others = {text for text, key in texts if not isinstance(key, str)}
    return [key if isinstance(key, str) and not _unclear(key, others) else text for text, key in texts]


def _unclear(key: str, others: set[str]) -> bool:
    """Whether a string without quotation marks could be taken for another key.

    One that begins with a quotation mark could be, for a string that keeps its own.
    """
    return bool(others) and (key in others or key.startswith('"'))
