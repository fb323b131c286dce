"""An example workload, run as a library: appends to a log that must never lose or reorder acknowledged entries.

Every client appends to the same key by reading it and comparing-and-setting it to what it read plus its own mark; a
model in plain Python says what a correct log does. Run it: python examples/own_workload.py [--bug M09]
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from splitbrain import (
    IMPOSSIBLE,
    KEY_VALUE,
    UNKNOWN,
    CheckerSpec,
    Context,
    KeyValue,
    LocalBackend,
    Metadata,
    Op,
    Outcome,
    SessionClient,
    Special,
    Test,
    Workload,
    each,
    invoke,
    mix,
    once,
    run_and_judge,
)
from splitbrain.harness.campaigns.words import sentences
from splitbrain.nemesis import catalogue as nemeses

KEY = "log"


class AppendLog:
    """A tuple of marks: append puts one at the end, read returns all."""

    name = "append-log"
    fs = frozenset({"append", "read"})

    def init(self) -> Hashable:
        """Empty."""
        return ()

    def step(self, state: Any, f: str, value: Any, result: Any) -> Hashable | Special:
        """The state afterwards; IMPOSSIBLE if a read cannot have seen `result` in this one."""
        if f == "append":
            return (*state, value)
        return state if result is UNKNOWN or result == state else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A read changes nothing, in any state."""
        return f == "read"


class LogClient(SessionClient[KeyValue]):
    """One client of the log, on one node; it needs a session with registers."""

    operations = KEY_VALUE

    async def setup(self, test: Test) -> None:
        """Begin with an empty log."""
        await self.session.write(KEY, [])

    async def invoke(self, test: Test, op: Op) -> Op:
        """Append or read. An append that lost its race certainly did not happen."""
        current = await self.session.read(KEY)
        if op.f == "read":
            return op.complete("ok", current.value, term=current.term)
        swapped = await self.session.compare_and_set(KEY, current.value, [*current.value, op.value])
        if swapped.value:
            return op.complete("ok", op.value, term=swapped.term)
        return op.complete("fail", op.value, term=swapped.term, error="lost a race")


def workload() -> Workload:
    """Appends and reads from every client, one last read of everything."""

    def append(ctx: Context) -> Op:
        return invoke("append", ctx.rng.below(1_000_000_000))

    return Workload(
        name="append-log",
        client=LogClient(),
        generator=mix(append, each(lambda _: invoke("read"))),
        final_generator=once(invoke("read")),
        checkers=(CheckerSpec("linearizable", {"model": "examples.own_workload:AppendLog"}),),
        fs=("append", "read"),
        needs=frozenset({KEY_VALUE.name}),
    )


def main(bugs: tuple[str, ...], store: Path, time_limit_s: float = 20.0) -> Outcome:
    """Run the test, judge it, print what came out."""
    test = Test(
        name="append-log",
        seed=1,
        nodes=("n1", "n2", "n3", "n4", "n5"),
        system=Metadata(),
        workload=workload(),
        nemesis=nemeses.build(["partition"], time_limit_s=time_limit_s),
        bugs=bugs,
        rate=50.0,
        time_limit_s=time_limit_s,
    )
    conclusion = run_and_judge(test, LocalBackend(), store)
    print(conclusion.outcome.value, *sentences(conclusion.verdicts), sep="\n")
    print(conclusion.report)
    return conclusion.outcome


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    chosen = tuple(sys.argv[sys.argv.index("--bug") + 1].split(",")) if "--bug" in sys.argv else ()
    sys.exit(main(chosen, Path("store")).exit_code)
