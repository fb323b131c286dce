"""Every option of every command: what it takes without effect is refused, and a new option cannot be forgotten here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import click
import pytest

from splitbrain.harness.cli.main import main, splitbrain
from splitbrain.results.store import Store
from tests.cli.support import lines

HISTORY = '{"process":0,"type":"invoke","f":"read"}\n{"process":0,"type":"ok","f":"read","value":null}\n'
COMPACT = "c 0 0 read 0 0\nr 0 ok 0\n"
OPTIONS = {
    "workload": "register",
    "nemesis": "none",
    "system": "metadata",
    "backend": "sim",
    "bug": "",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 20.0,
    "time_limit": 1.0,
    "interval": None,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 1,
}
NODES = ["n1", "n2", "n3"]
PLAN = json.dumps(
    {
        "format": 1,
        "options": OPTIONS,
        "nodes": NODES,
        "placement": NODES * 2,
        "end_ns": 10**9,
        "faults": [],
        "ops": [{"at_ns": 0, "f": "read", "key": "0", "thread": 1}],
        "final_ops": [],
    }
)
DOCUMENT = {"options": OPTIONS, "nodes": NODES, "checkers": [], "scripted": True}
MATRIX = '[axes]\nworkload = "register"\nnemesis = "kill"\n'
SCHEDULE = '[0.5, "kill", {"spec": "leader"}]\n'

GIVEN: dict[str, list[str]] = {
    "run": ["--backend", "sim"],
    "replay": ["latest"],
    "shrink": ["latest"],
    "check": ["history.jsonl"],
    "export": ["history.jsonl"],
    "nightly": ["night.toml"],
    "compare": ["metadata-a", "metadata-b"],
    "prune": ["--keep", "1"],
    "push": ["--to", "file:///nothing/is/here"],
    "pull": ["latest", "--from", "file:///nothing/is/here"],
    "pack": ["packed.zip"],
    **{f"cluster ctl {each}": ["/x"] for each in ("get", "children", "delete")},
    **{f"cluster ctl {each}": ["/x", "1"] for each in ("put", "create", "update")},
    "cluster ctl cas": ["/x", "1", "2"],
    **{f"cluster ctl {each}": ["/x"] for each in ("exists", "count", "delete-if", "clear", "run-procedure")},
    "cluster ctl put-if": ["/x", "1"],
    "cluster ctl export": ["tree.export"],
    "cluster ctl import": ["history.jsonl"],
    "cluster ctl transact": ["values:1"],
    "cluster ctl put-procedure": ["/p", "steps:1"],
    "cluster ctl register-projection": ["users_v1", "/users/*"],
    "cluster ctl unregister-projection": ["users_v1"],
    "cluster ctl look-up": ["users_v1"],
    "cluster ctl register-trigger": ["made", "/x", "/p"],
    "cluster ctl unregister-trigger": ["made"],
    "cluster log": ["history.jsonl"],
    "cluster state": ["history.jsonl"],
    **{f"cluster ctl {each}": ["n1"] for each in ("add", "remove", "transfer", "join")},
    "cluster ctl reset": ["n1", "--yes"],
    "cluster ctl enable_feature_flag": ["khepri_db"],
    **{f"cluster ctl {each}": ["orders", "n1"] for each in ("grow", "shrink")},
    **{f"cluster ctl {each}": ["events", "n1"] for each in ("add_replica", "delete_replica")},
    **{f"cluster ctl {each}": ["orders"] for each in ("add_super_stream", "delete_super_stream")},
    **{f"cluster ctl {each}": ["events"] for each in ("add_stream", "delete_stream")},
    "cluster ctl set_policy": ["week", "^events", '{"max-age": "7D"}'],
    "cluster ctl clear_policy": ["week"],
    **{f"cluster ctl {each}": ["n1"] for each in ("drain", "revive")},
    "cluster ctl set_target": ["3"],
    "cluster ctl convert_queue": ["jobs"],
    **{f"cluster ctl {each}": ["jobs"] for each in ("declare_queue", "queue_status", "purge_queue", "delete_queue")},
    **{f"cluster ctl {each}": ["n1", "disk"] for each in ("set_alarm", "clear_alarm")},
    "cluster ctl enable_transformation": ["message_properties"],
    "cluster ctl set_delivery_limit": ["3"],
    "images build": ["node"],
}
"""What a command needs beside the option in question, where it needs anything."""

RUN = "store/test=metadata-a/run=20260101T000000.000Z-1"
SSH = ["run", "--backend", "ssh", "--known-hosts", "history.jsonl"]
SIM = ["run", "--backend", "sim"]

Told: TypeAlias = dict[str, str | list[tuple[list[str], str]]]


_ALL_DOWN = ["cluster", "up", "--store", "tables", "--partition-strategy", "pause-if-all-down-ignore"]


def _of_ctl(command: str) -> Told:
    """What every command of `cluster ctl` takes."""
    line = ["cluster", "ctl", command, *GIVEN.get(f"cluster ctl {command}", [])]
    return {
        "--node": "the one that is asked; one that is not there is refused",
        "--timeout": [
            ([*line, "--timeout", "1e-300"], "--timeout must be at least 1e-06"),
            ([*line, "--timeout", "0"], "--timeout must be"),
            (["cluster", "ctl", "--timeout", "1", *line[2:], "--timeout", "1"], "--timeout is given 2 times"),
        ],
        "--dir": [
            ([*line, "--dir", "nope"], "no cluster is up in nope"),
            ([*line, "--dir", "history.jsonl"], "history.jsonl is no folder"),
        ],
    }


_JSON: Told = {"--json": "the answer is another"}
_PATH: Told = {"path": "the cluster says what is none"}
_VALUE: Told = {**_PATH, "value": "each is another value"}
_NAME: Told = {"name": "one that is not there is refused (test_cluster_ctl)"}


def _of_reads(command: str) -> Told:
    line = ["cluster", "ctl", command, "/x", "--after"]
    return {
        **_PATH,
        "--mode": "each promises something else",
        "--after": [
            ([*line, "1:2"], "--after: it is for --mode local"),
            ([*line, "1", "--mode", "local"], "give index and term of an answer"),
        ],
    }


def _ctl(command: str, *more: str) -> list[str]:
    return ["cluster", "ctl", command, *GIVEN.get(f"cluster ctl {command}", []), *more]


_MODE: Told = {"--mode": "each promises something else"}
_PATTERN: Told = {"pattern": "the cluster says what is none"}
_MANY: Told = {"--many": "without it a pattern of many nodes is refused"}
_FUNCTION: Told = {"function": "one that the cluster does not know is refused (test_ctl_tree)"}


def _when(command: str) -> Told:
    return {"--when": [(_ctl(command, "--when", "no"), "--when")]}


def _of_the_store() -> dict[str, Told]:
    """What commands of `cluster ctl` take that reach for more than single values."""
    more: dict[str, Told] = {
        "exists": {**_PATH, **_MODE},
        "count": {**_PATTERN, **_MODE, **_when("count")},
        "list": {**_PATTERN, **_MODE, **_JSON, **_when("list"), "--after": "as of get"},
        "put-if": {
            **_PATTERN,
            **_MANY,
            **_when("put-if"),
            "value": "each is another value",
            "--keep-while": "each keeps",
        },
        "delete-if": {**_PATTERN, **_MANY, **_when("delete-if")},
        "clear": {**_PATTERN, **_MANY, **_when("clear")},
        "export": {**_MODE, "--pattern": "each is another part", "file": "each is another place"},
        "import": {"file": "one that is cut short is refused, and nothing put"},
        "transact": {
            **_MODE,
            **_FUNCTION,
            "data": "each is another transaction",
            "--writes": "each allows something else",
        },
        "put-procedure": {**_PATH, **_FUNCTION, "data": "each is another procedure"},
        "run-procedure": {**_PATH, "arguments": "each is another run", "--write": "without it a write is refused"},
        "register-projection": {
            **_PATTERN,
            "name": "each is another projection",
            "--kind": "each is another table",
            "--function": "one that the cluster does not know is refused (test_ctl_tree)",
            "--table": "each is another table",
        },
        "unregister-projection": {"names": "one that is not there is left out of the answer", "--all": "all of them"},
        "projections": {**_MODE},
        "look-up": {"table": "one that is not there is refused", "key": "each is another record"},
        "register-trigger": {
            **_PATTERN,
            "id": "each is another trigger",
            "procedure": "each runs something else",
            "--on": [(_ctl("register-trigger", "--on", "read"), "--on")],
            "--priority": "each is another order",
        },
        "unregister-trigger": {"ids": "one that is not there is left out of the answer"},
        "triggers": {**_MODE},
        "join": {**_NAME, **_JSON},
        "reset": {**_NAME, **_JSON, "--yes": "without it nothing is done"},
    }
    return {f"cluster ctl {command}": {**_of_ctl(command), **told} for command, told in more.items()}


TABLE: dict[str, Told] = {
    "run": {
        "--workload": "each is another test",
        "--nemesis": [
            ([*SIM, "--nemesis", "kill:2"], "--nemesis kill:2: a weight has no effect on a single nemesis"),
            ([*SIM, "--schedule", "k.schedule", "--nemesis", "partition,kill"], "remove --nemesis"),
            ([*SIM, "--nemesis", f"kill:{'9' * 5000},pause"], "a weight is a whole number from 1 to 20"),
        ],
        "--schedule": "what is in the file happens; an empty one is refused (test_schedules)",
        "--system": "each is another test",
        "--read-mode": [([*SIM, "--read-mode", "serializable"], "choose --workload read-modes or fenced-reads")],
        "--isolation": [
            ([*SIM, "--isolation", "serializable"], "transactions of system 'metadata' have one level only")
        ],
        "--backend": "each is another place",
        "--hosts": [
            (["run", "--hosts", "n1=h"], "it is for --backend ssh, not local"),
            ([*SSH, "--hosts", "n1=h,n2=i", "--nodes", "3"], "has no host for n3: name one for each in --hosts"),
        ],
        "--known-hosts": [([*SIM, "--known-hosts", "x"], "it is for --backend ssh, not sim")],
        "--ssh-key": [(["run", "--backend", "docker", "--ssh-key", "x"], "it is for --backend ssh, not docker")],
        "--ssh-user": [
            ([*SSH, "--hosts", "n1=a@h,n2=b@i", "--ssh-user", "c"], "--ssh-user c: each of --hosts has a user already"),
            (["run", "--ssh-user", "c"], "it is for --backend ssh, not local"),
        ],
        "--consistency-model": [
            ([*SIM, "--workload", "list-append", "--consistency-model", "serialisable"], "'serialisable'"),
            ([*SIM, "--consistency-model", "serializable"], "--consistency-model"),
        ],
        "--world": [
            (["run", "--world", "lan"], "--world lan: it is for simulated nodes: add --backend sim"),
            (["run", "--world", "wan"], "--world wan: it is for simulated nodes: add --backend sim"),
        ],
        "--bug": "each changes the system; unknown ones and a second mention are refused (test_refusals)",
        "--settings": [
            ([*SIM, "--settings", "snapshot-intervall=2"], "there is no setting 'snapshot-intervall'"),
            ([*SIM, "--settings", "snapshot-interval=0"], "give snapshot-interval a whole number of 1 to"),
            ([*SIM, "--settings", "snapshot-interval=" + "9" * 5000], "give snapshot-interval a whole number of 1 to"),
        ],
        "--nodes": [([*SIM, "--nodes", "9" * 5000], "a test needs 1 to 100 nodes")],
        "--concurrency": [([*SIM, "--concurrency", "9" * 5000], "concurrency must be at most 1,000")],
        "--rate": [([*SIM, "--rate", "1e-300"], "rate must be at least 1e-06")],
        "--burst": [([*SIM, "--burst", "0"], "burst must be positive"), ([*SIM, "--burst", "10001"], "at most 10,000")],
        "--sharing": [
            ([*SIM, "--sharing", "-1"], "sharing must be a number from 0 to 1,000"),
            ([*SIM, "--workload", "lock", "--sharing", "2"], "clients of workload 'lock' belong to one process"),
        ],
        "--time-limit": [([*SIM, "--time-limit", "1e-300"], "time limit must be at least 1e-06")],
        "--interval": [
            ([*SIM, "--schedule", "k.schedule", "--interval", "2"], "--interval 2.0: --schedule already says when"),
            ([*SIM, "--nemesis", "none", "--interval", "2"], "--interval 2.0: it has no effect with --nemesis none"),
            ([*SIM, "--interval", "1e-300"], "--interval must be a positive number of seconds"),
        ],
        "--overlap": [
            ([*SIM, "--schedule", "k.schedule", "--overlap", "0.9"], "--overlap 0.9: --schedule already says when"),
            ([*SIM, "--nemesis", "none", "--overlap", "0.9"], "--overlap 0.9: it has no effect with --nemesis none"),
            ([*SIM, "--overlap", "1.5"], "--overlap 1.5: give a probability, 0 to 1"),
        ],
        "--op-timeout": [([*SIM, "--op-timeout", "1e-300"], "op timeout must be at least 1e-06")],
        "--recovery": "0 stands for no bound, every other is one",
        "--progress-bound": "each is a bound; systems without elections refuse it (harness/campaigns/compose.py)",
        "--availability": "0 asks for figures only; systems without elections refuse it (harness/campaigns/compose.py)",
        "--keep-data": [([*SIM, "--keep-data", "1M"], "--keep-data 1M: simulated nodes leave no data: remove it")],
        "--seed": "each is another run",
        "--engine": "each is another judge",
        "--master": [([*SIM, "--master", "local[*]"], "--master is for Spark, and the engine is inline")],
        "--checker-time": [([*SIM, "--checker-time", "0"], "--checker-time 0: it must be above 0")],
        "--checker-memory": [([*SIM, "--checker-memory", "1"], "--checker-memory 1: it must be from 64")],
        "--store": "a run goes there; one that cannot take it is refused (test_refusals)",
        "--json": "the answer is another",
    },
    "replay": {
        "what": [(["replay", " "], "RUN|PLAN ' ' is empty")],
        "--times": [(["replay", "latest", "--times", "0"], "--times 0: give 1 to")],
        "--jobs": [
            (
                ["replay", "latest", "--jobs", "2"],
                "--jobs 2: one replay needs one process: add --times, or remove --jobs",
            ),
            (["replay", "latest", "--backend", "local", "--jobs", "2"], "--jobs 2: it is for simulations"),
        ],
        "--backend": [
            (["replay", "latest", "--backend", "moon"], "there is no backend 'moon'"),
            (["replay", "latest", "--backend", "ssh"], "was not recorded on hosts, and names none"),
        ],
        "--keep": [(["replay", "latest", "--backend", "local", "--keep"], "each replay on local is kept anyway")],
        "--store": [
            (["replay", "plan.json", "--store", "nope"], "--store nope: a plan is not read from a store: add --keep"),
            (["replay", RUN, "--store", "store"], "--store store: each run is given as a folder"),
            (["replay", "plan.json", "--keep", "--store", "/proc/x"], "cannot write to the store /proc/x"),
            (["replay", "plan.json", "--backend", "local", "--store", "/proc/x"], "cannot write to the store /proc/x"),
        ],
        "--json": "the answer is another",
    },
    "shrink": {
        "what": [(["shrink", ""], "RUN|PLAN '' is empty")],
        "--output": [
            (["shrink", "nope", "-o", "new/small.json"], "no run 'nope' in the store"),
            (["shrink", "plan.json", "-o", "history.jsonl/small.json"], "cannot write to the folder history.jsonl"),
            (["shrink", "plan.json", "-o", "store"], "--output store is a folder: name a file"),
            (["shrink", "plan.json", "-o", "/dev/null"], "--output /dev/null is no plain file"),
        ],
        "--budget": [(["shrink", "plan.json", "--budget", "1e-300"], "budget must be at least 1e-06")],
        "--jobs": [(["shrink", "plan.json", "--jobs", "0"], "--jobs 0: give 1 to 256 worker processes")],
        "--store": [(["shrink", "plan.json", "--store", "/proc/x"], "cannot write to the store /proc/x")],
        "--json": "the answer is another",
    },
    "hunt": {
        "--workload": "each is drawn; unknown ones and a second mention are refused (test_refusals)",
        "--nemesis": [
            (
                ["hunt", "--nemesis", "kill-follower,kill-minority", "--nodes", "2"],
                "--nemesis kill-minority: it needs 3",
            ),
            (["hunt", "--nemesis", "kill:2"], "there is no nemesis 'kill:2'"),
        ],
        "--system": [(["hunt", "--system", "etcd"], "system 'etcd' cannot be simulated")],
        "--bug": [(["hunt", "--bug", "M999"], "there is no bug 'M999' of system 'metadata'")],
        "--settings": [(["hunt", "--settings", "snapshot-interval"], "give snapshot-interval a whole number")],
        "--consistency-model": [
            (["hunt", "--consistency-model", "serialisable"], "'serialisable'"),
            (
                ["hunt", "--workload", "bank", "--consistency-model", "serializable"],
                "is judged by a property of its own",
            ),
        ],
        "--nodes": [
            (["hunt", "--nemesis", "kill-minority", "--nodes", "1,3"], "--nodes 1: no nemesis of kill-minority can"),
            (["hunt", "--nodes", "9" * 5000], "a hunt draws one of the numbers given, 1 to 100 each"),
        ],
        "--world": [(["hunt", "--world", "moon"], "there is no world 'moon'")],
        "--concurrency": [(["hunt", "--nodes", "3,4,5", "--concurrency", "250n"], "concurrency must be at most 1,000")],
        "--rate": [(["hunt", "--rate", "1e-300"], "rate must be at least 1e-06")],
        "--burst": [(["hunt", "--burst", "0"], "burst must be positive")],
        "--sharing": [
            (["hunt", "--sharing", "-1"], "sharing must be a number from 0 to 1,000"),
            (["hunt", "--workload", "queue", "--sharing", "2"], "serve one at a time: give --sharing 1"),
        ],
        "--time-limit": [(["hunt", "--time-limit", "1e-300"], "time limit must be at least 1e-06")],
        "--interval": [
            (["hunt", "--nemesis", "none", "--interval", "2"], "--interval 2: it has no effect with --nemesis none")
        ],
        "--overlap": [
            (["hunt", "--overlap", "1.5"], "--overlap 1.5: give a probability, 0 to 1"),
            (["hunt", "--nemesis", "none", "--overlap", "0.9"], "--overlap 0.9: it has no effect with --nemesis none"),
        ],
        "--op-timeout": [(["hunt", "--op-timeout", "1e-300"], "op timeout must be at least 1e-06")],
        "--recovery": [(["hunt", "--recovery", "-1"], "recovery must be positive")],
        "--seed": [(["hunt", "--seed", str(2**62)], "give a whole number from 0 to")],
        "--budget": [(["hunt", "--budget", "1e-300"], "budget must be at least 1e-06")],
        "--runs": [(["hunt", "--runs", "0"], "--runs 0: give 1 to")],
        "--jobs": [(["hunt", "--jobs", "257"], "--jobs 257: give 1 to 256 worker processes")],
        "--keep-going": [(["hunt", "--runs", "1", "--keep-going"], "--keep-going has no effect with --runs 1")],
        "--shrink": "on or off",
        "--shrink-budget": [
            (["hunt", "--shrink-budget", "0"], "shrink budget must be positive"),
            (["hunt", "--no-shrink", "--shrink-budget", "9"], "--shrink-budget has no effect with --no-shrink"),
        ],
        "--canary": "on or off",
        "--store": "figures and what was found go there; one that cannot take them is refused (test_refusals)",
        "--json": "the answer is another",
    },
    "nightly": {
        "matrix": [
            (["nightly", "nope.toml"], "nope.toml cannot be read"),
            (["nightly", "history.jsonl"], "history.jsonl is not TOML"),
        ],
        "--budget": [
            (["nightly", "night.toml", "--budget", "soon"], "--budget 'soon' is no age"),
            (["nightly", "night.toml", "--budget", "0s"], "--budget 0s: give more than 0"),
        ],
        "--baseline": [(["nightly", "night.toml", "--baseline", "nope.toml"], "nope.toml cannot be read")],
        "--strict": [(["nightly", "night.toml", "--strict"], "--strict: without a baseline nothing is known")],
        "--resume": "with no night to continue, a new one begins (test_nightly)",
        "--seed": [
            (["nightly", "night.toml", "--seed", "9" * 30], "give a whole number from 0 to"),
            (["nightly", "night.toml", "--seed", "1", "--resume"], "--seed 1: a night that is resumed has its seed"),
        ],
        "--jobs": [(["nightly", "night.toml", "--jobs", "257"], "--jobs 257: give 1 to 256 worker processes")],
        "--junit": [(["nightly", "night.toml", "--junit", "store"], "--junit store: this is a folder")],
        "--summary": [(["nightly", "night.toml", "--summary", "k.schedule/x"], "k.schedule is no folder")],
        "--store": "nights and runs go there; one that cannot take them is refused (test_refusals)",
        "--json": "the answer is another",
    },
    "check": {
        "files": [(["check", "history.jsonl", "history.jsonl"], "FILE history.jsonl is given twice")],
        "--checker": [(["check", "history.jsonl", "--checker", "linearizable,set"], "there is no checker")],
        "--model": [
            (["check", "history.jsonl", "--checker", "stats", "--model", "cas-register"], "--model cas-register")
        ],
        "--workload": [
            (["check", "history.jsonl", "--checker", "set", "--workload", "list-append"], "exclude each other"),
            (["check", "history.jsonl", "--workload", "bank"], "Invalid value for '--workload'"),
        ],
        "--consistency-model": [
            (
                ["check", "history.jsonl", "--consistency-model", "serializable"],
                "it is for transactions: add --workload",
            ),
            (
                ["check", "history.jsonl", "--workload", "list-append", "--consistency-model", "serialisable"],
                "there is no consistency model 'serialisable'",
            ),
        ],
        "--assume": [
            (["check", "history.jsonl", "--assume", "wfr-keys"], "it is for transactions: add --workload"),
            (
                ["check", "history.jsonl", "--workload", "list-append", "--assume", "wfr-keys"],
                "it is for rw-register, not list-append",
            ),
            (
                ["check", "history.jsonl", "--workload", "rw-register", "--assume", "wfr"],
                "there is no assumption 'wfr'",
            ),
        ],
        "--oracle": [
            (
                ["check", "history.jsonl", "--oracle", "elle-cli"],
                "it judges transactions of two workloads: add --workload",
            ),
            (
                ["check", "history.jsonl", "--workload", "list-append", "--oracle", "delphi"],
                "Invalid value for '--oracle'",
            ),
        ],
        "--format": [
            (["check", RUN, "--format", "parquet"], "--format parquet is for files, and this is a folder"),
            (["check", "history.jsonl", "--format", "moon"], "there is no format 'moon'"),
        ],
        "--independent": [
            (["check", "compact.log", "--independent", "no"], "--independent no: compact has keys apart from values"),
            (["check", RUN, "--independent", "no"], "--independent no: a stored run stores keys apart from values"),
        ],
        "--time-limit": [
            (["check", "history.jsonl", "--checker", "stats", "--time-limit", "9"], "not stats: remove it"),
            (["check", "history.jsonl", "--time-limit", "1e-300"], "--time-limit must be at least 1e-06"),
        ],
        "--memory-limit": [
            (["check", "history.jsonl", "--checker", "stats", "--memory-limit", "9"], "not stats: remove it"),
            (["check", "history.jsonl", "--memory-limit", "0"], "--memory-limit must be positive, not 0"),
        ],
        "--witness-time": [
            (["check", "history.jsonl", "--checker", "stats", "--witness-time", "1"], "not stats: remove it"),
            (
                ["check", "history.jsonl", "--witness-time", "9", "--time-limit", "5"],
                "--witness-time 9 must not be above",
            ),
        ],
        "--picture": [
            (["check", "history.jsonl", "--checker", "stats", "--picture", "p.html"], "not stats: remove it"),
            (["check", "history.jsonl", "--picture", "history.jsonl"], "--picture history.jsonl is the history itself"),
            (["check", "history.jsonl", "--picture", "/dev/null"], "--picture /dev/null is no plain file"),
        ],
        "--no-picture": [(["check", "history.jsonl", "--no-picture", "--picture", "p.html"], "exclude each other")],
        "--checker-time": [(["check", "history.jsonl", "--checker-time", "0"], "--checker-time 0: it must be above 0")],
        "--checker-memory": [
            (["check", "history.jsonl", "--checker-memory", "1"], "--checker-memory 1: it must be from 64")
        ],
        "--json": "the answer is another",
    },
    "export": {
        "file": [(["export", ""], "FILE '' is empty")],
        "--format": "each is another text",
        "--output": [
            (["export", "history.jsonl", "-o", "history.jsonl"], "--output history.jsonl is the history itself"),
            (["export", "history.jsonl", "-o", "no/out.edn"], "--output no/out.edn: there is no folder no"),
            (["export", "history.jsonl", "-o", "/dev/full"], "--output /dev/full is no plain file"),
            (["export", "history.jsonl", "-o", "store"], "--output store is a folder"),
        ],
        "--from": [(["export", RUN, "--from", "jsonl"], "--from jsonl is for files, and this is a folder")],
        "--independent": [(["export", "compact.log", "--independent", "no"], "--independent no: compact has keys")],
    },
    "analyze": {
        "runs": [
            (["analyze", "--engine", "inline", "latest", "latest"], "RUN latest is given twice"),
            (["analyze", "--engine", "inline", RUN, "metadata-a"], "which is given twice: give it once"),
            (["analyze", "--engine", "inline", ""], "RUN '' is empty"),
        ],
        "--store": [(["analyze", "--engine", "inline", RUN, "--store", "store"], "each run is given as a folder")],
        "--engine": "each is another judge",
        "--master": [(["analyze", "--engine", "inline", "--master", "local[*]"], "--master is for Spark")],
        "--checker-time": [
            (["analyze", "--engine", "inline", "--checker-time", "0"], "--checker-time 0: it must be above 0")
        ],
        "--checker-memory": [
            (["analyze", "--engine", "inline", "--checker-memory", "1"], "--checker-memory 1: it must be from 64")
        ],
        "--again": "other runs are judged",
        "--conf": [
            (["analyze", "--conf", "spark.cores.max"], "--conf 'spark.cores.max' is no property of Spark"),
            (["analyze", "--conf", "cores=1"], "--conf 'cores=1' is no property of Spark"),
            (["analyze", "--conf", "spark.master=yarn"], "give it as --master yarn"),
            (["analyze", "--conf", "spark.a=1", "--conf", "spark.a=2"], "--conf spark.a is given twice"),
            (["analyze", "--engine", "inline", "--conf", "spark.a=1"], "--conf is for Spark"),
        ],
        "--pages": "other runs get pages",
        "--json": "the answer is another",
    },
    "report": {
        "runs": [(["report", "latest", "latest"], "RUN latest is given twice")],
        "--store": [(["report", RUN, "--store", "store"], "each run is given as a folder")],
        "--json": "the answer is another",
    },
    "serve": {
        "--store": "its runs are shown; one that is not there is refused (test_refusals)",
        "--host": [(["serve", "--host", "256.256.256.256"], "--host 256.256.256.256: ")],
        "--port": "0 stands for one that is free, every other is one",
        "--json": "the answer is another",
    },
    "compare": {
        "a": [(["compare", "", "latest"], "'' names no run")],
        "b": [
            (["compare", "latest", "metadata-b"], "are the same: give other runs as B"),
            (["compare", "metadata-*", "*"], "are the same: give other runs as B"),
            (["compare", "latest", "seed=1 seed=2"], "no run"),
            (["compare", "latest", "system=a system=b"], "has a filter twice"),
        ],
        "--store": [(["compare", RUN, "store", "--store", "store"], "A and B are both given as folders")],
        "--page": [
            (["compare", "metadata-a", "metadata-b", "--page", "store"], "--page store is a folder"),
            (["compare", "metadata-a", "metadata-b", "--page", "/dev/null"], "--page /dev/null is no plain file"),
        ],
        "--json": "the answer is another",
    },
    "push": {
        "runs": [(["push", "latest", "latest", "--to", "file:///x"], "RUN latest is given twice")],
        "--to": [
            (["push", "--to", "store"], "--to 'store' is no address"),
            (["push", "--to", "s3://b?endpoint=x"], "there is no option 'endpoint'"),
        ],
        "--store": [(["push", RUN, "--store", "store", "--to", "file:///x"], "each run is given as a folder")],
        "--json": "the answer is another",
    },
    "pull": {
        "runs": [(["pull", "latest", "latest", "--from", "file:///x"], "RUN latest is given twice")],
        "--from": [
            (["pull", "latest", "--from", "store"], "--from 'store' is no address"),
            (["pull", "latest", "--from", "file:///nothing/is/here"], "there is no run in the store file:///nothing"),
        ],
        "--store": "runs come into it",
        "--json": "the answer is another",
    },
    "prune": {
        "--store": "its runs go; one that is not there is refused (test_refusals)",
        "--older-than": [(["prune", "--older-than", "-1d"], "--older-than '-1d' is no age")],
        "--keep": "a limit of its own: 0 keeps none",
        "--max-size": [(["prune", "--max-size", "nan"], "--max-size 'nan' is no size")],
        "--outcome": [(["prune", "--keep", "1", "--outcome", "running"], "there is no outcome 'running'")],
        "--test": [(["prune", "--keep", "1", "--test", "metadata-c"], "'metadata-c' in the store store. Did you")],
        "--rule": [
            (["prune", "--rule", "pass"], "has no age"),
            (["prune", "--rule", "passed=7d"], "there is no outcome 'passed'"),
            (["prune", "--rule", "pass=7d", "--rule", "pass=8d"], "there are two rules for pass"),
        ],
        "--dry-run": "nothing is removed",
        "--json": "the answer is another",
    },
    "compact": {
        "--store": "its runs become smaller; one that is not there is refused (test_refusals)",
        "--dry-run": "nothing is changed",
        "--json": "the answer is another",
    },
    "manifest": {"--store": "its table is written; one that is not there is refused (test_refusals)"},
    "pack": {
        "output": [(["pack", "packed.zip"], "name a file that ends in .tar.gz")],
        "--module": [
            (["pack", "packed.tar.gz", "--module", "no_such_module"], "there is no module of this name"),
            (["pack", "packed.tar.gz", "--module", "json", "--module", "json"], "is given twice"),
        ],
        "--only-ours": "libraries are left out",
        "--json": "the answer is another",
    },
    "clean": {
        "--store": [(["clean", "--hosts", "n1=h", "--store", "store"], "--store is on this machine")],
        "--hosts": [(["clean", "--hosts", "n1"], "'n1' is not a host")],
        "--known-hosts": [(["clean", "--known-hosts", "x"], "--known-hosts x: it needs --hosts")],
        "--ssh-key": [(["clean", "--ssh-key", "x"], "--ssh-key x: it needs --hosts")],
        "--ssh-user": [
            (["clean", "--hosts", "n1=a@h", "--ssh-user", "b"], "--ssh-user b: each of --hosts has a user already")
        ],
        "--dry-run": "nothing is removed",
        "--json": "the answer is another",
    },
    "list": {"kind": [(["list", "wrokloads"], "'wrokloads' is not one of")], "--json": "the answer is another"},
    "completion": {"shell": [(["completion", "tcsh"], "'tcsh' is not one of")]},
    "new": {
        "kind": [(["new", "backend", "shop"], "'backend' is not one of")],
        "name": [(["new", "model", "Shop"], "'Shop' cannot be the name of a package")],
        "--into": [(["new", "model", "shop", "--into", "history.jsonl"], "Give another --into")],
    },
    "doctor": {
        "--hosts": [(["doctor", "--hosts", "n1"], "'n1' is not a host")],
        "--known-hosts": [(["doctor", "--known-hosts", "x"], "--known-hosts x: it needs --hosts")],
        "--ssh-key": [(["doctor", "--ssh-key", "x"], "--ssh-key x: it needs --hosts")],
        "--ssh-user": [
            (["doctor", "--hosts", "n1=a@h", "--ssh-user", "b"], "--ssh-user b: each of --hosts has a user already")
        ],
        "--json": "the answer is another",
    },
    "cluster up": {
        "--nodes": [(["cluster", "up", "--nodes", "9" * 5000], "a test needs 1 to 100 nodes")],
        "--base-port": [(["cluster", "up", "--base-port", "80"], "80 is not in the range")],
        "--spares": [(["cluster", "up", "--spares", "101"], "101 is not in the range")],
        "--bug": [(["cluster", "up", "--bug", "M999"], "there is no bug 'M999'")],
        "--functions": [(["cluster", "up", "--functions", "nope:X"], "--functions")],
        "--store": [
            (["cluster", "up", "--store", "mnesia"], "'mnesia' is not one of"),
            (["cluster", "up", "--store", "tables", "--discovery", "classic"], "Leave --store or it out"),
        ],
        "--partition-strategy": [
            (["cluster", "up", "--partition-strategy", "autoheal"], "give --store tables, too"),
            (["cluster", "up", "--partition-strategy", "none"], "'none' is not one of"),
        ],
        "--preferred": [
            (["cluster", "up", "--preferred", "n1"], "give both, or none"),
            (_ALL_DOWN, "give both, or none"),
            ([*_ALL_DOWN, "--preferred", "n1,n9"], "--preferred n9: there is no such node among n1, n2, n3"),
        ],
        "--discovery": [(["cluster", "up", "--discovery", "dns"], "'dns' is not one of")],
        "--discovery-endpoint": [
            (["cluster", "up", "--discovery-endpoint", "http://a:1"], "--discovery-endpoint is for --discovery consul"),
            (
                ["cluster", "up", "--discovery", "etcd", "--discovery-endpoint", "http://a:1,nonsense"],
                "--discovery-endpoint takes http://HOST:PORT or https://HOST:PORT, not 'nonsense'",
            ),
            (
                ["cluster", "up", "--discovery", "consul", "--discovery-endpoint", "http://a:1,http://b:1"],
                "--discovery-endpoint takes",
            ),
            (
                ["cluster", "up", "--discovery", "etcd", "--discovery-endpoint", ""],
                "--discovery-endpoint needs a value",
            ),
        ],
        "--discovery-cluster": [
            (
                ["cluster", "up", "--discovery", "classic", "--discovery-cluster", "a"],
                "--discovery-cluster is for --discovery consul and --discovery etcd",
            )
        ],
        "--dir": [
            (["cluster", "up", "--dir", "history.jsonl"], "history.jsonl is no folder"),
            (["cluster", "up", "--dir", "/proc/x"], "cannot write to the folder /proc/x"),
        ],
    },
    "cluster down": {"--dir": [(["cluster", "down", "--dir", "history.jsonl"], "history.jsonl is no folder")]},
    "cluster status": {
        "--dir": [(["cluster", "status", "--dir", "nope"], "no cluster is up in nope")],
        "--json": "the answer is another",
    },
    **{f"cluster ctl {each}": {**_of_ctl(each), **_of_reads(each)} for each in ("get", "children")},
    **{f"cluster ctl {each}": {**_of_ctl(each), **_VALUE} for each in ("put", "create", "update")},
    "cluster ctl cas": {**_of_ctl("cas"), **_VALUE, "expected": "each is another value"},
    "cluster ctl delete": {**_of_ctl("delete"), **_PATH},
    **{f"cluster ctl {each}": {**_of_ctl(each), **_JSON} for each in ("members", "status", "snapshot", "checkpoint")},
    "cluster ctl add": {**_of_ctl("add"), **_NAME, **_JSON, "--role": "each is another part"},
    **{f"cluster ctl {each}": {**_of_ctl(each), **_NAME, **_JSON} for each in ("remove", "transfer")},
    "cluster ctl list_feature_flags": {**_of_ctl("list_feature_flags"), **_JSON},
    "cluster ctl enable_feature_flag": {
        **_of_ctl("enable_feature_flag"),
        **_NAME,
        **_JSON,
        "--experimental": "without it an experimental flag is refused (test_cluster_ctl)",
    },
    **{f"cluster ctl {each}": {**_of_ctl(each), **_JSON} for each in ("migrate", "rollback", "cluster_status")},
    "cluster ctl queues": {**_of_ctl("queues"), **_JSON},
    **{
        f"cluster ctl {each}": {**_of_ctl(each), **_NAME, **_JSON, "queue": "one that is not there is refused"}
        for each in ("grow", "shrink")
    },
    "cluster ctl streams": {**_of_ctl("streams"), **_JSON},
    **{
        f"cluster ctl {each}": {**_of_ctl(each), **_NAME, **_JSON, "stream": "one that is not there is refused"}
        for each in ("add_replica", "delete_replica")
    },
    **{
        f"cluster ctl {each}": {
            **_of_ctl(each),
            **_NAME,
            **_JSON,
            "--target": [([*_ctl(each), "--target", "0"], "0 is not in the range")],
            "--max-length-bytes": [([*_ctl(each), "--max-length-bytes", "-1"], "-1 is not in the range")],
            "--max-age": [([*_ctl(each), "--max-age", "7 days"], "--max-age 7 days: give a number and one of Y, M, D")],
        }
        | ({} if each == "add_stream" else {"--partitions": [([*_ctl(each), "--partitions", "0"], "0 is not in")]})
        for each in ("add_stream", "add_super_stream")
    },
    "cluster ctl delete_stream": {**_of_ctl("delete_stream"), **_NAME, **_JSON},
    "cluster ctl list_policies": {**_of_ctl("list_policies"), **_JSON},
    "cluster ctl set_policy": {
        **_of_ctl("set_policy"),
        **_JSON,
        "name": "the policy has it (test_cluster_ctl_of_streams)",
        "pattern": "the cluster says what is no expression",
        "definition": [([*_ctl("set_policy")[:-1], "7D"], "DEFINITION 7D: give a JSON object")],
        "--priority": [([*_ctl("set_policy"), "--priority", "high"], "'high' is not a valid integer")],
        "--apply-to": [([*_ctl("set_policy"), "--apply-to", "exchanges"], "'exchanges' is not one of")],
        "--operator": "the policy is another one (test_cluster_ctl_of_streams)",
    },
    "cluster ctl clear_policy": {
        **_of_ctl("clear_policy"),
        **_JSON,
        "name": "the answer says whether it was there (test_cluster_ctl_of_streams)",
        "--operator": "the policy is another one (test_cluster_ctl_of_streams)",
    },
    "cluster ctl delete_super_stream": {**_of_ctl("delete_super_stream"), **_NAME, **_JSON},
    **{f"cluster ctl {each}": {**_of_ctl(each), **_NAME, **_JSON} for each in ("drain", "revive")},
    "cluster ctl list_drained": {**_of_ctl("list_drained"), **_JSON},
    "cluster ctl set_target": {
        **_of_ctl("set_target"),
        **_JSON,
        "target": [([*_ctl("set_target")[:-1], "0"], "0 is not in the range")],
        "--pattern": "the cluster says what is no expression",
    },
    **{f"cluster ctl {each}": {**_of_ctl(each), **_JSON} for each in ("classic_queues", "alarms")},
    **{
        f"cluster ctl {each}": {
            **_of_ctl(each),
            **_JSON,
            "queue": "one that is not there is refused",
            "--type": [([*_ctl(each), "--type", "stream"], "'stream' is not one of")],
        }
        for each in ("purge_queue", "delete_queue")
    },
    "cluster ctl declare_queue": {
        **_of_ctl("declare_queue"),
        **_JSON,
        "queue": "another queue is made (test_cluster_ctl_of_queues)",
        **{
            option: [([*_ctl("declare_queue"), option, value], said)]
            for option, value, said in (
                ("--type", "stream", "'stream' is not one of"),
                ("--members", "0", "0 is not in the range"),
                ("--target", "0", "0 is not in the range"),
                ("--delivery-limit", "-2", "-2 is not in the range"),
                ("--max-length", "-1", "-1 is not in the range"),
                ("--max-length-bytes", "-1", "-1 is not in the range"),
                ("--overflow", "drop", "'drop' is not one of"),
                ("--message-ttl", "-1", "-1 is not in the range"),
                ("--expires", "0", "0 is not in the range"),
                ("--dead-letter-strategy", "twice", "'twice' is not one of"),
            )
        },
        "--single-active-consumer": "a second consumer waits (test_cluster_ctl_of_queues)",
        "--dead-letter-to": "rejected messages go there (test_cluster_ctl_of_queues)",
    },
    **{
        f"cluster ctl {each}": {**_of_ctl(each), **_JSON, "queue": "one that is not there is refused"}
        for each in ("convert_queue", "queue_status")
    },
    **{
        f"cluster ctl {each}": {
            **_of_ctl(each),
            **_NAME,
            **_JSON,
            "alarm": [([*_ctl(each)[:-1], "noise"], "'noise' is not one of")],
        }
        for each in ("set_alarm", "clear_alarm")
    },
    "cluster ctl set_delivery_limit": {
        **_of_ctl("set_delivery_limit"),
        **_JSON,
        "limit": [([*_ctl("set_delivery_limit")[:-1], "many"], "'many' is not a valid integer")],
        "--pattern": "the cluster says what is no expression",
        "--dead-letter-to": "the policy names that queue (test_cluster_ctl_of_classic_queues)",
    },
    "cluster ctl enable_transformation": {**_of_ctl("enable_transformation"), **_NAME, **_JSON},
    **_of_the_store(),
    "cluster ctl force-shrink": {
        **_of_ctl("force-shrink"),
        **_JSON,
        "--yes": "without it nothing is done (test_cluster_ctl)",
    },
    "cluster log": {
        "folder": [
            (["cluster", "log", "history.jsonl"], "history.jsonl is no folder"),
            (["cluster", "log", "nope"], "nope: there is no such folder"),
            (["cluster", "log", "store"], "store: there are no files of a node"),
        ],
        "--from": [(["cluster", "log", "store", "--from", "3", "--to", "2"], "--from 3 is behind --to 2")],
        "--to": [(["cluster", "log", "store", "--to", "0"], "0 is not in the range")],
        "--json": "the answer is another",
    },
    "cluster state": {
        "folder": [(["cluster", "state", "store"], "store: there are no files of a node")],
        "--path": [(["cluster", "state", "store", "--path", "x"], "--path: 'x' is not a path")],
        "--index": [(["cluster", "state", "store", "--index", "0"], "0 is not in the range")],
        "--json": "the answer is another",
    },
    "images build": {
        "names": [(["images", "build", "node", "node"], "NAME node is given twice")],
        "--base": [(["images", "build", "--base", "x", "--suite", "trixie"], "--base and --suite exclude each other")],
        "--suite": [(["images", "build", "--suite", "sid"], "there is no suite 'sid'")],
        "--rebuild": "what is up to date is built too",
    },
    "images list": {"--json": "the answer is another"},
    "images prune": {
        "names": [(["images", "prune", "node", "node"], "NAME node is given twice")],
        "--dry-run": "nothing is removed",
    },
    "demo": {
        "--store": "its runs go there; one that cannot take them is refused (test_refusals)",
        "--time-limit": [(["demo", "--time-limit", "1e-300"], "time limit must be at least 1e-06")],
        "--seed": "each is another pair of runs",
    },
    "prepare": {},
}
"""By command and option or argument: what is refused, with what is said; or why each value has an effect."""


Refused: TypeAlias = Callable[[list[str], str], None]


def _commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from _commands(found, f"{before}{name} ")
        else:
            yield f"{before}{name}", found


COMMANDS = dict(_commands(splitbrain))


def _called(parameter: click.Parameter) -> str:
    return next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])


def _options(command: str, *types: type[click.ParamType[Any, Any]]) -> list[str]:
    """The options of a command that take a value of one of these types."""
    return [
        _called(option)
        for option in COMMANDS[command].params
        if isinstance(option, click.Option) and not option.is_flag and isinstance(option.type, types)
    ]


def test_each_option_of_each_command_is_here() -> None:
    found = {command: {_called(each) for each in about.params} for command, about in COMMANDS.items()}
    assert found == {command: set(about) for command, about in TABLE.items()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a history, a plan, a schedule and a store with two runs. Nothing in here may change it."""
    folder = tmp_path_factory.mktemp("place")
    for name, text in (
        ("history.jsonl", HISTORY),
        ("compact.log", COMPACT),
        ("k.schedule", SCHEDULE),
        ("plan.json", PLAN),
        ("night.toml", MATRIX),
    ):
        (folder / name).write_text(text)
    for number, test in ((1, "metadata-a"), (2, "metadata-b")):
        run = Store(folder / "store").create(test, number, DOCUMENT, 1_767_225_600_000_000_000)
        run.history_writer().close()
        run.finish_history()
        run.write_plan(PLAN.encode())
        run.release()
    return folder


