"""What clients and the nemesis do, and when: pure values, put together by combinators.

A typical workload, five threads to a key, 200 ops for each key:

    concurrent_keys(5, itertools.count(), lambda key: limit(200, mix(read, write, cas)))

where `read`, `write` and `cas` are functions such as

    def write(ctx: Context) -> Op:
        return invoke("write", ctx.rng.below(5))

Wherever a combinator takes a generator it also takes an op (carried out once) or such a function (called for every op,
without end). The idea, and most of the names, are Jepsen's.
"""

from __future__ import annotations

from splitbrain.harness.contract.generator import PENDING, UNASSIGNED, Context, Generator, Pending, Result
from splitbrain.harness.generators.choice import any_of, beside, flip_flop, mix
from splitbrain.harness.generators.keys import concurrent_keys, sequential_keys
from splitbrain.harness.generators.leaves import NOTHING, Source, each, generator, invoke, once
from splitbrain.harness.generators.order import f_map, limit, phases, repeat, sequence, synchronize
from splitbrain.harness.generators.outcome import elsewhere, final, until_ok
from splitbrain.harness.generators.threads import clients, each_process, each_thread, nemesis, reserve
from splitbrain.harness.generators.timing import rate, sleep, spaced, stagger, time_limit

__all__ = [
    "NOTHING",
    "PENDING",
    "UNASSIGNED",
    "Context",
    "Generator",
    "Pending",
    "Result",
    "Source",
    "any_of",
    "beside",
    "clients",
    "concurrent_keys",
    "each",
    "each_process",
    "each_thread",
    "elsewhere",
    "f_map",
    "final",
    "flip_flop",
    "generator",
    "invoke",
    "limit",
    "mix",
    "nemesis",
    "once",
    "phases",
    "rate",
    "repeat",
    "reserve",
    "sequence",
    "sequential_keys",
    "sleep",
    "spaced",
    "stagger",
    "synchronize",
    "time_limit",
    "until_ok",
]
