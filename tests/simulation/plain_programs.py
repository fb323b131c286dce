"""Programs in plain asyncio for the tests of `splitbrain.harness.simulation.programs`. Each prints what it sees.

Arguments are [node, what the program is to do, ...]. Nothing here imports the harness.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

PORT = 7000


class Finished(Exception):  # noqa: N818 - no error
    """The program has done all that it wants to."""


starts = 0


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while line := await reader.readline():
            if line == b"when\n":
                print(f"came at {time.monotonic():.1f}")
            writer.write(line)
            await writer.drain()
        print("end of the stream")
    except ConnectionError as error:
        print(f"broken: {type(error).__name__}")
    writer.close()


async def serve() -> None:
    server = await asyncio.start_server(echo, "0.0.0.0", PORT)
    async with server:
        await server.serve_forever()


async def say(host: str, *lines: str) -> None:
    """Send lines and print what comes back."""
    reader, writer = await asyncio.open_connection(host, PORT)
    for line in lines:
        writer.write(line.encode() + b"\n")
    for _ in lines:
        print((await reader.readline()).decode().strip())
    writer.close()
    await writer.wait_closed()


async def keep_saying(host: str) -> None:
    reader, writer = await asyncio.open_connection(host, PORT)
    number = 0
    while True:
        writer.write(b"%d\n" % number)
        if await reader.readline() != b"%d\n" % number:
            print("connection over")
            writer.close()
            return
        number += 1
        await asyncio.sleep(0.1)


async def count_starts() -> None:
    global starts
    starts += 1
    print(f"start {starts}")
    try:
        await asyncio.sleep(3600)
    finally:
        print("finally")


async def tell_time() -> None:
    began, monotonic = time.time(), time.monotonic()
    looked = datetime.datetime.now().year  # noqa: DTZ005 - what a program may do
    await asyncio.sleep(1.5)
    time.sleep(0.5)
    print(f"{looked} {time.time() - began:.3f} {time.monotonic() - monotonic:.3f}")


async def draw() -> None:
    print(random.random(), random.randint(1, 10**9), random.sample(range(100), 5), random.Random().random())


async def store(do: str) -> None:
    path = os.path.join("data", "file")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            print(f"found {file.read()!r} among {sorted(os.listdir('data'))}")
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("written")
        file.flush()
        if do == "synced":
            before = time.monotonic()
            os.fsync(file.fileno())
            print("slow" if time.monotonic() > before else "at once")
    os.replace(path + ".new", path)
    if do == "synced":
        folder = os.open("data", os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    print(f"{os.path.getsize(path)} bytes")


async def store_twice() -> None:
    """Keep one file and, a second later and in the same step, another; print what is there first."""
    print(sorted(os.listdir("data")))
    for name in ("first", "second"):
        with open(os.path.join("data", name), "w", encoding="utf-8") as file:
            file.write(name)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open("data", os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        time.sleep(1)
    await asyncio.sleep(10)


async def edit() -> None:
    with open("data/log", "w+b") as file:
        file.write(b"0123456789")
        file.seek(2)
        file.write(b"xy")
        file.seek(0)
        print(file.read())
    with open("data/log", "ab") as file:
        file.write(b"!")
    with open("data/log", "r+b") as file:
        file.truncate(5)
        print(file.read())
    os.remove("data/log")
    try:
        open("data/log", "rb")  # noqa: SIM115 - it fails
    except FileNotFoundError as error:
        print(error.filename)


async def sync_and_send(host: str) -> None:
    """Send only after a call that blocks."""
    reader, writer = await asyncio.open_connection(host, PORT)
    time.sleep(2)
    writer.write(b"when\n")
    await reader.readline()
    writer.close()


async def nap(number: int) -> int:
    await asyncio.sleep(0.01 * (number % 3))
    return number


async def nap_a_little(_: Sequence[str]) -> None:
    await nap(1)


async def wait_in_every_way() -> None:
    tasks = {asyncio.create_task(nap(number)) for number in range(8)}
    print("set", [task.get_name() for task in tasks])
    done, _ = await asyncio.wait(tasks, timeout=0.015)
    print("wait", sorted(task.result() for task in done))
    print("completed", [await each for each in asyncio.as_completed([nap(number) for number in range(8)])])
    print("gather", await asyncio.gather(*(nap(number) for number in range(4))))
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.1)
    except TimeoutError:
        print("timeout")
    try:
        async with asyncio.timeout(0.1):
            await asyncio.Event().wait()
    except TimeoutError:
        print("timeout")
    cancelled: list[int] = []
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(note_cancellation(number, cancelled))
            await asyncio.sleep(0.1)
            raise ValueError("enough")
    except* ValueError:
        print("cancelled", cancelled)
    print("tasks", len(asyncio.all_tasks()))


async def note_cancellation(number: int, cancelled: list[int]) -> None:
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        cancelled.append(number)
        raise


async def fail_in_a_task() -> None:
    async def fail() -> None:
        raise ValueError("nobody looks")

    asyncio.create_task(fail())  # noqa: RUF006 - that is the point
    await asyncio.sleep(0.1)
    print("lives")


async def exit_in_a_task() -> None:
    async def leave() -> None:
        raise SystemExit("no more")

    asyncio.create_task(leave())  # noqa: RUF006 - that is the point
    await asyncio.sleep(0.1)
    print("lives")


async def numbers() -> None:
    async def count() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.sleep(0)
            yield 2
        finally:
            print(f"closed at {time.monotonic():.0f}")

    async for _ in count():
        break
    await asyncio.sleep(0.1)


async def in_a_thread() -> None:
    threading.Thread(target=print).start()


async def to_thread() -> None:
    await asyncio.to_thread(print)


async def in_an_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(concurrent.futures.ThreadPoolExecutor(), print)


async def by_a_process() -> None:
    subprocess.run(["true"])


async def by_a_child() -> None:
    await asyncio.create_subprocess_exec("true")


async def by_a_socket() -> None:
    socket.socket()


async def by_unix() -> None:
    await asyncio.open_unix_connection("/tmp/socket")


async def by_tls() -> None:
    await asyncio.open_connection("n1", PORT, ssl=True)


async def by_entropy() -> None:
    os.urandom(8)


async def by_uuid() -> None:
    uuid.uuid4()


async def by_secrets() -> None:
    secrets.token_hex()


async def elsewhere() -> None:
    open("/etc/hostname")  # noqa: SIM115 - it is refused


async def in_a_folder() -> None:
    os.makedirs("data/folder", exist_ok=True)


async def by_half_closing() -> None:
    _, writer = await asyncio.open_connection("n1", PORT)
    writer.write_eof()


def on_sigterm(act: Callable[[], object]) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, act)


async def end_on_sigterm() -> None:
    asked = asyncio.Event()
    on_sigterm(asked.set)
    await asked.wait()
    print("asked to stop")
    await asyncio.sleep(0.5)
    print("done")
    raise Finished


async def exit_on_sigterm() -> None:
    def leave() -> None:
        print("asked to stop")
        sys.exit(0)

    on_sigterm(leave)
    await asyncio.sleep(100)


async def fail_on_sigterm() -> None:
    asked = asyncio.Event()
    on_sigterm(asked.set)
    await asked.wait()
    raise ValueError("cannot stop")


async def forget_sigterm() -> None:
    on_sigterm(lambda: print("asked to stop"))
    asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
    await asyncio.sleep(100)


async def ignore_sigterm() -> None:
    on_sigterm(lambda: print("asked to stop"))
    await asyncio.sleep(100)


REFUSED: dict[Callable[[], Awaitable[object]], str] = {
    in_a_thread: "threading.Thread.start",
    to_thread: "asyncio.to_thread",
    in_an_executor: "run_in_executor",
    by_a_process: "subprocess.Popen",
    by_a_child: "subprocess_exec",
    by_a_socket: "socket",
    by_unix: "create_unix_connection",
    by_tls: "create_connection was called with ssl",
    by_entropy: "os.urandom",
    by_uuid: "uuid.uuid4",
    by_secrets: "secrets.token_hex",
    elsewhere: "open of '/etc/hostname'",
    in_a_folder: "'data/folder' was named",
    by_half_closing: "write_eof",
}
"""What a program may not do, and what the refusal names."""


async def main(arguments: Sequence[str]) -> None:
    """Serve, and do what the arguments name."""
    _, do, *rest = arguments
    serving = asyncio.create_task(serve())
    await asyncio.sleep(0)
    if do != "serve":
        try:
            await globals()[do](*rest)
        except Finished:
            return
    await serving
