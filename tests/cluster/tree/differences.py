"""Cases in which the store differs from Khepri on purpose, by id, each with its reason (docs/metadata-store.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DIFFERENCES: Final[Mapping[str, str]] = {}