@pytest.fixture(name="refused")
def _refused(place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Refused:
    """Call the command line in that folder; it must refuse."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def call(arguments: list[str], says: str) -> None:
        before = _tree(place)
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        said = capfd.readouterr()
        assert ended.value.code == 254, (said.out[-500:], said.err)
        assert says in said.err
        assert len(lines(said.err)) == 1, said.err
        assert said.out == ""
        assert _tree(place) == before

    return call


def _tree(folder: Path) -> dict[str, int]:
    """Every file with its size, and every folder."""
    return {str(path.relative_to(folder)): path.stat().st_size * path.is_file() for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [case for about in TABLE.values() for told in about.values() if not isinstance(told, str) for case in told],
)
def test_what_has_no_effect_is_refused_and_leaves_nothing(refused: Refused, arguments: list[str], says: str) -> None:
    refused(arguments, says)


def _line(command: str, *given: str) -> list[str]:
    return [*command.split(), *given, *GIVEN.get(command, [])]


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_but_blanks_is_no_value(refused: Refused, command: str) -> None:
    given = {"--keep-data": ["run", "--keep-data", ""]}
    for option in _options(command, click.types.StringParamType, click.Choice):
        refused(given.get(option) or _line(command, option, ""), "")


_ALSO_BELOW_0 = ("--priority", "--delivery-limit")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_number_of_anything_is_refused(refused: Refused, command: str) -> None:
    for option in _options(command, click.types.FloatParamType):
        for value in ("nan", "inf", "-1"):
            refused(_line(command, option, value), option.removeprefix("--").rpartition("-")[2])
    for option in _options(command, click.types.IntParamType, click.IntRange):
        for value in ("9" * 30, "1.5", *([] if option in _ALSO_BELOW_0 else ["-1"])):
            refused(_line(command, option, value), option.removeprefix("--").rpartition("-")[2])


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_given_twice_is_refused(refused: Refused, command: str) -> None:
    for option in COMMANDS[command].params:
        if isinstance(option, click.Option) and not option.multiple:
            called = _called(option)
            once = [called] if option.is_flag else [called, "1"]
            refused([*command.split(), *once, *once], "is given 2 times")
