"""Whether a hunt that learns from its runs finds more than consecutive seeds do: `python benchmarks/guidance.py`.

usage: guidance.py [--seconds 45] [--starts 4] [--jobs 1]        states reached, with the code as it is
       guidance.py --find NAME... [--seconds 50] [--starts 2]    until mutants (tests/mutants) are found
       guidance.py --arm consecutive|guided --start N            one arm in this process, without a comparison

Each line of the output is one arm, in JSON; the last one compares: how often the guided arm was better and worse, and
the probability that a pair of equal arms differs so much on average (exact test over all signs of the differences).

Both arms use the draw of `splitbrain hunt`, and the same CPU seconds, in which what the guided arm learns is included:

    consecutive  seed after seed, as `splitbrain hunt` does
    guided       half of the runs are new seeds; the others are changes of earlier runs, drawn by how rare the states
                 are that those reached (a power schedule as AFLFast's: Böhme, Pham and Roychoudhury, CCS 2016)

A state is one of these, with the order of magnitude of how often a run reached it:

    mark         a coverage mark
    pair         what a member was, the event that it handled, and how much was neither committed nor written then
    shape        two lines of telemetry of a node that followed each other: events, roles, and how much was uncommitted

A change takes the options of a run and another seed, and draws one to three of them anew; or it takes the faults that
the run had, each at its time, and leaves some out, moves some or takes those of a second run behind a moment.
Feedback is immediate: with several workers it would be later, so that this is the best case for guidance.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import msgspec

from splitbrain.checkers import engine, kernels
from splitbrain.checkers.verdict import Outcome
from splitbrain.cluster.raft import events
from splitbrain.cluster.raft.machine import Raft
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.hunting.trial import signatures_in
from splitbrain.harness.campaigns.loads import least_interval_s
from splitbrain.harness.campaigns.swarm import Asked, asked_for, draw
from splitbrain.harness.campaigns.themes import INTERVALS_S, OP_TIMEOUTS_S, RATES_HZ
from splitbrain.harness.campaigns.warm import warm_up
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.generators.script import ScriptedFault
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.nemesis.catalogue import entry
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.history import NEMESIS
from splitbrain.results.signatures import anonymous, families

ROOT: Final = Path(__file__).resolve().parent.parent
ARMS: Final = ("consecutive", "guided")
START_APART: Final = 100_000
"""Distance of the first seeds of two repetitions."""

NEW: Final = 0.5
"""The share of runs of the guided arm that are new seeds."""

RARE: Final = 0.03
"""A run is worth changing if it reached a state that at most this share of all runs reached."""

MUTATED_SEED: Final = 2**40
"""Changed runs have seeds from here on, so that both arms draw the same new seeds."""

State: TypeAlias = str


class Ran(msgspec.Struct, frozen=True):
    """One run: what it was, what it reached, what it cost, and what was found ("" for nothing)."""

    options: RunOptions
    states: tuple[State, ...]
    faults: tuple[ScriptedFault, ...]
    cpu_s: float
    outcome: Outcome
    kind: str


# --- what a run reaches -----------------------------------------------------------------------------------------------


class Pairs:
    """Counts what members handle, while it is installed."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, int, int]] = Counter()

    def install(self) -> None:
        """Count from now on, in all members of this process."""
        handle, counts = Raft.handle, self

        def counted(member: Raft, event: Any) -> Any:
            what = event.message if type(event) is events.Received else event
            uncommitted = (member.last_index - member.commit_index).bit_length()
            unwritten = (member.last_index - member.written_index).bit_length()
            counts.counts[member.role, type(what).__name__, uncommitted, unwritten] += 1
            return handle(member, event)

        cast("Any", Raft).handle = counted


class _Line(msgspec.Struct):
    event: str
    role: str
    commit: int
    log_index: int | None = None


def shapes(lines: Mapping[str, Sequence[tuple[int, bytes]]]) -> Counter[tuple[str, ...]]:
    """How often two lines of telemetry followed each other on a node."""
    decode = msgspec.json.Decoder(_Line).decode
    found: Counter[tuple[str, ...]] = Counter()
    for of_node in lines.values():
        said = [decode(line) for _, line in of_node]
        words = [f"{line.event} {line.role} {_open(line)}" for line in said if line.event not in ("commit", "hash")]
        found.update(itertools.pairwise(words))
    return found


def _open(line: _Line) -> int:
    return 0 if line.log_index is None else max(0, line.log_index - line.commit).bit_length()


