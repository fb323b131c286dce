"""A history file with something wrong in it is read or refused: every reader, on many damaged files."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from splitbrain.results.arrow import write_parquet
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.formats import edn, read_table
from splitbrain.results.formats.rows import table_of
from tests.formats.mutations import SOUND, mutated, outcome, reader

MANY = int(os.environ.get("SPLITBRAIN_MUTATIONS", "1000"))


def refuses_or_reads(name: str, count: int, seed: int) -> Counter[str]:
    rng = random.Random(seed)
    read = reader(name)
    return Counter(outcome(read, mutated(rng, name))[0] for _ in range(count))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SOUND)
def test_a_damaged_text_is_read_or_refused(name: str) -> None:
    found = refuses_or_reads(name, 500, seed=1)
    assert found["read"]
    assert found["refused"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_many_damaged_texts_are_read_or_refused(name: str) -> None:
    assert refuses_or_reads(name, MANY, seed=2).total() == MANY


def both_readers_agree(count: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        text = mutated(rng, "edn")
        quickly = outcome(reader("edn"), text)
        assert quickly == outcome(lambda each: edn.read_slowly(each, "history"), text), text


@pytest.mark.slow
def test_edn_is_the_same_whether_lines_are_matched_or_forms_parsed() -> None:
    both_readers_agree(500, seed=3)


@pytest.mark.slow
def test_edn_is_the_same_in_many_damaged_files() -> None:
    both_readers_agree(MANY, seed=4)


def test_a_damaged_parquet_file_is_read_or_refused(tmp_path: Path) -> None:
    damaged_parquet(tmp_path, 200, seed=5, footer=True)


@pytest.mark.slow
def test_a_changed_byte_of_a_page_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    damaged_parquet(tmp_path, 200, seed=6, footer=False)


@pytest.mark.slow
@pytest.mark.parametrize("footer", [True, False])
def test_many_damaged_parquet_files_are_read_or_refused(tmp_path: Path, footer: bool) -> None:
    damaged_parquet(tmp_path, MANY, seed=7, footer=footer)


def damaged_parquet(folder: Path, count: int, seed: int, *, footer: bool) -> None:
    rng = random.Random(seed)
    text = "".join(
        f'{{"process":{op % 3},"type":"{kind}","f":"write","value":{op}}}\n'
        for op in range(60)
        for kind in ("invoke", "ok")
    )
    table = table_of(reader("jsonl")(text), "history", "auto")
    path = folder / "history.parquet"
    write_parquet(table, path)
    sound = path.read_bytes()
    length = int.from_bytes(sound[-8:-4], "little") + 8
    for _ in range(count):
        content = bytearray(sound)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(4, len(content) if footer else len(content) - length)
            match rng.randrange(4 if footer else 1):
                case 0 | 1:
                    content[at] = rng.randrange(256)
                case 2:
                    del content[at : at + rng.randrange(1, 30)]
                case _:
                    content[at:at] = rng.randbytes(rng.randrange(1, 9))
        path.write_bytes(content)
        try:
            found = read_table(path, "parquet")
        except SplitbrainError:
            continue
        assert footer or found.equals(table), content.hex()
