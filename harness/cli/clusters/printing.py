"""What commands of the cluster print."""

from __future__ import annotations

from typing import Any

import msgspec


def as_document(what: Any) -> str:
    """An answer as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(what)).decode()
