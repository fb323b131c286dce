"""Options of a run that would be without effect beside its other options.

`splitbrain run` refuses them, and the command that it prints leaves them out. Options that a run was stored with are
composed again as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

HOST_OPTIONS: Final = ("hosts", "known_hosts", "ssh_key", "ssh_user")
"""How hosts are reached: for the backend that has any."""


def idle(options: Mapping[str, Any]) -> dict[str, str]:
    """The options of a test that change nothing, each with why, and what to do, as the end of a sentence.

    Args:
        options: by name, as `splitbrain.harness.campaigns.compose.RunOptions` has them.
    """
    found: dict[str, str] = {}
    backend = options["backend"]
    if backend != "ssh":
        found |= dict.fromkeys(HOST_OPTIONS, f"that is for --backend ssh, not {backend}.")
    if backend != "sim":
        found["world"] = "that is for simulated nodes: add --backend sim, or leave it out."
    else:
        found["keep_data"] = "simulated nodes leave no data: leave it out."
    if options["schedule"]:
        if not _brings_kinds(str(options["nemesis"])):
            found["nemesis"] = "--schedule says itself what breaks: leave --nemesis out."
        found["interval"] = "--schedule says itself when something breaks: leave --interval out."
    elif str(options["nemesis"]).strip() == "none":
        found["interval"] = "--nemesis none breaks nothing: leave --interval out."
    return found


def _brings_kinds(nemesis: str) -> bool:
    """Whether a list of nemeses has one named `module:attribute`: a schedule may have its ops, and does not name it."""
    from splitbrain.nemesis.catalogue import weighted  # every command imports this module, and few need the nemeses

    return any(":" in weighted(name)[0] for name in nemesis.split(","))
