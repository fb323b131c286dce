"""The command line of a node of the table store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from splitbrain.cluster.bugs import Bugs, UnknownBugError
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.runtime import Address
from splitbrain.cluster.tables.node import TICK_MS, TablesConfig
from splitbrain.cluster.tables.strategies import STRATEGIES

USAGE: Final = f"""\
usage: python -m splitbrain.cluster.tables --node NAME --listen HOST:PORT [--peer NAME=HOST:PORT]... --data DIR
                         [--partition-strategy NAME] [--preferred NAME[,NAME]...] [--net-tick-ms N]
                         [--bugs ID[,ID]...]

  --node          name of this node
  --listen        address on which it serves peers and clients
  --peer          another node, and the address under which this node reaches it; once for each
  --data          directory for its files; created if missing
  --partition-strategy
                  what the node does about partitions, the same on all nodes (default ignore):
                  {", ".join(STRATEGIES)}
  --preferred     the nodes of pause-if-all-down
  --net-tick-ms   a node of which nothing was heard for so long is down (default {TICK_MS})
  --bugs          mutations that are switched on, e.g. M84
"""

_OPTIONS: Final = (
    "--node",
    "--listen",
    "--peer",
    "--data",
    "--partition-strategy",
    "--preferred",
    "--net-tick-ms",
    "--bugs",
)


def parse(arguments: Sequence[str]) -> tuple[TablesConfig, str]:
    """What the command line says: the node's configuration and its data directory.

    Raises:
        ArgumentError: it is wrong; the message names the argument.
    """
    options: dict[str, str] = {}
    peers: dict[str, Address] = {}
    rest = iter(arguments)
    for option in rest:
        value = next(rest, "")
        if option not in _OPTIONS:
            raise ArgumentError(f"there is no argument {option!r}.")
        if not value:
            raise ArgumentError(f"{option} needs a value.")
        if option == "--peer":
            name, _, address = value.partition("=")
            if not name or name in peers:
                raise ArgumentError(f"--peer takes NAME=HOST:PORT, each name once, not {value!r}.")
            peers[name] = _address(address, option)
        elif option in options:
            raise ArgumentError(f"{option} is given twice.")
        else:
            options[option] = value
    for required in ("--node", "--listen", "--data"):
        if required not in options:
            raise ArgumentError(f"{required} is missing.")
    tick = options.get("--net-tick-ms", str(TICK_MS))
    if not (tick.isascii() and tick.isdecimal()):
        raise ArgumentError(f"--net-tick-ms takes a whole number, not {tick!r}.")
    try:
        bugs = Bugs([bug for bug in options.get("--bugs", "").split(",") if bug])
    except UnknownBugError as error:
        raise ArgumentError(f"--bugs {options['--bugs']}: {error}") from error
    config = TablesConfig(
        node=options["--node"],
        listen=_address(options["--listen"], "--listen"),
        peers=peers,
        strategy=options.get("--partition-strategy", "ignore"),
        preferred=tuple(name for name in options.get("--preferred", "").split(",") if name),
        tick_ms=int(tick),
        bugs=bugs,
    )
    return config, options["--data"]


def _address(text: str, option: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ArgumentError(f"{option} takes HOST:PORT, not {text!r}.")
    return host.strip("[]"), int(port)