def states(simulated: Simulated, pairs: Mapping[tuple[str, str, int, int], int]) -> Iterator[State]:
    """Everything that a run reached."""
    for mark, count in simulated.marks.items():
        if count:
            yield f"mark {mark} {_magnitude(count)}"
    for pair, count in pairs.items():
        yield f"pair {' '.join(map(str, pair))} {_magnitude(count)}"
    for shape, count in shapes(simulated.lines).items():
        yield f"shape {' > '.join(shape)} {_magnitude(count)}"


def _magnitude(count: int) -> int:
    """1, 2 to 3, 4 to 15, 16 to 255, or more."""
    return count.bit_length().bit_length()


def carry_out(options: RunOptions, pairs: Pairs) -> Ran:
    """Simulate and judge a test as a hunt does, and note what it reached."""
    began_s = kernels.cpu_s()
    pairs.counts = Counter()
    try:
        test = compose(options)
        simulated = simulate(test, world=options.world)
        failure = None if simulated.failure is None else str(simulated.failure)
        verdicts = engine.judge(simulated.history, test.workload.checkers, simulated.telemetry, weaker=False)
    except SplitbrainError as error:
        return Ran(options, (), (), kernels.cpu_s() - began_s, Outcome.HARNESS_ERROR, str(error))
    outcome, error = engine.judged_outcome(verdicts, failure)
    faults = tuple(
        ScriptedFault(at_ns=op.time, f=op.f, value=op.value)
        for op in simulated.ops
        if op.process == NEMESIS and op.type == "invoke" and op.time < options.time_limit * 1e9
    )
    reached = tuple(states(simulated, pairs.counts))
    violated = outcome is Outcome.VIOLATION
    kind = families(signatures_in(verdicts, simulated.history)) if violated else anonymous(error or "")
    return Ran(options, reached, faults, kernels.cpu_s() - began_s, outcome, kind)


# --- the arms ---------------------------------------------------------------------------------------------------------


class Consecutive:
    """Seed after seed."""

    def __init__(self, first: int, asked: Asked) -> None:
        self._seeds = itertools.count(first)
        self._asked = asked

    def next(self) -> RunOptions:
        """The next test."""
        return draw(next(self._seeds), self._asked)

    def learn(self, ran: Ran) -> None:
        """Nothing."""


class Guided:
    """Half new seeds, half changes of runs that reached something rare."""

    def __init__(self, first: int, asked: Asked) -> None:
        self._new = Consecutive(first, asked)
        self._asked = asked
        self._rng = Streams(first)["guidance"]
        self._seeds = itertools.count(MUTATED_SEED + first)
        self._runs = 0
        self._reached: Counter[State] = Counter()
        self._corpus: list[Ran] = []
        self._children: list[int] = []

    def next(self) -> RunOptions:
        """The next test."""
        if not self._corpus or self._rng.random() < NEW:
            return self._new.next()
        for _ in range(20):
            changed = self._changed()
            try:
                compose(changed)
            except SplitbrainError:
                continue
            return changed
        return self._new.next()

    def learn(self, ran: Ran) -> None:
        """Count what a run reached, and keep it if that is rare."""
        self._runs += 1
        self._reached.update(ran.states)
        few = max(1, RARE * self._runs)
        if ran.outcome is not Outcome.HARNESS_ERROR and any(self._reached[state] <= few for state in ran.states):
            self._corpus.append(ran)
            self._children.append(0)

    def _changed(self) -> RunOptions:
        parent = self._drawn()
        self._children[parent] += 1
        ran, rng = self._corpus[parent], self._rng
        seed = next(self._seeds)
        if ran.faults and rng.random() < 1 / 3:
            other = self._corpus[self._drawn()]
            scheduled = changed_faults(ran, other, rng)
            if scheduled:
                same_seed = rng.random() < 0.5
                return msgspec.structs.replace(
                    ran.options, scheduled=scheduled, seed=ran.options.seed if same_seed else seed
                )
        plain = msgspec.structs.replace(ran.options, scheduled=(), seed=seed)
        return changed_options(plain, draw(seed, self._asked), rng)

    def _drawn(self) -> int:
        """The place of a run of the corpus, by its energy: rare states, few children, few CPU seconds."""
        few = max(1, RARE * self._runs)
        energies = [
            sum(1 / self._reached[state] for state in ran.states if self._reached[state] <= few)
            / (1 + self._children[place])
            / max(0.2, ran.cpu_s)
            for place, ran in enumerate(self._corpus)
        ]
        left = self._rng.random() * sum(energies)
        for place, energy in enumerate(energies):
            left -= energy
            if left < 0:
                return place
        return len(energies) - 1


