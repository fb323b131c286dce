"""Which evidence can be drawn: asked by commands that may never load what draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_drawable(evidence: Mapping[str, Any]) -> bool:
    """Whether a verdict's evidence is that of a linearizability violation."""
    return "failing_op" in evidence and "key" in evidence


def has_witnesses(evidence: Mapping[str, Any]) -> bool:
    """Whether a verdict's evidence has witnesses of violations of isolation."""
    return bool(evidence.get("anomalies")) and "anomaly_types" in evidence
