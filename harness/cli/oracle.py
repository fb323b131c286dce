"""elle-cli beside our own checker: the same history, exported as EDN, and where the two verdicts differ.

elle-cli (github.com/ligurio/elle-cli) is a jar that the user has. With `--output json`, which is `--verbose` up to
version 0.1.9, it prints Elle's analysis as JSON: `valid?`, `anomaly-types`, `not`, `also-not`, and before it what
libraries log. Its exit code is 0, 1 for an invalid history or if it refuses what it is asked, 255 with a stack trace if
it failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from splitbrain.results.errors import HarnessError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

JAR_VARIABLE: Final = "SPLITBRAIN_ELLE_CLI"
"""The environment variable that names the jar."""

_LIMIT_S: Final = 600.0

_AS_JSON: Final = ("--output", "json")
_AS_JSON_ONCE: Final = ("--verbose",)
"""How versions up to 0.1.9 are asked for JSON; later ones take this for an option of another name."""

_UNKNOWN: Final = ("Unknown option", "File not found: json")
"""What an older version says of a newer option."""


class Answer(msgspec.Struct, frozen=True):
    """What elle-cli said of a history.

    Attributes:
        valid: "true", "false" or "unknown".
        anomaly_types: sorted.
        ruled_out: the weakest models that it says are violated ("not").
        also_ruled_out: stronger ones.
    """

    valid: str
    anomaly_types: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    also_ruled_out: tuple[str, ...] = ()


def command_of(environment: Mapping[str, str] = os.environ) -> list[str]:
    """How to start elle-cli.

    Raises:
        UsageError: the environment names no jar, there is none of that name, or there is no Java.
    """
    named = environment.get(JAR_VARIABLE, "")
    if not named:
        raise UsageError(f"--oracle elle-cli: set {JAR_VARIABLE} to its jar (github.com/ligurio/elle-cli).")
    if not Path(named).is_file():
        raise UsageError(f"--oracle elle-cli: {JAR_VARIABLE} names {named}, which is no file.")
    home = environment.get("JAVA_HOME")
    path = str(Path(home) / "bin") if home else environment.get("PATH", "")
    java = shutil.which("java", path=path)
    if java is None:
        raise UsageError("--oracle elle-cli: there is no java on JAVA_HOME or PATH. Install a Java, or set JAVA_HOME.")
    return [java, "-jar", named]


def ask(command: Sequence[str], history: pa.Table, workload: str, model: str) -> Answer:
    """Let elle-cli judge a history.

    Raises:
        HarnessError: it failed, did not end within ten minutes, or printed no analysis.
    """
    from splitbrain.results.formats.export import pieces

    with tempfile.TemporaryDirectory(prefix="splitbrain-oracle-") as folder:
        file = Path(folder) / "history.edn"
        file.write_text("".join(text for _, text in pieces(history, "edn")), encoding="utf-8")
        asked = [*command, "--model", workload, "--consistency-models", model]
        done = _run([*asked, *_AS_JSON, str(file)])
        if any(text in done.stdout + done.stderr for text in _UNKNOWN):
            done = _run([*asked, *_AS_JSON_ONCE, str(file)])
    problem = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[0]
    if done.returncode not in (0, 1):
        raise HarnessError(f"elle-cli failed with exit code {done.returncode}: {problem}.")
    try:
        return answer_of(done.stdout)
    except HarnessError as error:
        raise HarnessError(f"{error} It says: {problem[:200]}") from None


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"elle-cli did not answer: {error}.") from error


def answer_of(output: str) -> Answer:
    """The analysis in the output of elle-cli.

    Raises:
        HarnessError: there is none.
    """
    lines = output.splitlines()
    for place, line in enumerate(lines):
        if not line.startswith("{"):
            continue
        try:
            found: Any = msgspec.json.decode("\n".join(lines[place:]))
        except msgspec.DecodeError:
            continue
        if isinstance(found, dict) and "valid?" in found:
            return _answer(cast("dict[str, Any]", found))
    raise HarnessError(f"elle-cli printed no analysis, but {output.strip()[:80]!r}.")


def _answer(found: Mapping[str, Any]) -> Answer:
    def names(key: str) -> tuple[str, ...]:
        listed: Any = found.get(key) or ()
        return tuple(sorted(map(str, listed)))

    said = found["valid?"]
    valid = ("true" if said else "false") if isinstance(said, bool) else "unknown"
    return Answer(valid, names("anomaly-types"), names("not"), names("also-not"))


def differences(answer: Answer, valid: str, anomalies: Sequence[str], ruled_out: Sequence[str]) -> list[str]:
    """Where our verdict differs, in sentences; empty if it does not."""
    found: list[str] = []
    if answer.valid != valid:
        found.append(f"elle-cli says {answer.valid}, splitbrain says {valid}")
    for words, one, other in (
        ("only elle-cli names the anomalies", answer.anomaly_types, anomalies),
        ("only splitbrain names the anomalies", anomalies, answer.anomaly_types),
        ("only elle-cli rules out", answer.ruled_out, ruled_out),
        ("only splitbrain rules out", ruled_out, answer.ruled_out),
    ):
        more = [each for each in one if each not in other]
        if more:
            found.append(f"{words} {', '.join(more)}")
    return found
