"""A headless Chromium that tests talk to by the DevTools protocol, over pipes: no port, no network."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ANSWER_S = 60.0

_KEYS = {
    "Enter": 13,
    "Escape": 27,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
"""Keys and the numbers that Chromium knows them by."""


class Browser:
    """One page of a Chromium.

    Attributes:
        complaints: whatever the page's console or the engine complained about since it was opened.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._numbers = itertools.count(1)
        self._unread = b""
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Do something, and return the answer."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], ANSWER_S)
            assert ready, "Chromium does not answer"
            part = os.read(self._answers, 1 << 20)
            assert part, "Chromium has ended"
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded":
                self.complaints.append(str(params["entry"]))
            case _:
                self._events.append(event)

    def open(
        self, page: Path, *, fragment: str = "", scripts: bool = True, width: int = 1280, height: int = 800
    ) -> None:
        """Show a file, and wait until it is loaded and, with scripts, ready."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.send("Page.navigate", url="about:blank")
        self.complaints.clear()
        self._events.clear()
        self.send("Page.navigate", url=page.as_uri() + fragment)
        self.wait_until("document.readyState === 'complete'")
        if scripts:
            self.wait_until("document.querySelector('[data-ready=true]') !== null")
            self.settle()

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_until(self, expression: str) -> None:
        """Wait until an expression is true, on whatever page there is by then."""
        deadline = time.monotonic() + ANSWER_S
        while not self._is_true(expression):
            assert time.monotonic() < deadline, f"never true: {expression}; {self.complaints}"
            time.sleep(0.02)

    def _is_true(self, expression: str) -> bool:
        try:
            return bool(self.run(expression))
        except AssertionError as error:
            # The page went away while it was asked: the next one is on its way.
            if "navigated or closed" in str(error) or "context was destroyed" in str(error).lower():
                return False
            raise

    def settle(self) -> None:
        """Wait until what was asked for is drawn, or until the page goes away for the one that was asked for."""
        self._is_true("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def box(self, selector: str) -> dict[str, float]:
        """Where an element is in the window: left, top, right, bottom."""
        return self.run(
            f"(({{left, top, right, bottom}}) => ({{left, top, right, bottom}}))"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )

    def click(self, selector: str) -> None:
        """Press the mouse on an element's middle."""
        box = self.box(selector)
        at = {"x": (box["left"] + box["right"]) / 2, "y": (box["top"] + box["bottom"]) / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)
        self.settle()

    def press(self, key: str) -> None:
        """Press a key that has a name, such as "ArrowLeft", "Enter" or "Escape"."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=_KEYS[key])
        self.settle()

    def drag(self, selector: str, by: float) -> None:
        """Drag from an element's middle sideways."""
        box = self.box(selector)
        x, y = (box["left"] + box["right"]) / 2, (box["top"] + box["bottom"]) / 2
        self.send("Input.dispatchMouseEvent", type="mousePressed", button="left", clickCount=1, x=x, y=y)
        for part in (0.5, 1.0):
            self.send("Input.dispatchMouseEvent", type="mouseMoved", button="left", buttons=1, x=x + by * part, y=y)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", button="left", clickCount=1, x=x + by, y=y)
        self.settle()


@contextmanager
def chromium() -> Generator[Browser]:
    """A browser for some tests; a machine without Chromium skips them (in CI that fails)."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium here (Debian: chromium)")
    from_us, commands = os.pipe()
    answers, to_us = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe"
        process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" {options} --user-data-dir="$1" 3<&{from_us} 4>&{to_us}', program, profile],
            pass_fds=(from_us, to_us),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(from_us)
        os.close(to_us)
        try:
            yield Browser(commands, answers)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(commands)
            os.close(answers)
