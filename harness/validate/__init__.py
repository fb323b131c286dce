"""Wrappers around what others implement, which say exactly which rule of a protocol was broken.

A plug-in that breaks its contract must not be able to spoil a verdict: a completion under another process, a value that
the history cannot carry, a fault that a backend claims to have injected. Every wrapper raises `ProtocolError`, with the
name of the class at fault, and the runner ends the run there. The idea is Jepsen's `client/validate`,
`nemesis/validate` and `gen/validate`.

Everything else is passed through, attributes outside the protocol included, so that a client written for one system can
use what only that system offers.
"""

from __future__ import annotations

from splitbrain.harness.validate.backends import backend
from splitbrain.harness.validate.clients import client, nemesis
from splitbrain.harness.validate.generators import emitted, updated
from splitbrain.harness.validate.systems import system
from splitbrain.harness.validate.values import json_problem

__all__ = ["backend", "client", "emitted", "json_problem", "nemesis", "system", "updated"]
