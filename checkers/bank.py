"""Bank: every read of all accounts finds the same total. Exact, O(n).

    wrong-total         the balances of a read do not add up to what there was at first
    negative-balance    an account is overdrawn, which no transfer allows
    wrong-accounts      a read answered other accounts than there are, or what is no whole number

A transfer leaves the total as it is, with any outcome. So a read that is not at one moment, or sees half of a transfer,
finds another total; and a transfer that is lost in half changes it for all reads that follow (Jepsen's `bank`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.verdict import Partition, Verdict
from splitbrain.results.calls import Calls, Ints, cell, client_calls
from splitbrain.results.columns import codes
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason


class Bank:
    """Judges reads (answer: balances by account) beside transfers. Ops with different keys are about different banks.

    Options: `accounts`, how many there are, named "0", "1" and so on, and `total`, the sum of their balances at first.
    What is not given is taken from the reads: what most of them found, of those the first. With `negative_balances`,
    accounts may be overdrawn.
    """

    name = "bank"
    partition: Partition = "run"
    keys_apart = True

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return ("read", "transfer")

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run.

        Raises:
            UsageError: an option is wrong, or balances are fractions, and nothing else is wrong.
        """
        accounts, given = (_whole(options, name) for name in ("accounts", "total"))
        overdrawn = options.get("negative_balances", False)
        if not isinstance(overdrawn, bool):
            raise UsageError(f"checker bank: option 'negative_balances' is true or false, not {overdrawn!r}.")
        calls = client_calls(history)
        banks = [bank for bank in _by_key(calls) if bank.reads]
        findings: list[Finding] = []
        totals: list[int] = []
        for bank in banks:
            usual = _usual([balances for _, balances in bank.reads])
            names = list(usual) if accounts is None else [str(account) for account in range(accounts)]
            totals.append(sum(usual.values()) if given is None else given)
            for row, balances in bank.reads:
                if _has_fractions(balances):
                    continue
                found = _findings(history, row, balances, names, totals[-1])
                findings += [each for each in found if not (overdrawn and each.anomaly == "negative-balance")]
        findings.sort(key=lambda each: each.rows)
        odd = next((balances for bank in banks for _, balances in bank.reads if _has_fractions(balances)), None)
        if odd is not None and not findings:
            raise UsageError(f"checker bank: balances must be whole numbers, which add up exactly, not {odd!r:.80}.")
        figures = {
            "reads": sum(len(bank.reads) for bank in banks),
            "transfers": int(np.count_nonzero(calls.are("transfer") & calls.ended("ok"))),
            "states": max((bank.states for bank in banks), default=0),
            "beside_transfers": sum(bank.beside_transfers for bank in banks),
        }
        judge = by_key.Judge(self.name, "total of balances")
        if odd is not None:
            beside = f"{findings[0].sentence} Balances that are fractions could not be judged, as in {odd!r:.80}."
            findings[0] = msgspec.structs.replace(findings[0], sentence=beside)
        verdict = judge.key(None, history, findings, _praise(figures, totals), figures, exercised=figures["reads"] > 0)
        return _with_reasons(verdict, figures)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The one verdict."""
        [verdict] = verdicts
        return verdict


def _whole(options: Mapping[str, Any], name: str) -> int | None:
    value = options.get(name)
    if value is not None and (type(value) is not int or value < 1):
        raise UsageError(f"checker bank: option {name!r} must be a whole number above 0, not {value!r}.")
    return value


def _usual(reads: Sequence[Any]) -> Mapping[str, int]:
    """Balances with the accounts and the total that most reads found; none if no read has any."""
    found = [cast("dict[str, Any]", each) for each in reads if isinstance(each, dict) and each]
    whole = [each for each in found if all(type(balance) is int for balance in each.values())]
    if not whole:
        return {}
    kinds = [(tuple(sorted(each)), sum(each.values())) for each in whole]
    [(most, _)] = Counter(kinds).most_common(1)
    return whole[kinds.index(most)]


def _has_fractions(found: Any) -> bool:
    return isinstance(found, dict) and any(type(each) is float for each in cast("dict[str, Any]", found).values())


def _findings(table: pa.Table, row: int, found: Any, names: list[str], total: int) -> Iterable[Finding]:
    balances = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    said = f"{by_key.answer(table, row)} answered"
    if (
        not balances
        or sorted(balances) != sorted(names)
        or any(type(balance) is not int for balance in balances.values())
    ):
        sentence = f"Wrong accounts: {said} {found!r:.200}, not a whole number for each of the accounts {names}."
        yield Finding("wrong-accounts", sentence, (row,))
        return
    held = sum(balances.values())
    if held != total:
        sentence = f"Wrong total: {said} balances of {held} in all, not {total} as at first: {balances}."
        yield Finding("wrong-total", sentence, (row,))
    overdrawn = [name for name in names if balances[name] < 0]
    if overdrawn:
        sentence = f"Overdrawn: {said} {balances[overdrawn[0]]} for account {overdrawn[0]}."
        yield Finding("negative-balance", sentence, (row,))


class _Bank:
    """The accounts of one key: rows of answered reads with their balances, and what they saw."""

    def __init__(self, calls: Calls, reads: Ints, transfers: Ints) -> None:
        self._calls = calls
        self._reads = reads
        self._transfers = transfers
        self.reads = [(row, cell(calls.table, "value", row)) for row in calls.complete[self._reads].tolist()]

    @property
    def states(self) -> int:
        """How many different balances were found."""
        return len({str(balances) for _, balances in self.reads})

    @property
    def beside_transfers(self) -> int:
        """How many reads were under way at the same time as a transfer that was acknowledged."""
        invoke, complete = self._calls.invoke, self._calls.complete
        begun, ended = np.sort(invoke[self._transfers]), np.sort(complete[self._transfers])
        before_end = np.searchsorted(begun, complete[self._reads])
        return int(np.count_nonzero(before_end > np.searchsorted(ended, invoke[self._reads])))


def _by_key(calls: Calls) -> Iterable[_Bank]:
    """The accounts of each key, in the order of their first ops."""
    keys, names = codes(calls.table["key"])
    of_calls = keys[calls.invoke]
    ok, numbers = calls.ended("ok"), np.arange(len(names) + 1)

    def grouped(f: str) -> list[Ints]:
        """By key the ops of a function that were ok, in their order."""
        chosen = np.flatnonzero(calls.are(f) & ok)
        chosen = chosen[np.argsort(of_calls[chosen], kind="stable")]
        bounds = np.searchsorted(of_calls[chosen], numbers)
        return [chosen[begin:end] for begin, end in pairwise(bounds.tolist())]

    for reads, transfers in zip(grouped("read"), grouped("transfer"), strict=True):
        yield _Bank(calls, reads, transfers)


def _praise(figures: Mapping[str, int], totals: Sequence[int]) -> str:
    if not figures["reads"]:
        return "No balance was ever read."
    found = f"{totals[0]} in all" if len(totals) == 1 else f"the total of their own bank, one of {len(totals)}"
    return (
        f"All {counted(figures['reads'], 'read')} found {found}, in {counted(figures['states'], 'state')} of "
        f"the accounts; {figures['beside_transfers']} of them were under way beside a transfer."
    )


def _with_reasons(found: Verdict, figures: Mapping[str, int]) -> Verdict:
    """The verdict with what was not exercised."""
    if found.valid != "true":
        return found
    reasons: list[Reason] = []
    if not figures["transfers"]:
        reasons.append(Reason(Code.NOT_EXERCISED, "no transfer succeeded: no total could have changed."))
    elif figures["states"] < 2:
        reasons.append(Reason(Code.READS_SAW_NOTHING, "all reads found the same balances: none saw a transfer."))
    elif not figures["beside_transfers"]:
        advice = "Give it a higher --rate, or more clients."
        reasons.append(Reason(Code.NOT_EXERCISED, "no read was under way beside a transfer.", advice))
    return Verdict(
        checker=found.checker,
        valid="true",
        algorithm=found.algorithm,
        sentence=found.sentence,
        inconclusive=tuple(reasons),
        figures=found.figures,
    )