OPTIONS: Final = ("nemesis", "settings", "concurrency", "rate", "interval", "world", "op_timeout", "workload")
"""What a change may draw anew."""


def changed_options(options: RunOptions, other: RunOptions, rng: Rng) -> RunOptions:
    """The same test with up to three options changed: drawn anew, or as another test has them."""
    for change in rng.sample(OPTIONS, rng.between(0, 3)):
        if change == "nemesis":
            options = msgspec.structs.replace(options, nemesis=_spliced(options.nemesis, other.nemesis, rng))
        elif change == "settings":
            options = msgspec.structs.replace(options, settings=_merged(options.settings, other.settings, rng))
        elif change == "rate":
            options = msgspec.structs.replace(options, rate=rng.choice(RATES_HZ))
        elif change == "interval":
            kinds = {entry(name).kind.name for name in options.nemesis.split(",") if name != "none"}
            least_s = least_interval_s(kinds)
            able = [each for each in INTERVALS_S if least_s <= each <= options.time_limit / 4] or [least_s]
            options = msgspec.structs.replace(options, interval=rng.choice(able))
        elif change == "op_timeout":
            options = msgspec.structs.replace(options, op_timeout=rng.choice(OP_TIMEOUTS_S))
        elif change in ("concurrency", "world", "workload"):
            options = msgspec.structs.replace(options, **{change: getattr(other, change)})
    return options


def _spliced(ours: str, theirs: str, rng: Rng) -> str:
    """Our nemeses, with one of theirs in the place of one, or beside them."""
    names = [name for name in ours.split(",") if name != "none"]
    if len(names) > 1 and rng.random() < 0.6:
        names.remove(rng.choice(names))
    taken = [*names, *(name for name in [rng.choice(theirs.split(","))] if name != "none")]
    return ",".join(dict.fromkeys(taken)) or ours


def _merged(ours: str, theirs: str, rng: Rng) -> str:
    """Our settings and theirs, each with an even chance."""
    named = [dict(pair.split("=") for pair in text.split(",") if pair) for text in (ours, theirs)]
    both = {**named[0], **named[1]} if rng.random() < 0.5 else {**named[1], **named[0]}
    return ",".join(f"{name}={both[name]}" for name in sorted(both) if rng.random() < 0.7)


def changed_faults(ran: Ran, other: Ran, rng: Rng) -> tuple[ScriptedFault, ...]:
    """The faults of a run as a schedule: a round left out, all behind a moment moved, or another run's behind it."""
    rounds = _rounds(ran.faults)
    how = rng.below(3)
    at_ns = int(rng.random() * ran.options.time_limit * 1e9)
    if how == 0 and len(rounds) > 1:
        rounds.pop(rng.below(len(rounds)))
    elif how == 1:
        by_ns = int((rng.random() - 0.5) * 2e9)
        rounds = [[f.moved(f.at_ns + by_ns) if f.at_ns >= at_ns else f for f in each] for each in rounds]
    elif other.options.nodes == ran.options.nodes:
        rounds = [each for each in rounds if each[0].at_ns < at_ns]
        rounds += [each for each in _rounds(other.faults) if each[0].at_ns >= at_ns]
    end_ns = ran.options.time_limit * 1e9
    flat = sorted((f for each in rounds for f in each if 0 <= f.at_ns < end_ns), key=lambda f: f.at_ns)
    return tuple(flat)


def _rounds(faults: Sequence[ScriptedFault]) -> list[list[ScriptedFault]]:
    """Each start with its stop."""
    rounds: list[list[ScriptedFault]] = []
    for fault in faults:
        opened = [each for each in rounds if each[0].value["fault"] == fault.value["fault"] and len(each) == 1]
        if fault.value["action"] == "stop" and opened:
            opened[-1].append(fault)
        else:
            rounds.append([fault])
    return rounds


