"""Cases in which our queues differ from RabbitMQ 4.0.5 on purpose, by id, each with its reason (docs/queues.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DIFFERENCES: Final[Mapping[str, str]] = {}
