"""The layout of ``--help``: commands under headings, examples at the end of each page."""

from __future__ import annotations

import inspect
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

from typer.core import TyperCommand, TyperGroup

from syncpod.cli.command_table import Entry
from syncpod.cli.examples import EXAMPLES, NOTES
from syncpod.cli.input.flags import require_dashes, taken_plainly, without_values
from syncpod.cli.input.kubectl_words import refuse_word, running
from syncpod.cli.standard_streams import stop_at_lost_output

_VERBATIM = "\b"
"""A line with this character alone makes click keep the line breaks of the paragraph that follows."""
_HEAD = f"{_VERBATIM}\nExamples:"


class CommandInterrupted(Exception):
    """Ctrl-C ended the command."""


class Page(TyperCommand):
    """A command with help and flags like kubectl's: ``POD``, not ``{POD}``; ``--wait=false``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, ``--help`` included."""
        return taken_plainly(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments in the usage line; only a choice keeps its braces: ``{bash|zsh|fish}``."""
        return [re.sub(r"^\{([^|]*)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; flags may have values, as with kubectl. Raises BadInput."""
        require_dashes(self, args, ctx.command_path)
        return super().parse_args(ctx, without_values(self, args))

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises CommandInterrupted at Ctrl-C, since typer would return 130 on a KeyboardInterrupt."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # `main` has set this for the time before the command
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if ctx.params.get("watch") or ctx.params.get("follow"):
            stop_at_lost_output()
        before = running.set(ctx.info_name)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise CommandInterrupted from None
        finally:
            running.reset(before)


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, ``--help`` included."""
        return taken_plainly(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. Raises BadInput for a word that names none, and suggests the command that does its work."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            refuse_word(args[0], list(table_of(self)), ctx.command_path)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by heading. Long summaries are wrapped; click would cut them.

        The commands of a table are listed without importing their modules.
        """
        table = table_of(self)
        width = max(map(len, table))
        for panel in dict.fromkeys(entry.panel for entry in table.values()):
            with formatter.section(panel):
                formatter.write_dl(
                    [
                        (name.ljust(width), _summary(TyperCommand(None, help=entry.summary)))
                        for name, entry in table.items()
                        if entry.panel == panel
                    ]
                )


def table_of(group: Any) -> Mapping[str, Entry]:
    """Return the entries of a group's commands for its help, without importing the modules of a table's commands."""
    if (table := getattr(group.commands, "table", None)) is not None:
        return cast("Mapping[str, Entry]", table)
    return {name: Entry("Commands", _summary(one)) for name, one in group.commands.items() if not one.hidden}


def _summary(command: Any) -> str:
    """Return the first sentence of a command's help, uncut."""
    summary: str = command.get_short_help_str(sys.maxsize)
    return summary


def commands_of(program: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its path, ``("create", "secret", "generic")``; a group before its commands."""
    if path:
        yield path, program
    if isinstance(program, TyperGroup):
        for name, command in program.commands.items():
            yield from commands_of(command, (*path, name))


def with_examples(command: Any, path: tuple[str, ...]) -> Any:
    """Add examples and notes to the end of the help of a command and of those below it; return the command."""
    for words, each in commands_of(command, path):
        name = " ".join(words)
        text, _, own = inspect.cleandoc(each.help or "").partition(f"\n\n{_HEAD}\n")
        parts = [inspect.cleandoc(each.epilog or ""), NOTES.get(name, ""), _examples(name)]
        if own:
            parts.append(f"{_HEAD}\n{own}")
        each.help, each.epilog = text, "\n\n".join(filter(None, parts)) or None
    return command


def _examples(name: str) -> str:
    """Return a paragraph for each of a command's examples; the first has the heading."""
    parts = [f"  # {why}\n  {what}" for why, what in EXAMPLES.get(name, ())]
    return f"\n\n{_VERBATIM}\n".join([f"{_HEAD}\n{parts[0]}", *parts[1:]]) if parts else ""