def one_arm(arm: str, start: int, seconds: float, stops: bool) -> dict[str, Any]:
    """Run an arm for so many CPU seconds, or until something is found; what it came to."""
    warm_up()
    kernels.use_compiled()
    pairs = Pairs()
    pairs.install()
    asked = asked_for(workload=None, nemesis=None, nodes=None, system="metadata", bug="", world="swarm")
    make: Callable[[int, Asked], Consecutive | Guided] = Consecutive if arm == "consecutive" else Guided
    source = make(start, asked)
    reached: set[State] = set()
    outcomes: Counter[str] = Counter()
    began_s = kernels.cpu_s()
    found, steps = "", list[tuple[float, int]]()
    while kernels.cpu_s() - began_s < seconds:
        ran = carry_out(source.next(), pairs)
        source.learn(ran)
        reached.update(ran.states)
        outcomes[ran.outcome.value] += 1
        steps.append((round(kernels.cpu_s() - began_s, 2), len(reached)))
        if ran.outcome is Outcome.HARNESS_ERROR:
            print(ran.kind, file=sys.stderr)
        if ran.outcome is Outcome.VIOLATION:
            found = ran.kind
            if stops:
                break
    within = [count for at_s, count in steps if at_s <= seconds]
    return {
        "arm": arm,
        "start": start,
        "cpu_s": round(kernels.cpu_s() - began_s, 1),
        "found": found,
        "outcomes": outcomes,
        "states": {kind: sum(state.startswith(kind) for state in reached) for kind in ("mark", "pair", "shape")},
        "reached": max(within, default=0),
        "runs": len(steps),
    }


# --- comparing --------------------------------------------------------------------------------------------------------


def ask(words: Sequence[str], code: Path | None = None) -> dict[str, Any]:
    """One arm in a process of its own, with the code in a folder.

    Raises:
        SystemExit: it ended without an answer.
    """
    environment = os.environ if code is None else {**os.environ, "PYTHONPATH": str(code)}
    done = subprocess.run(
        [sys.executable, "-P", str(Path(__file__).resolve()), *words],
        env={**environment, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def one_mutant(name: str, words: Sequence[str]) -> dict[str, Any]:
    """One arm with the code that has a mutant's bug."""
    sys.path.insert(0, str(ROOT / "tools"))
    mutants: Any = importlib.import_module("mutants")
    patches: Any = importlib.import_module("patches")
    mutant = patches.read(name)
    with tempfile.TemporaryDirectory(prefix="guidance-") as folder:
        mutants.copy(Path(folder), mutant.files)
        patches.apply(mutant, Path(folder))
        return {"mutant": name, **ask([*words, "--stops"], Path(folder))}


def carried_out(task: tuple[str, list[str]]) -> dict[str, Any]:
    """One arm: of a mutant, if one is named."""
    name, words = task
    return one_mutant(name, words) if name else ask(words)


def compared(results: Sequence[Mapping[str, Any]], seconds: float) -> dict[str, Any]:
    """The guided arm against the other, in pairs of the same start and mutant.

    What counts is how many states were reached; of mutants the CPU seconds until one was found, or all that there were.
    """
    by_arm: dict[str, dict[Any, float]] = {arm: {} for arm in ARMS}
    for result in results:
        name = result.get("mutant")
        took_s = min(result["cpu_s"], seconds) if result["found"] else seconds
        by_arm[result["arm"]][name, result["start"]] = result["reached"] if name is None else -took_s
    pairs = [key for key in by_arm["guided"] if key in by_arm["consecutive"]]
    differences = [by_arm["guided"][key] - by_arm["consecutive"][key] for key in pairs]
    return {
        "pairs": len(pairs),
        "better": sum(each > 0 for each in differences),
        "worse": sum(each < 0 for each in differences),
        "mean_difference": round(statistics.fmean(differences), 1) if differences else None,
        "p": round(by_chance(differences), 3) if differences else None,
    }


def by_chance(differences: Sequence[float]) -> float:
    """The share of all choices of signs with which the sum is as far from zero or farther (Fisher's test of pairs)."""
    seen = abs(sum(differences)) - 1e-9
    sums = [0.0]
    for each in differences:
        sums = [total + sign * each for total in sums for sign in (1, -1)]
    return sum(abs(total) >= seen for total in sums) / len(sums)


def main() -> None:
    """Run what is asked for, and print a line of JSON for each arm, and one for what they come to."""
    given = _parser().parse_args()
    if given.arm:
        print(json.dumps(one_arm(given.arm, given.start, given.seconds, given.stops)))
        return
    starts = [given.start + place * START_APART for place in range(given.starts)]
    arms = given.arms.split(",")
    tasks = [
        (name, ["--arm", arm, "--start", str(start), "--seconds", f"{given.seconds:g}"])
        for start in starts
        for name in (given.find or [""])
        for arm in arms
    ]
    results: list[dict[str, Any]] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for result in pool.map(carried_out, tasks):
            results.append(result)
            print(json.dumps(result), flush=True)
    print(json.dumps(compared(results, given.seconds)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--find", nargs="*", metavar="NAME")
    parser.add_argument("--arm", choices=ARMS)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--start", type=int, default=1)
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--stops", action="store_true")
    return parser


if __name__ == "__main__":
    main()
