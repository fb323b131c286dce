"""Options of a run that have no effect beside its other options.

`splitbrain run` refuses them, and the command that it prints does not contain them. Options of a stored run are
composed again unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

HOST_OPTIONS: Final = ("hosts", "known_hosts", "ssh_key", "ssh_user")
"""How hosts are reached: for the ssh backend only."""


def idle(options: Mapping[str, Any]) -> dict[str, str]:
    """The options of a test that have no effect, each with the reason and what to do, as the end of a sentence.

    Args:
        options: by name, as `splitbrain.harness.campaigns.compose.RunOptions` has them.
    """
    found: dict[str, str] = {}
    backend = options["backend"]
    if backend != "ssh":
        found |= dict.fromkeys(HOST_OPTIONS, f"it is for --backend ssh, not {backend}.")
    if backend != "sim":
        found["world"] = "it is for simulated nodes: add --backend sim, or remove it."
    else:
        found["keep_data"] = "simulated nodes leave no data: remove it."
    if options["schedule"]:
        if not _brings_kinds(str(options["nemesis"])):
            found["nemesis"] = "--schedule already says which faults there are: remove --nemesis."
        found["interval"] = "--schedule already says when faults begin: remove --interval."
        found["overlap"] = "--schedule already says when faults begin: remove --overlap."
    elif str(options["nemesis"]).strip() == "none":
        found |= dict.fromkeys(("interval", "overlap"), "it has no effect with --nemesis none: remove it.")
    return found


def _brings_kinds(nemesis: str) -> bool:
    """Whether a list of nemeses has one named `module:attribute`: a schedule may have its ops, and does not name it."""
    from splitbrain.nemesis.catalogue import weighted  # every command imports this module, and few need the nemeses

    return any(":" in weighted(name)[0] for name in nemesis.split(","))
