"""The hash chain of a log, computed when it is asked for, is that of a store that applies all of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.chain import EMPTY, HASHED_AT_ONCE, LogChain, Point, chained
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.log import Log
from splitbrain.cluster.store import Store


def chain_of(entries: list[Entry]) -> bytes:
    chain = EMPTY
    for entry in entries:
        chain = chained(chain, entry)
    return chain


def noops(first: int, last: int, term: int = 1) -> list[Entry]:
    return [Entry(index, term, "noop", b"") for index in range(first, last + 1)]


def test_the_chain_of_a_log_is_that_of_a_store_that_applied_it() -> None:
    entries, store = noops(1, 9), Store()
    for entry in entries:
        store.apply(entry)
    assert store.chain == (9, chain_of(entries))
    assert LogChain(Log(entries), lambda: (0, EMPTY)).at(9) == Point(9, 1, store.chain_hash)


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "truncate", "apply", "compact", "ask", "ask", "end"]), st.integers(0, 40)),
    max_size=40,
)


@given(STEPS)
def test_however_the_log_grows_and_is_cut_the_chain_is_that_of_all_its_entries(steps: list[tuple[str, int]]) -> None:
    whole: list[Entry] = []
    log, applied, term = Log(), 0, 1
    chain = LogChain(log, lambda: (applied, chain_of(whole[:applied])))
    for step, number in steps:
        if step == "append":
            more = [Entry(len(whole) + 1 + k, term, "command", bytes([number, term])) for k in range(number % 5 + 1)]
            log.append(more)
            whole += more
        elif step == "truncate" and len(whole) > applied:
            keep = applied + number % (len(whole) - applied)
            log.truncate(keep + 1)
            del whole[keep:]
            term += 1
            chain.forget()
        elif step == "apply":
            applied = min(len(whole), applied + number % 7)
        elif step == "compact" and applied > log.base_index:
            log.compact(log.base_index + 1 + number % (applied - log.base_index))
        elif step in ("ask", "end"):
            index = len(whole) if step == "end" else number
            said = chain.end() if step == "end" else chain.at(index)
            if applied <= index <= len(whole) and index:
                assert said == Point(index, whole[index - 1].term, chain_of(whole[:index]).hex())
            else:
                assert said is None


def test_no_line_of_telemetry_waits_for_more_than_some_thousand_entries_and_the_work_is_done_once() -> None:
    entries = noops(1, HASHED_AT_ONCE + 64)
    chain = LogChain(Log(entries), lambda: (0, EMPTY))
    assert chain.end() is None
    assert chain.at(64) == Point(64, 1, chain_of(entries[:64]).hex())
    assert chain.end() == Point(len(entries), 1, chain_of(entries).hex()), "it goes on from what was hashed"


def test_what_lies_behind_a_snapshot_that_the_store_has_not_loaded_yet_is_not_known() -> None:
    log = Log(noops(1, 9))
    chain = LogChain(log, lambda: (0, EMPTY))
    log.replace(20, 2)
    assert (chain.at(9), chain.end()) == (None, None)


def test_a_chain_differs_with_everything_that_is_in_an_entry_and_with_all_before_it() -> None:
    base = chained(EMPTY, Entry(1, 1, "command", b"a"))
    others = [
        chained(EMPTY, Entry(2, 1, "command", b"a")),
        chained(EMPTY, Entry(1, 2, "command", b"a")),
        chained(EMPTY, Entry(1, 1, "noop", b"a")),
        chained(EMPTY, Entry(1, 1, "command", b"b")),
        chained(base, Entry(1, 1, "command", b"a")),
    ]
    assert len({base, *others}) == 6


def test_what_was_hashed_before_is_of_no_use_once_it_was_taken_out_or_applied_and_compacted() -> None:
    entries = noops(1, 9)
    log, applied = Log(entries), 0
    chain = LogChain(log, lambda: (applied, chain_of(entries[:applied])))
    assert chain.at(3) == Point(3, 1, chain_of(entries[:3]).hex())
    applied = 6
    log.compact(5)
    assert chain.at(9) == Point(9, 1, chain_of(entries).hex()), "entry 4 is not in the log any more"
    log.truncate(8)
    entries[7:] = noops(8, 9, term=2)
    log.append(entries[7:])
    chain.forget()
    assert chain.at(9) == Point(9, 2, chain_of(entries).hex())
