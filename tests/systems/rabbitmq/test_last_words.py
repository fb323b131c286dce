"""The log of a node of RabbitMQ that ended says in one line why."""

from __future__ import annotations

import pytest

from splitbrain.harness.systems.rabbitmq.logs import last_words

STAMP = "2026-11-29 21:53:21.437920+00:00 [error] <0.610.0>"
BECAUSE = "for reason eaddrinuse (address already in use)"
FAILED = "Error during startup: {error,failed_to_prepare_configuration}"
DUMP = "\nCrash dump is being written to: /nodes/n1/erl_crash.dump...done\n"

UNREADABLE = f"""
{STAMP} Error preparing configuration in phase validation:
{STAMP}   - load_definitions invalid, file does not exist or cannot be read by the node

BOOT FAILED
{STAMP}
{STAMP} BOOT FAILED
{STAMP} ===========
{STAMP} Error during startup: {{error,failed_to_prepare_configuration}}
{STAMP}
===========
Error during startup: {{error,failed_to_prepare_configuration}}

{STAMP}     supervisor: {{local,rabbit_prelaunch_sup}}
Kernel pid terminated (application_controller) ({{application_start_failure,rabbitmq_prelaunch}})
{DUMP}"""

NO_DISTRIBUTION = f"""
BOOT FAILED
{STAMP} BOOT FAILED
{STAMP} ===========
{STAMP} ERROR: could not bind to distribution port 7003 on host n1. It could be in use by another process
{STAMP}
===========
ERROR: could not bind to distribution port 7003 on host n1. It could be in use by another process

{STAMP}     errorContext: start_error
{DUMP}"""

NO_LISTENER = f"""
{STAMP} Failed to start Ranch listener {{acceptor,{{10,0,0,1}},7000}} in listen(#{{}}) {BECAUSE}
{STAMP}   crasher:
{STAMP}     initial call: supervisor:ranch_listener_sup/1

BOOT FAILED
===========
Error during startup: {{error,
                       {{could_not_start_listener,"10.0.0.1",7000,
                        {{{{shutdown,

{STAMP} Stopping RabbitMQ
init terminating in do_boot
{DUMP}"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            UNREADABLE,
            f"load_definitions invalid, file does not exist or cannot be read by the node: {FAILED}",
        ),
        (
            NO_DISTRIBUTION,
            "ERROR: could not bind to distribution port 7003 on host n1. It could be in use by another process",
        ),
        (
            NO_LISTENER,
            'eaddrinuse (address already in use): Error during startup: {error, {could_not_start_listener,"10.0.0.1",',
        ),
        (f"{UNREADABLE}{NO_DISTRIBUTION}", "ERROR: could not bind to distribution port 7003 on host n1. "),
        (f"{UNREADABLE}{STAMP} Server startup complete\nKilled by itself\n", "Killed by itself"),
        (f"{NO_DISTRIBUTION}splitbrain: epmd ended.\n", "splitbrain: epmd ended."),
        (f"eheap_alloc: Cannot allocate 8 bytes{DUMP}", "eheap_alloc: Cannot allocate 8 bytes"),
        ("", ""),
    ],
)
def test_the_reason_is_said_and_not_that_a_dump_was_written(log: str, words: str) -> None:
    assert last_words(log).startswith(words)
    assert bool(last_words(log)) == bool(words)
