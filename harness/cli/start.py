"""The program `splitbrain`: a request to end is answered with one line from its first moment to its last.

Before a command begins, and once it is over, nothing has to be put in order: a signal ends the process there and then.
An exception there would end an import with a traceback, or the imported module would catch it. What a signal does while
a command runs is in `interrupts.ends_the_command`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # the modules `typing` and `signal` take longer to import than all that comes before
if TYPE_CHECKING:
    import signal
    from types import FrameType
else:
    import _signal as signal

_SAID: dict[int, str] = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "interrupted by SIGTERM",
    signal.SIGHUP: "interrupted by SIGHUP",
}


def main() -> None:
    """Run the command line and exit with its code. What is ignored stays so: with nohup, or in the background."""
    heard = [number for number in _SAID if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _end)
    from splitbrain.harness.cli.main import main as run

    try:
        run()
    except SystemExit as over:
        code = over.code if isinstance(over.code, int) else 0

        def leave(_: int, __: FrameType | None) -> None:
            os._exit(code)

        for number in heard:
            signal.signal(number, leave)
        raise


def _end(number: int, _: FrameType | None) -> None:
    try:  # noqa: SIM105 - nothing is imported in here
        os.write(2, f"splitbrain: {_SAID[number]}\n".encode())
    except OSError:  # the terminal is gone
        pass
    os._exit(128 + number)
