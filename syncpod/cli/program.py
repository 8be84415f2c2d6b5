"""The tree of commands. A command's module is imported only for the command itself or its own ``--help``."""

from __future__ import annotations

import functools
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any

import typer

from syncpod.cli.command_table import TABLES, Entry
from syncpod.cli.input.contexts import Context, with_parameters
from syncpod.cli.manual import Group, Page, with_examples


class CommandsByName(MutableMapping[str, Any]):
    """The commands of a table by name, in the table's order; each is made when it is first looked up."""

    def __init__(self, *path: str) -> None:
        """Take the table at `path`, the words before its commands: () or ("fleet",)."""
        self._path, self.table = path, TABLES[path]
        self._made: dict[str, Any] = dict.fromkeys(self.table)

    def __getitem__(self, name: str) -> Any:
        """Return a command with its examples; the first lookup imports its module. Raises KeyError."""
        if self._made[name] is None:
            path = *self._path, name
            command = self._made[name] = with_examples(_made(path, self.table[name]), path)
            if path in TABLES:
                command.commands = CommandsByName(*path)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a command, without importing its module."""
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]


@functools.cache
def program() -> Any:
    """Return the tree of commands."""
    app = typer.Typer(
        name="syncpod",
        cls=Group,
        help="Kubernetes pods on this machine's container runtime, each a durable Temporal workflow. SYNCPOD_STATE_DIR "
        "names another state directory than the usual one, for each command.",
        epilog="Exit codes: 0 done, 1 failed or not found, 2 wrong input or environment, 130 interrupted; a "
        "port-forward that is interrupted has done its work: 0.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_program)
    root = typer.main.get_command(app)
    assert isinstance(root, Group)
    root.commands = CommandsByName()
    return root


def _program(
    asked: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=lambda asked: _print(asked), is_eager=True),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def _print(asked: bool) -> None:
    if asked:
        from syncpod.cli.commands.version import version

        version()
        raise typer.Exit


def _made(path: tuple[str, ...], entry: Entry) -> Any:
    """Return a command of the table, from its module."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    name, context = path[-1], Context.NODE if len(path) == 1 else Context.FLEET
    module = import_module(f"syncpod.cli.commands.{entry.module}") if entry.module else None
    page = (
        getattr(module, entry.function)
        if module is not None
        else typer.Typer(cls=Group, help=entry.summary, no_args_is_help=True)
    )
    if isinstance(page, typer.Typer):
        app.add_typer(page, name=name, rich_help_panel=entry.panel)
        group: Any = typer.main.get_command(app)
        return group.commands[name]
    settings = getattr(module, "CONTEXT", None)
    own_help = settings is None or "help_option_names" not in settings
    app.command(name, cls=Page, rich_help_panel=entry.panel, context_settings=settings, add_help_option=own_help)(
        with_parameters(page, context)
    )
    return typer.main.get_command(app)
