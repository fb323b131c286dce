"""What is an address of a store, what is a folder, and what is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain.results.errors import UsageError
from splitbrain.results.places import folder_of, is_address, place_of, run_in


@pytest.mark.parametrize(
    ("address", "kind", "host", "path", "said"),
    [
        ("s3://bucket", "s3", "bucket", "", "s3://bucket"),
        ("s3://bucket/a/b/", "s3", "bucket", "a/b", "s3://bucket/a/b"),
        ("s3://b/p?endpoint_override=http://h:1&region=x", "s3", "b", "p", "s3://b/p"),
        ("gcs://bucket/p", "gs", "bucket", "p", "gs://bucket/p"),
        ("hdfs://name:8020/a", "hdfs", "name:8020", "a", "hdfs://name:8020/a"),
        ("file:///there/is/none", "file", "", "there/is/none", "file:///there/is/none"),
    ],
)
def test_an_address_is_taken_apart(address: str, kind: str, host: str, path: str, said: str) -> None:
    place = place_of(address)
    assert place is not None
    assert (place.kind, place.host, place.path, str(place)) == (kind, host, path, said)
    assert place.below("x/y") == f"{said}/x/y"


@pytest.mark.parametrize("name", ["store", "/a/b", "./s3:/x", "a?b=c", ".", "s3:bucket"])
def test_a_folder_is_no_address(name: str) -> None:
    assert not is_address(name)
    assert folder_of(name) == Path(name)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("s3:///prefix", "names no bucket"),
        ("az://container/x", "stores of az://"),
        ("s3://b/p?endpoint=x", "no option 'endpoint'"),
        ("s3://b/../c", "not plain"),
        ("s3://b//c", "not plain"),
        ("file://host/folder", "names no folder"),
        ("s3://key:hidden@b/p", "credentials"),
        ("s3://key@b/p", "credentials"),
        ("s3://b/p?endpoint_override", "no address"),
        ("s3://[b/p", "no address"),
        ("hdfs://host:port/x", "no address"),
        ("hdfs://host:1/x?replication=many", "is no number"),
    ],
)
def test_what_is_no_address_is_refused_without_its_secrets(address: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        place_of(address)
    assert problem in str(raised.value)
    assert "hidden" not in str(raised.value)


def test_a_file_address_of_recorded_runs_is_their_folder_and_of_pushed_ones_is_not(tmp_path: Path) -> None:
    address = f"file://{tmp_path}"
    assert is_address(address)
    (tmp_path / "test=a" / "run=b").mkdir(parents=True)
    assert not is_address(address)
    assert folder_of(address) == tmp_path
    (tmp_path / "_runs").mkdir()
    assert is_address(address)


def test_the_address_of_a_run_names_its_store_and_the_run() -> None:
    assert run_in("s3://b/p/test=t/run=r?region=x") == ("s3://b/p?region=x", "test=t/run=r")
    assert run_in("s3://b/test=t/run=r/") == ("s3://b", "test=t/run=r")
    assert run_in("s3://b/p") is None
    assert run_in("store/test=t/run=r") is None
