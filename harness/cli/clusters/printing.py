"""What commands of the cluster print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.cluster.client import SeenNode


def as_document(what: Any) -> str:
    """An answer as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(what)).decode()


def value_of(text: str) -> Any:
    """What an argument stands for: JSON; other text is a string.

    Raises:
        UsageError: it is nested too deep to be read.
    """
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    except RecursionError:
        raise UsageError(f"{text[:60]}...: lists and objects are nested too deep in this value.") from None


def as_tree(nodes: Sequence[SeenNode]) -> str:
    """Tree nodes below each other, each with its value and the version of that; names above that are none of them, too.

    Nodes are in the order of their paths.
    """
    lines: list[str] = []
    above: list[str] = []
    for node in nodes:
        names = [name for name in node.path.split("/") if name]
        shared = 0
        while shared < min(len(above), len(names) - 1) and above[shared] == names[shared]:
            shared += 1
        lines += [f"{'  ' * depth}{names[depth]}" for depth in range(shared, len(names) - 1)]
        lines.append(f"{'  ' * (len(names) - 1)}{names[-1] if names else '/'}{_shown(node)}")
        above = names
    return "\n".join(lines) if lines else "no tree nodes"


def _shown(node: SeenNode) -> str:
    if node.procedure is not None:
        what = f"procedure {node.procedure.name}:{node.procedure.version}"
    elif node.has_data:
        what = msgspec.json.encode(node.value).decode()
        what = what if len(what) <= 80 else f"{what[:77]}..."
    else:
        return ""
    return f"  {what}  (version {node.payload_version})"
