"""The layout of ``--help``: commands under headings, examples at the end of each page."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from typer.core import TyperCommand, TyperGroup

from syncpod.cli.examples import EXAMPLES, NOTES
from syncpod.cli.input.flags import without_values
from syncpod.cli.input.kubectl_words import refuse_word

_VERBATIM = "\b"
"""A line with it keeps the line breaks of the next paragraph."""
_HEAD = f"{_VERBATIM}\nExamples:"


class Page(TyperCommand):
    """A command with help and flags like kubectl's: ``POD``, not ``{POD}``; ``--wait=false``."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments in the usage line; only a choice keeps its braces: ``{bash|zsh|fish}``."""
        return [re.sub(r"^\{([^|]*)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; flags may have values, as with kubectl. Raises BadInput."""
        return super().parse_args(ctx, without_values(self, args))


class Program(TyperGroup):
    """The whole program; its commands are listed in groups."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. Raises BadInput for a word that names none, with what it is called here."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            refuse_word(args[0], [name for name, command in self.commands.items() if not command.hidden])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by group, in the order in which they were added."""
        shown = [(name, command) for name, command in self.commands.items() if not command.hidden]
        if not shown:
            return
        width = max(len(name) for name, _ in shown)
        order = list(dict.fromkeys(_panel(command) for _, command in shown))
        shown.sort(key=lambda pair: order.index(_panel(pair[1])))
        for panel, commands in groupby(shown, key=lambda pair: _panel(pair[1])):
            with formatter.section(panel):
                rows = [
                    (name.ljust(width), command.get_short_help_str(formatter.width - 6 - width))
                    for name, command in commands
                ]
                formatter.write_dl(rows)


def _panel(command: Any) -> str:
    return str(getattr(command, "rich_help_panel", None) or "Commands")


def commands_of(program: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its path, ``("create", "secret", "generic")``; a group before its commands."""
    if path:
        yield path, program
    if isinstance(program, TyperGroup):
        for name, command in program.commands.items():
            yield from commands_of(command, (*path, name))


def with_examples(program: Any) -> Any:
    """Add examples and notes to the end of each command's help; return the program."""
    for path, command in commands_of(program):
        name = " ".join(path)
        text, _, own = inspect.cleandoc(command.help or "").partition(f"\n\n{_HEAD}\n")
        parts = [inspect.cleandoc(command.epilog or ""), NOTES.get(name, ""), _examples(name)]
        if own:
            parts.append(f"{_HEAD}\n{own}")
        command.help, command.epilog = text, "\n\n".join(filter(None, parts)) or None
    return program


def _examples(name: str) -> str:
    """Return a paragraph for each of a command's examples; the first has the heading."""
    parts = [f"  # {why}\n  {what}" for why, what in EXAMPLES.get(name, ())]
    return f"\n\n{_VERBATIM}\n".join([f"{_HEAD}\n{parts[0]}", *parts[1:]]) if parts else ""
