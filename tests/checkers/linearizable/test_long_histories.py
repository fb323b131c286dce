"""A history that is read piece by piece is judged as its table is: the same verdict, evidence and witness."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from splitbrain.checkers import engine, long_histories, weaker
from splitbrain.checkers.long_histories import LongHistory, read_long_history
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.harness.cli.histories import read_long_history_of
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.history import Op

NEMESIS = -1


def spec(model: str = "cas-register") -> CheckerSpec:
    return CheckerSpec("linearizable", {"model": model, "witness_time_s": 20.0})


def stored(history: list[Op], path: Path, group_rows: int = 3) -> Path:
    table: Any = to_table(history)
    pq.write_table(table, path, row_group_size=group_rows, write_page_checksum=True)
    return path


def read(path: Path, piece_rows: int = 7) -> LongHistory | None:
    return read_long_history(path, at_least=0, piece_rows=piece_rows)


def recorded(seed: int, *, ops: int, key: str | None = None, faults: bool = True, lies: int = 0) -> list[Op]:
    """What clients of a register see that works, but for `lies` reads; with crashes, failures and a nemesis."""
    chance = random.Random(seed)
    history: list[Op] = []
    under_way: dict[int, Op] = {}
    value: int | None = None  # as the model begins
    clients, begun = [0, 1, 2], 0

    def log(process: int, kind: Any, f: str, said: Any) -> None:
        index = 2 * len(history)
        node = None if process < 0 else f"n{process % 3}"
        history.append(
            Op(index=index, time=index * 1000 + 7, process=process, type=kind, f=f, value=said, key=key, node=node)
        )

    lie_at = set(chance.sample(range(ops // 2, ops), lies))
    while begun < ops or under_way:
        idle = [client for client in clients if client not in under_way]
        if faults and chance.random() < 0.1:
            history.append(Op(index=2 * len(history), time=1, process=NEMESIS, type="info", f="start", value=None))
        if begun < ops and idle and chance.random() < 0.5:
            client = chance.choice(idle)
            f = "read" if begun in lie_at else chance.choice(["read", "write", "cas"])
            said = {"read": None, "write": chance.randrange(3), "cas": [chance.randrange(3), chance.randrange(3)]}[f]
            log(client, "invoke", f, said)
            under_way[client] = msgspec.structs.replace(history[-1], time=begun)
            begun += 1
        elif under_way:
            client = chance.choice(sorted(under_way))
            op = under_way.pop(client)
            fate = chance.random() if faults else 1.0
            if op.f == "read":
                log(client, "ok", "read", 77 if op.time in lie_at else value)
            elif fate < 0.05:
                log(client, "fail", op.f, op.value)
            elif fate < 0.1:
                log(client, "info", op.f, op.value)
                clients[clients.index(client)] = client + 3
            elif op.f == "write":
                value = op.value
                log(client, "ok", "write", value)
            elif op.value[0] == value:
                value = op.value[1]
                log(client, "ok", "cas", op.value)
            else:
                log(client, "ok", "cas", False)
    return history


def same(verdict: Verdict) -> dict[str, Any]:
    """A verdict without what depends on the clock: how long it took, and which arm of the search had how many turns."""
    fields = msgspec.to_builtins(verdict)
    figures = {name: fields["figures"][name] for name in ("keys", "ops", "judged", "crashed")}
    return {**fields, "seconds": 0.0, "algorithm": "", "figures": figures}


@pytest.mark.slow
@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("lies", [0, 1])
def test_pieces_of_a_few_rows_say_what_the_table_says(tmp_path: Path, *, faults: bool, lies: int) -> None:
    answers: set[str] = set()
    for seed in range(12):
        history = recorded(seed, ops=12 + 3 * seed, key="x" if seed % 2 else None, faults=faults, lies=lies)
        long = read(stored(history, tmp_path / "history.parquet"))
        assert long is not None
        [expected] = engine.judge(to_table(history), [spec()], weaker=False)
        found = engine.judge_long(long, spec(), weaker=False)
        assert same(found) == same(expected), f"seed {seed}"
        answers.add(found.valid)
    assert answers == ({"false"} if lies else {"true"})


def test_a_stale_read_has_the_witness_that_the_table_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = recorded(5, ops=300, faults=False)
    last = history[-1].index
    for place, (f, said) in enumerate([("write", 1), ("write", 2), ("read", 1)]):
        for end, kind in enumerate(("invoke", "ok")):
            value = None if (f, kind) == ("read", "invoke") else said
            index = last + 1 + 2 * place + end
            history.append(Op(index=index, time=index, process=0, type=kind, f=f, value=value, node="n1"))
    long = read(stored(history, tmp_path / "history.parquet", group_rows=50), piece_rows=16)
    assert long is not None
    [expected] = engine.judge(to_table(history), [spec()], weaker=False)
    found = engine.judge_long(long, spec(), weaker=False)
    assert found.valid == "false"
    assert found.evidence["failing_op"]["node"] == "n1"
    assert len(found.evidence["witness"]["ops"]) > 1
    assert same(found) == same(expected)
    [of_table] = engine.judge(to_table(history), [spec()])
    assert engine.judge_long(long, spec()).evidence["models"] == of_table.evidence["models"]
    monkeypatch.setattr(weaker, "ROWS_MAX", 10)
    models = engine.judge_long(long, spec()).evidence["models"]
    assert models["violated"] == ["linearizability"]
    assert "rows is not searched again" in models["why_undecided"]


def test_a_model_that_knows_owners_gets_its_processes(tmp_path: Path) -> None:
    rows = [(0, "invoke", "acquire"), (0, "ok", "acquire"), (1, "invoke", "release"), (1, "ok", "release")]
    history = [Op(index=i, time=i, process=p, type=t, f=f) for i, (p, t, f) in enumerate(rows)]  # type: ignore[arg-type]
    long = read(stored(history, tmp_path / "history.parquet"))
    assert long is not None
    [expected] = engine.judge(to_table(history), [spec("owner-mutex")], weaker=False)
    found = engine.judge_long(long, spec("owner-mutex"), weaker=False)
    assert found.valid == "false"
    assert same(found) == same(expected)


def test_writes_that_say_late_what_they_wrote_may_write_more_values_than_arguments_have_numbers(tmp_path: Path) -> None:
    history: list[Op] = []
    for value in range(200):
        events: list[tuple[Any, str, int | None]] = [
            *(("invoke", "write", None), ("ok", "write", value)),
            *(("invoke", "read", None), ("ok", "read", value)),
        ]
        for kind, f, said in events:
            history.append(Op(index=len(history), time=0, process=0, type=kind, f=f, value=said))
    long = read(stored(history, tmp_path / "history.parquet", group_rows=50), piece_rows=16)
    assert long is not None
    assert engine.judge_long(long, spec("register")).valid == "true"


def test_every_cell_of_clients_is_found_again(tmp_path: Path) -> None:
    history = recorded(3, ops=40, key="x")
    long = read(stored(history, tmp_path / "history.parquet", group_rows=10), piece_rows=4)
    assert long is not None
    clients = [op for op in history if op.process >= 0]
    assert len(clients) < len(history) == long.file_rows
    assert long.num_rows == len(clients)
    for row, op in enumerate(clients):
        assert [long.cell(name, row) for name in ("index", "time", "process", "node")] == [
            op.index,
            op.time,
            op.process,
            op.node,
        ]


def odd_histories() -> dict[str, list[Op]]:
    plain = recorded(1, ops=10, key="x")
    clients = [place for place, op in enumerate(plain) if op.process >= 0]
    other = msgspec.structs.replace(plain[clients[-1]], key="y")
    twice = msgspec.structs.replace(plain[clients[0]], index=10_000)
    return {
        "two keys": [*plain[: clients[-1]], other],
        "out of order": plain[::-1],
        "one index twice": [plain[0], *plain],
        "an invocation inside its own": [plain[clients[0]], twice],
        "a completion of nothing": [op for place, op in enumerate(plain) if place != clients[0]],
        "no client": [Op(index=0, time=0, process=NEMESIS, type="info", f="start")],
        "a process without end": [msgspec.structs.replace(op, process=2_000_000_000) for op in plain[clients[0] :][:1]],
    }


@pytest.mark.parametrize("name", odd_histories())
def test_what_is_not_as_it_should_be_is_left_to_tables(tmp_path: Path, name: str) -> None:
    assert read(stored(odd_histories()[name], tmp_path / "history.parquet")) is None


@pytest.mark.parametrize(("column", "found"), [("value", "{3"), ("type", "done")])
def test_texts_that_mean_nothing_are_left_to_tables(tmp_path: Path, column: str, found: str) -> None:
    table: Any = to_table(recorded(1, ops=10, faults=False))
    texts = table.column(column).to_pylist()
    texts[-1] = found
    place = table.column_names.index(column)
    path = tmp_path / "history.parquet"
    pq.write_table(table.set_column(place, table.field(place), pa.array(texts, pa.string())), path)
    assert read(path) is None


def test_columns_of_other_types_are_left_to_tables(tmp_path: Path) -> None:
    table: Any = to_table(recorded(1, ops=10))
    path = tmp_path / "history.parquet"
    pq.write_table(table.drop_columns(["term"]), path)
    assert read(path) is None


def test_a_damaged_page_is_refused_in_whatever_column(tmp_path: Path) -> None:
    path = stored(recorded(1, ops=200), tmp_path / "history.parquet", group_rows=100)
    whole = path.read_bytes()
    meta: Any = pq.ParquetFile(path).metadata
    for column in ("process", "time", "node"):
        chunks = [meta.row_group(1).column(number) for number in range(meta.num_columns)]
        [chunk] = [each for each in chunks if each.path_in_schema == column]
        end = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size
        broken = bytearray(whole)
        broken[end - 1] ^= 0xFF
        path.write_bytes(broken)
        with pytest.raises(HistoryFormatError, match="not a whole Parquet file"):
            read(path)


def test_short_files_and_other_formats_are_read_as_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(recorded(1, ops=20), tmp_path / "history.parquet")
    assert read_long_history_of(str(path), None, "auto") is None
    assert read_long_history(path) is None
    edn = tmp_path / "history.edn"
    edn.write_text("{:process 0, :type :invoke, :f :read, :value nil}\n")
    assert read_long_history_of(str(edn), None, "auto") is None
    monkeypatch.setattr(long_histories.read_long_history, "__kwdefaults__", {"at_least": 0, "piece_rows": 7})
    assert isinstance(read_long_history_of(str(path), None, "auto"), LongHistory)
    assert read_long_history_of(str(path), None, "yes") is None
