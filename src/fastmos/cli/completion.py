"""`fastmos completion`: what the shell completes after TAB."""

import shlex
from argparse import Namespace

from fastmos.cli.arguments import Arguments, add_choice

SCRIPT = """# Completion of fastmos for bash and zsh.
if [ -n "${{ZSH_VERSION:-}}" ]; then autoload -U +X bashcompinit && bashcompinit; fi
_fastmos() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" one="${{COMP_WORDS[1]}}" two="${{COMP_WORDS[2]:-}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words={commands}
    else
        case "$one $two" in
{cases}
        esac
        if [ "$COMP_CWORD" -eq 2 ]; then
            case "$one" in
{groups}
            esac
        fi
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _fastmos fastmos"""


def add_arguments(parser: Arguments) -> None:
    add_choice(parser, "shell", ["bash", "zsh"], "the shell; both get the same script")


def run(args: Namespace) -> None:
    """Print a script that lets TAB complete commands, options and names of files.

    Put `eval "$(fastmos completion bash)"` into ~/.bashrc, or `eval "$(fastmos completion zsh)"` into ~/.zshrc.
    """
    print(script())


def script() -> str:
    """The script, with the options of every command; longer commands come first, as `demo head` before `demo`."""
    from fastmos.cli import COMMANDS, parser_of

    cases: list[str] = []
    groups: dict[str, list[str]] = {}
    for name in sorted(COMMANDS, key=lambda name: -name.count(" ")):
        first, _, second = name.partition(" ")
        cases.append(_case(f'"{name}"' if second else f'"{name} "*', " ".join(parser_of(name).option_names())))
        if second:
            groups.setdefault(first, []).append(second)
    return SCRIPT.format(
        commands=shlex.quote(" ".join(dict.fromkeys(name.split()[0] for name in COMMANDS))),
        cases="\n".join(cases),
        groups="\n".join(_case(first, "$words " + " ".join(seconds)) for first, seconds in groups.items()),
    )


def _case(pattern: str, words: str) -> str:
    return f'                {pattern}) words="{words}" ;;'
