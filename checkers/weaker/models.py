"""Which weaker models a violated history still fulfils, as words and as JSON.

The strongest first that can be decided: sequential consistency implies causal memory (CM) and causal convergence (CCv),
and each of these implies causal consistency (CC). What refutes a weaker model refutes the stronger ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers import models
from splitbrain.checkers.kernels import cpu_s
from splitbrain.checkers.linearizable.evidence import describe
from splitbrain.checkers.linearizable.limits import Budget, Clock
from splitbrain.checkers.linearizable.ops import show
from splitbrain.checkers.linearizable.options import read_options
from splitbrain.checkers.models import CasRegister, CreateOnce, KeyValue, Model, Register
from splitbrain.checkers.verdict import Verdict
from splitbrain.checkers.weaker import sequential
from splitbrain.checkers.weaker.calls import NOTHING, Calls, Registers, read_calls
from splitbrain.checkers.weaker.causal import Causality, guessed_sources
from splitbrain.checkers.weaker.reads_from import ContradictionError, Deduction, Rule
from splitbrain.checkers.weaker.work import STEPS, TIME_S, OutOfWorkError, Work
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.quantities import counted

LINEARIZABILITY: Final = "linearizability"
SEQUENTIAL: Final = "sequential consistency"
MEMORY: Final = "causal memory (CM)"
CONVERGENCE: Final = "causal convergence (CCv)"
CAUSAL: Final = "causal consistency (CC)"

ROWS_MAX: Final = 250_000
"""A history of more rows, two per op and those of the nemesis, is not looked at again."""

_DEDUCTION: Final = 0.4
"""Of the work, the most that goes into what is deduced."""

_NEAR: Final = 0.5
"""Of what is left then, the most for the search near real time."""

_ANYWHERE: Final = 0.6
"""Of what is left then, the most for the search everywhere; the rest is for causal memory and convergence."""

_OPS_IN_WORDS: Final = 5
_OPS_SHOWN: Final = 20
_ORDER_SHOWN: Final = 1_000
_WORDS: Final = 60


_IMPLIES: Final[Mapping[str, tuple[str, ...]]] = {
    SEQUENTIAL: (MEMORY, CONVERGENCE, CAUSAL),
    MEMORY: (CAUSAL,),
    CONVERGENCE: (CAUSAL,),
    CAUSAL: (),
}
"""The models, strongest first, and the weaker ones that each implies."""


_CAUSAL_MODELS: Final = (Register, CasRegister, CreateOnce, KeyValue)


@dataclass
class Answer:
    """What is known of the weaker models.

    Attributes:
        holds: for each model that is decided, whether it holds.
        why_not: why a model is not decided, as the end of a sentence.
        reason: what refutes the weakest model that is refuted, as the end of a sentence.
        pattern: the same by its name in the literature.
        culprits: the ops that show it.
        order: of the ops, where sequential consistency holds.
    """

    holds: dict[str, bool] = field(default_factory=dict[str, bool])
    why_not: str = ""
    reason: str = ""
    pattern: str = ""
    culprits: tuple[int, ...] = ()
    order: list[int] | None = None

    def prove(self, model: str) -> None:
        """A model holds, and so do those that it implies."""
        self.holds.update(dict.fromkeys((model, *_IMPLIES[model]), True))

    def refute(self, model: str, pattern: str, reason: str, culprits: Sequence[int] = ()) -> None:
        """A model does not hold, and neither do those that imply it."""
        self.holds[model] = False
        self.holds.update((each, False) for each, implied in _IMPLIES.items() if model in implied)
        self.pattern, self.reason, self.culprits = pattern, reason, tuple(culprits)


def with_models(verdict: Verdict, history: pa.Table, options: Mapping[str, Any], clock: Clock = cpu_s) -> Verdict:
    """The verdict that a history is not linearizable, with what is known of weaker models in sentence and evidence.

    Args:
        verdict: of `linearizable`, on the whole run.
        history: all rows of the run, in order.
        options: of the checker.
        clock: CPU seconds of this thread.
    """
    if history.num_rows > ROWS_MAX:
        return too_large(verdict)
    chosen = read_options(options)
    model = models.model(chosen.model)
    budget = Budget(TIME_S, clock)
    work = Work(budget, STEPS)
    with budget:
        try:
            calls = read_calls(history, model, chosen.functions)
        except HistoryFormatError as error:
            return _with(verdict, None, Answer(why_not=f"the processes of the run are no sessions ({error})"), work)
        except UsageError:  # of a key beside the one that is violated: the verdict says so
            return _with(verdict, None, Answer(why_not="the ops of another key cannot be judged"), work)
        return _with(verdict, calls, decide(calls, model, work), work)


def too_large(verdict: Verdict) -> Verdict:
    """The same for a history that is not looked at again."""
    why_not = f"a history of more than {ROWS_MAX:,} rows is not searched again"
    return _with(verdict, None, Answer(why_not=why_not), None)


def decide(calls: Calls, model: Model, work: Work) -> Answer:
    """What can be decided of a history of this model within the work.

    Raises:
        Exception: what the model raises.
    """
    answer, deduced = Answer(), None
    weakest = CAUSAL if isinstance(model, _CAUSAL_MODELS) else SEQUENTIAL
    if calls.registers is not None:
        deduced = _deduce(calls, calls.registers, weakest, answer, work)
    if SEQUENTIAL not in answer.holds:
        _search(calls, model, deduced, answer, work)
    if CAUSAL in answer.holds:
        return answer
    if calls.registers is None or weakest is SEQUENTIAL:
        answer.why_not = answer.why_not or f"causal consistency is decided of registers, not of the model {model.name}"
    elif deduced is not None:
        try:
            _refine(calls, calls.registers, deduced, answer, work)
        except OutOfWorkError as error:
            answer.why_not = str(error)
    return answer


# --- one model after the other ----------------------------------------------------------------------------------------


@dataclass
class _Deduced:
    """The sources of reads as causality gives them, and what must come after each op for sequential consistency."""

    source: dict[int, int]
    open: dict[int, list[int]]
    edges: list[list[int]]


def _deduce(calls: Calls, registers: Registers, weakest: str, answer: Answer, work: Work) -> _Deduced | None:
    part = work.part(_DEDUCTION)
    found = None
    try:
        deduction = Deduction(calls, registers, part)
        deduction.causal()
        found = _Deduced(dict(deduction.source), dict(deduction.open), deduction.order.edges)
        deduction.sequential()
    except ContradictionError as error:
        model = weakest if found is None else SEQUENTIAL
        answer.refute(model, error.rule.value, _reason(calls, error.rule, error.ops), error.ops)
    except OutOfWorkError as error:
        answer.why_not = str(error)
    work.absorb(part)
    return found


def _search(calls: Calls, model: Model, deduced: _Deduced | None, answer: Answer, work: Work) -> None:
    registers = calls.registers
    if sequential.least_steps(calls) > work.most - work.steps:
        answer.why_not = answer.why_not or "the search would take too many steps"
        return
    steps = sequential.Objects(calls, model) if registers is None else sequential.Registers(registers)
    edges = () if deduced is None else deduced.edges
    near = None if registers is None else sequential.bounds(calls, registers)
    for within, share in ((near, _NEAR), (None, _ANYWHERE)):
        if within is None and share is _NEAR:
            continue
        part = work.part(share)
        search = sequential.Search(calls, steps, part, edges=edges, within=within)
        try:
            answer.order = search.run()
        except OutOfWorkError as error:
            answer.why_not = str(error)
            continue
        finally:
            work.absorb(part)
        if answer.order is not None:
            answer.prove(SEQUENTIAL)
            return
        if within is None:
            reason = (
                f"no order of its ops keeps that of each process ({counted(search.states, 'state')} were looked at)"
            )
            answer.refute(SEQUENTIAL, "exhaustive search", reason)


def _refine(calls: Calls, registers: Registers, deduced: _Deduced, answer: Answer, work: Work) -> None:
    """Causal memory and convergence, of a history that nothing forced refutes."""
    if any(value != NOTHING for value in registers.refuses):
        answer.why_not = answer.why_not or "answers that a compare-and-set did not match are not judged causally"
        return
    source = guessed_sources(calls, registers, deduced.source, deduced.open, work)
    certain = len(source) == len(deduced.source)
    look = Deduction(calls, registers, work)
    try:
        look.assume(source)
    except ContradictionError:
        answer.why_not = _REPEATED
        return
    answer.prove(CAUSAL)
    found = Causality(calls, registers, source, look.order, work)
    for model, pattern, ops in ((CONVERGENCE, "CyclicCF", found.converges()), (MEMORY, "CyclicHB", found.is_memory())):
        if not ops:
            answer.prove(model)
        elif certain:
            answer.refute(model, pattern, _PATTERNS[pattern].format(_listed(calls, ops)), ops)
        else:
            answer.why_not = answer.why_not or _REPEATED


# --- words --------------------------------------------------------------------------------------------------------


def _with(verdict: Verdict, calls: Calls | None, answer: Answer, work: Work | None) -> Verdict:
    holds = answer.holds
    surviving = [model for model in _IMPLIES if holds.get(model)]
    implied = {weaker for model in surviving for weaker in _IMPLIES[model]}
    found: dict[str, Any] = {
        "violated": [*(model for model in reversed(_IMPLIES) if holds.get(model) is False), LINEARIZABILITY],
        "surviving": [model for model in surviving if model not in implied],
        "undecided": [model for model in _IMPLIES if model not in holds],
        "sentence": sentence(answer),
    }
    if answer.why_not and found["undecided"]:
        found["why_undecided"] = answer.why_not
    if answer.pattern:
        found["pattern"] = answer.pattern
    if calls is not None and answer.culprits:
        shown = answer.culprits[:_OPS_SHOWN]
        found["ops"] = [{"key": _key(calls, op), **describe(calls.ops, op)} for op in shown]
    if calls is not None and answer.order is not None and len(answer.order) <= _ORDER_SHOWN:
        found["order"] = [_index(calls, op) for op in answer.order]
    if work is not None:
        found["steps"] = work.steps
    return msgspec.structs.replace(
        verdict,
        sentence=f"{verdict.sentence} {found['sentence']}",
        evidence={**verdict.evidence, "models": found},
    )


def sentence(answer: Answer) -> str:
    """Which models hold, which are broken, and which are not decided, for a person."""
    holds = answer.holds
    if holds.get(SEQUENTIAL):
        return "The run is still sequentially consistent: one order of all its ops keeps that of each process."
    parts: list[str] = []
    if holds.get(CAUSAL) is False:
        parts.append(f"Not even {CAUSAL} holds: {answer.reason}.")
    elif holds.get(SEQUENTIAL) is False:
        broken = [model for model in (SEQUENTIAL, CONVERGENCE, MEMORY) if holds.get(model) is False]
        parts.append(f"{_and(broken).capitalize()} {'are' if broken[1:] else 'is'} broken too: {answer.reason}.")
    surviving = [model for model in (MEMORY, CONVERGENCE) if holds.get(model)]
    surviving = surviving or [model for model in (CAUSAL,) if holds.get(model)]
    if surviving:
        parts.append(f"The run is still causally consistent: {_and(surviving)} {'hold' if surviving[1:] else 'holds'}.")
    undecided = [model for model in _IMPLIES if model not in holds]
    if undecided:
        parts.append(f"Not decided: {_and(undecided)} ({answer.why_not}).")
    return " ".join(parts)


_REPEATED: Final = "values were written more than once, and it is not known which write a read saw"

_PATTERNS: Final[Mapping[str, str]] = {
    "CyclicCF": "each of these writes would have to be replaced by the next one, and the last by the first: {}",
    "CyclicHB": "one process cannot order the writes that it knows of: {}",
}


def _reason(calls: Calls, rule: Rule, ops: Sequence[int]) -> str:
    last = _named(calls, ops[-1])
    if rule is Rule.THIN_AIR:
        return f"nothing wrote what {last} saw"
    if rule is Rule.NOT_INITIAL:
        return f"{last} saw the value at the beginning, though {_named(calls, ops[0])} came causally before it"
    if rule is Rule.OVERWRITTEN:
        return (
            f"{last} saw a value that had been replaced in its causal past: {_named(calls, ops[0])} came before "
            f"{_named(calls, ops[1])}, and that before the read"
        )
    how = "causally" if rule is Rule.CYCLE else "in any order of all ops"
    return f"these ops would have to come, {how}, each before the next and the last before the first: " + _listed(
        calls, ops
    )


def _listed(calls: Calls, ops: Sequence[int]) -> str:
    named = [_named(calls, op) for op in ops[:_OPS_IN_WORDS]]
    more = len(ops) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _named(calls: Calls, op: int) -> str:
    ops = calls.ops
    row = int(ops.invoked[op] if ops.crashed[op] else ops.completed[op])
    key = _key(calls, op)
    what = _short(str(ops.transitions[int(ops.transition[op])]))
    where = "" if key is None else f" of key {_short(show(key))}"
    return f"{what}{where} (process {ops.cell('process', row)}, op {_index(calls, op)})"


def _index(calls: Calls, op: int) -> int:
    ops = calls.ops
    row = int(ops.invoked[op] if ops.crashed[op] else ops.completed[op])
    return ops.cell("index", row)


def _key(calls: Calls, op: int) -> str | None:
    return calls.ops.cell("key", int(calls.ops.invoked[op]))


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if names[1:] else names[0]


def _short(text: str) -> str:
    return text if len(text) <= _WORDS else f"{text[: _WORDS // 2]}...{text[-_WORDS // 4 :]}"
