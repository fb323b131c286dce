"""How much CPU time a member takes to route a message, from its projections alone, through 10 to 100,000 bindings.

    python benchmarks/routing.py [--sizes 10,1000,100000] [--messages 200] [--json]

One exchange of each type has so many bindings, each to a queue of its own and with a key of its own, in a tree in this
process. Of each load messages are routed one by one; the table has the median CPU time of one message, how many queues
it goes to, the ratio to the smallest size, and that of one more binding: a look at its ends and a transaction.

    direct    to one queue, by its key
    topic     to one queue, by the last of three words; every key shares its first word with others
    topic #   the same, with ten more bindings `#.WORD.#` of which one matches
    headers   to one queue; every binding is looked at, as AMQP's rules leave no other way
    fanout    to all queues: compare the time for each queue
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path as FilePath
from typing import Any, Final

sys.path.insert(0, str(FilePath(__file__).resolve().parent.parent))

import msgspec

from splitbrain.cluster.entities import bindings, exchanges, vhosts
from splitbrain.cluster.entities.functions import functions_of
from splitbrain.cluster.entities.names import encoded_arguments, node_name
from splitbrain.cluster.entities.paths import BINDINGS, QUEUES
from splitbrain.cluster.entities.records import Binding, ExchangeType, Queue
from splitbrain.cluster.entities.routing import route, routed
from splitbrain.cluster.entities.store import LocalStore, encoded
from splitbrain.cluster.entities.tables import REGISTER
from splitbrain.cluster.tree import NEWEST_VERSION, Nodes, Path, PutNodes, Tree

SIZES: Final = (10, 1_000, 100_000)
MESSAGES: Final = 200
SLOW_S: Final = 2.0
"""A load whose messages took so long in all ends early."""

WILD: Final = 10
BINDS: Final = 50
HOST: Final = "/"


@dataclass(frozen=True)
class Load:
    """One exchange and the messages that go through it: key and arguments of a binding by number, and of a message."""

    name: str
    kind: ExchangeType
    key: Callable[[int], str]
    arguments: Callable[[int], dict[str, Any]] = lambda _: {}
    more_keys: tuple[str, ...] = ()


def _topic_key(number: int) -> str:
    return f"w{number % 10}.w{number // 10 % 100}.k{number}"


LOADS: Final = (
    Load("direct", "direct", lambda number: f"k{number}"),
    Load("topic", "topic", _topic_key),
    Load("topic #", "topic", _topic_key, more_keys=tuple(f"#.w{number}.#" for number in range(WILD))),
    Load("headers", "headers", lambda _: "", lambda number: {"x-match": "all", "number": number}),
    Load("fanout", "fanout", lambda _: ""),
)


@dataclass(frozen=True)
class Figure:
    """What was measured; times in microseconds."""

    load: str
    bindings: int
    queues: int
    messages: int
    us: float
    us_per_queue: float
    bind_us: float


def made(load: Load, size: int) -> Tree:
    """A tree with the load's exchange and so many bindings."""
    tree = Tree(version=NEWEST_VERSION, functions=functions_of())
    for command in REGISTER:
        tree.execute(command)
    asyncio.run(_begun(LocalStore(tree), load))
    for number in range(size + len(load.more_keys)):
        name, is_more = f"q{number}", number >= size
        key = load.more_keys[number - size] if is_more else load.key(number)
        arguments = encoded_arguments({} if is_more else load.arguments(number))
        binding = {**msgspec.to_builtins(Binding(HOST, "x", "queue", name, key)), "type": load.kind}
        put(tree, (*QUEUES, node_name(HOST), name), Queue(HOST, name))
        path = (*BINDINGS, node_name(HOST), "x", ":queue", name, node_name(key))
        put(tree, path, {**binding, "arguments": [arguments]})
    return tree


async def _begun(store: LocalStore, load: Load) -> None:
    await vhosts.declare(store, HOST)
    await exchanges.declare(store, HOST, "x", load.kind)


def put(tree: Tree, path: Path, value: Any) -> None:
    """A node as transactions leave it, but for what keeps it, which projections do not see: in a tenth of the time."""
    done = tree.execute(PutNodes(path, encoded(value)))
    assert isinstance(done, Nodes), done


async def binding_us(store: LocalStore, load: Load) -> float:
    """The median time of making one more binding with the transaction that clients use, in microseconds."""
    times: list[float] = []
    for number in range(BINDS):
        begun = time.process_time()
        await bindings.add(store, HOST, "x", "queue", "q0", f"more{number}", arguments=load.arguments(number))
        times.append(time.process_time() - begun)
    return statistics.median(times) * 1e6


def measured(load: Load, size: int, messages: int) -> Figure:
    """The figures of a load at one size."""
    tree = made(load, size)

    def records(name: str, key: Any) -> Sequence[Sequence[Any]]:
        table = tree.projections.table(name)
        assert table is not None, f"{name} is registered"
        return table.lookup(key)

    times: list[float] = []
    led_to: list[int] = []
    for message in range(messages):
        number = message * 7_919 % size
        key, headers = load.key(number), load.arguments(number)
        begun = time.process_time()
        found = routed(route(HOST, "x", key, headers), records)
        times.append(time.process_time() - begun)
        assert f"q{number}" in found, "the message goes where it is bound to"
        led_to.append(len(found))
        if sum(times) > SLOW_S:
            break
    median = statistics.median(times) * 1e6
    reached = round(statistics.median(led_to))
    bind_us = asyncio.run(binding_us(LocalStore(tree), load))
    return Figure(load.name, size, reached, len(times), median, median / reached, bind_us)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of bindings")
    parser.add_argument("--messages", type=int, default=MESSAGES, help="messages of each load")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    sizes = [int(size) for size in options.sizes.split(",")]
    figures = [measured(load, size, options.messages) for load in LOADS for size in sizes]
    if options.json:
        print(json.dumps(list(map(asdict, figures)), indent=1))
        return
    print(f"{'type':8} {'bindings':>9} {'queues':>7} {'us/message':>11} {'us/queue':>9} {'ratio':>9} {'us/bind':>8}")
    for figure in figures:
        least = next(other for other in figures if other.load == figure.load)
        print(
            f"{figure.load:8} {figure.bindings:9,} {figure.queues:7,} {figure.us:11,.1f} {figure.us_per_queue:9.2f} "
            f"{figure.us / least.us:9.2f} {figure.bind_us:8.0f}"
        )


if __name__ == "__main__":
    main()
