"""docs/cli.md is up to date with the commands' help. `python -m tests.cli.test_reference` writes it.

Holds: The manual is generated from the commands.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer

from syncpod.cli.command_table import TABLES
from syncpod.cli.examples import EXAMPLES, NOTES
from syncpod.cli.manual import commands_of
from syncpod.cli.program import program
from syncpod.settings.command_line import parse_arguments

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
HEAD = """\
# The command line

Generated from the commands: `syncpod COMMAND --help` prints the same.

- Results go to standard output, everything else to standard error.
- Exit codes: 0 done; 1 failed or not found; 2 the input or the environment is wrong, and nothing has been done; 130
  interrupted, but 0 for `port-forward`. `exec` and `debug` pass on the exit code of what they ran.
- Name pods as with kubectl: `web`, `pod/web`, `pod web`. Without `-n` the namespace is `default`.
- Flags take values as with kubectl: `--wait=false` is `--no-wait`, `--all=true` is `--all`.
- The Temporal server is the one that the `temporal` CLI would use (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`,
  temporal.toml), else the one that `syncpod up` runs in the state directory.
- `SYNCPOD_STATE_DIR` names the state directory, `SYNCPOD_NODE` the node.
- `source <(syncpod completion bash)` completes all this in bash; for zsh and fish: `syncpod completion --help`.
"""
ALL = [(path, command) for path, command in commands_of(program()) if not command.hidden]
WRITTEN = {
    " ".join(path): re.findall(r"^  [^#\s].*", (command.epilog or "").partition("Examples:")[2], re.MULTILINE)
    for path, command in ALL
}


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Set a fixed width, and disable the colours that argparse has since Python 3.14."""
    with mock.patch.dict(os.environ, {"COLUMNS": "120", "NO_COLOR": "1", "PYTHON_COLORS": "0"}):
        os.environ.pop("FORCE_COLOR", None)
        yield


def rendered() -> str:
    """The document as it is generated from the commands now."""
    summary = [f"| [`{' '.join(path)}`](#{anchor(path)}) | {summary_of(command)} |" for path, command in ALL]
    parts = [HEAD, "\n".join(["| command | |", "|---|---|", *summary, ""])]
    with plain():
        parts += ["\n".join(section(path, command)) for path, command in ALL]
    return "\n".join(parts)


def section(path: tuple[str, ...], command: Any) -> Iterator[str]:
    """The section about one command."""
    context = typer.Context(command, info_name=" ".join(("syncpod", *path)), terminal_width=120)
    yield f"## syncpod {' '.join(path)}\n"
    if path == ("worker",):
        yield f"{summary_of(command)}\n\n```\n{worker_help()}```\n"
        return
    yield f"```\n{context.get_usage().removeprefix('Usage: ')}\n```\n"
    yield f"{prose(command.help)}\n"
    records = [record for one in command.params if (record := one.get_help_record(context)) is not None]
    if records:
        yield "| option | |\n|---|---|"
        yield from (f"| `{cell(name)}` | {cell(text)} |" for name, text in records)
        yield ""
    before, _, examples = (command.epilog or "").partition("\b\nExamples:\n")
    if before.strip():
        yield f"{prose(before)}\n"
    if examples:
        lines = examples.replace("\b\n", "").rstrip().split("\n")
        yield "\n".join(["```sh", *(line.removeprefix("  ") for line in lines), "```", ""])


def worker_help() -> str:
    """The output of `syncpod worker --help`."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        parse_arguments(["--help"])
    return said.getvalue()


def summary_of(command: Any) -> str:
    """The first sentence of a command's page."""
    return cell(command.get_short_help_str(200).rstrip("."))


def sentence(command: Any) -> str:
    """The first sentence of a command's help text, as it is written there."""
    return " ".join(command.help.split("\n\n")[0].split()).partition(". ")[0].removesuffix(".") + "."


def prose(text: str) -> str:
    """Text of a page as Markdown, with a line for each paragraph."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def cell(text: str) -> str:
    """Text in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def anchor(path: tuple[str, ...]) -> str:
    """The name that a heading has for links."""
    return "-".join(("syncpod", *path))


def test_the_document_matches_the_command_help() -> None:
    assert DOCUMENT.read_text() == rendered(), "run `python -m tests.cli.test_reference`"


def test_the_document_has_no_colours_even_if_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rendered()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("PYTHON_COLORS", "1")
    with plain():
        seen = (os.environ.get("FORCE_COLOR"), os.environ["PYTHON_COLORS"], os.environ["NO_COLOR"])
    assert seen == (None, "0", "1"), "Pythons before 3.14 heed none of them"
    assert rendered() == before
    assert (os.environ["FORCE_COLOR"], os.environ["PYTHON_COLORS"]) == ("1", "1")


def test_pages_have_no_python_types_and_braces_only_around_choices() -> None:
    for path, command in ALL:
        context = typer.Context(command, info_name=" ".join(("syncpod", *path)))
        records = [record for one in command.params if (record := one.get_help_record(context)) is not None]
        assert not re.search(r"\{[^|]*\}", context.get_usage()) and not [name for name, _ in records if "<" in name]


def test_every_command_has_examples() -> None:
    assert {name for name, examples in WRITTEN.items() if not examples} == set()


@pytest.mark.parametrize("path", TABLES, ids="-".join)
def test_the_table_says_of_each_command_what_its_page_says(path: tuple[str, ...]) -> None:
    """Help prints the table's texts, without loading the commands."""
    ours = functools.reduce(lambda group, name: group.commands[name], path, program()).commands
    assert {name: (entry.panel, entry.summary) for name, entry in TABLES[path].items()} == {
        name: (command.rich_help_panel, sentence(command)) for name, command in ours.items()
    }
    assert not [name for name, command in ours.items() if command.hidden or command.name != name]


def test_every_example_is_of_a_command() -> None:
    assert {*EXAMPLES, *NOTES} <= {" ".join(path) for path, _ in ALL}


@pytest.mark.parametrize("line", sorted({line for examples in WRITTEN.values() for line in examples}))
def test_every_example_is_parsed_by_its_command(line: str) -> None:
    """Flags and arguments are parsed as in a run; the command is not executed."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>()")
    lexer.whitespace_split = True
    words = list(lexer)
    words = list(
        itertools.takewhile(lambda word: word not in ("|", "<", ">", ")"), words[words.index("syncpod") + 1 :])
    )
    command: Any = program()
    names = []
    while words and words[0] in getattr(command, "commands", {}):
        names.append(words.pop(0))
        command = command.commands[names[-1]]
    assert names, f"{line}: no command"
    if not hasattr(command, "commands"):
        assert command.make_context(names[-1], words).params is not None


def test_no_line_of_a_page_is_wider_than_a_terminal() -> None:
    wide = []
    for path, command in ALL:
        context = typer.Context(command, info_name=" ".join(("syncpod", *path)), terminal_width=80)
        if path != ("worker",):
            wide += [
                line for line in command.get_help(context).splitlines() if len(line) > 80 and "syncpod " not in line
            ]
    assert wide == []


if __name__ == "__main__":
    DOCUMENT.write_text(rendered())
