"""How shells ask for completions. click has the script of zsh; those of bash and fish are our own.

bash splits a command line at `:` and `=` too, so that `--nemesis partition:2,ki` and `--nemesis=ki` come in pieces. Our
script hands over the line itself, and what is answered is cut to the last piece, which is all that bash replaces. It
adds no space after a name in a list. In fish, click's script takes what follows a comma for something else.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, ClassVar, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

VARIABLE: Final = "_SPLITBRAIN_COMPLETE"

_BASH: Final = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            open) COMPREPLY+=("$value"); compopt -o nospace ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1" 2> /dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_FISH: Final = """\
function %(complete_func)s
    set -l answer (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) \
%(prog_name)s 2> /dev/null)
    for line in $answer
        set -l item (string split -m 1 "," -- $line)
        switch $item[1]
            case dir
                __fish_complete_directories $item[2]
            case file
                __fish_complete_path $item[2]
            case plain
                echo $item[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""

_BREAKS: Final = ":="
"""Where bash begins another word, besides at blanks."""


class Bash(BashComplete):
    """Completion for bash 4.4 or later."""

    source_template: ClassVar[str] = _BASH

    def source(self) -> str:
        """The script. bash says itself if it is too old for it."""
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        """The whole words of the line, and the one that is completed."""
        if "COMP_LINE" not in os.environ:
            return super().get_completion_args()
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        if not line or line[-1].isspace():
            return words[1:], ""
        return words[1:-1], words[-1]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """What is offered, cut to what bash replaces."""
        found = super().get_completions(args, incomplete)
        if "COMP_LINE" not in os.environ:
            return found
        option, equals, value = incomplete.partition("=")
        value = value if equals and option.startswith("--") else incomplete
        behind = max(map(value.rfind, _BREAKS)) + 1
        return [_cut(each, behind) if each.value.startswith(value[:behind]) else each for each in found]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """A line of the answer: how it is completed, and the value."""
        return f"{'open' if item.open else item.type},{item.value}"


def _cut(item: CompletionItem[str], behind: int) -> CompletionItem[str]:
    return CompletionItem(item.value[behind:], type=item.type, help=item.help, open=item.open)


class Fish(FishComplete):
    """Completion for fish 3 or later."""

    source_template: ClassVar[str] = _FISH

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """What is offered. fish replaces the whole word, the name of an option before `=` too."""
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if not equals or not option.startswith("--"):
            return found
        return [CompletionItem(f"{option}={each.value}", type=each.type, help=each.help) for each in found]


add_completion_class(Bash, "bash")
add_completion_class(Fish, "fish")


def script(command: click.Command, shell: str) -> str:
    """The script that makes a shell complete `splitbrain`."""
    found = get_completion_class(shell)
    assert found is not None
    return found(command, {}, "splitbrain", VARIABLE).source()


def answer(command: click.Command, instruction: str) -> int:
    """Answer a shell, as in `bash_complete` or `zsh_source`; the exit code. What fails offers nothing."""
    from click.shell_completion import shell_complete

    with contextlib.suppress(Exception):
        return shell_complete(command, {}, "splitbrain", VARIABLE, instruction)
    return 1
