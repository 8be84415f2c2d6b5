"""Commands that a node and a fleet both have: options that are declared once, and that each command has."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

import pytest
import typer

from syncpod.cli.command_table import COMMANDS, FLEET_COMMANDS
from syncpod.cli.commands.explain import ExplainOptions
from syncpod.cli.commands.logs import LogsOptions
from syncpod.cli.input.contexts import Context, InFleet, OnlyFleet, OnlyNode, flags_for_node, with_parameters
from syncpod.cli.program import program
from tests.cli.conftest import program as run


@dataclass(frozen=True)
class WashOptions:
    dish: Annotated[str, typer.Argument()]
    hot: Annotated[bool, typer.Option("--hot", help="Here."), InFleet("There.")] = False
    spin: Annotated[str, typer.Option("--spin", metavar="slow|fast", help="Spin."), InFleet(metavar="slow")] = "slow"
    soap: OnlyNode[Annotated[str, typer.Option("--soap", help="Soap.")]] = "none"
    node: OnlyFleet[Annotated[str, typer.Option("--node", help="The node.")]] = ""


GIVEN: list[WashOptions] = []


def wash(given: WashOptions) -> None:
    """Wash."""
    GIVEN.append(given)


def plain(dish: Annotated[str, typer.Argument()]) -> None:
    """Wash plainly."""


@pytest.mark.parametrize(
    ("context", "options"),
    [
        (Context.NODE, {"hot": "Here.", "spin": "Spin.", "soap": "Soap."}),
        (Context.FLEET, {"hot": "There.", "spin": "Spin.", "node": "The node."}),
    ],
)
def test_each_command_has_the_options_of_its_context_with_their_help(context: Context, options: dict[str, str]) -> None:
    app = typer.Typer(add_completion=False)
    app.command()(with_parameters(wash, context))
    command = typer.main.get_command(app)
    assert command.help == "Wash."
    assert {each.name: getattr(each, "help", None) for each in command.params} == {"dish": None, **options}


@pytest.mark.parametrize(("context", "metavar"), [(Context.NODE, "slow|fast"), (Context.FLEET, "slow")])
def test_an_option_may_have_another_metavar_in_a_fleet(context: Context, metavar: str) -> None:
    app = typer.Typer(add_completion=False)
    app.command()(with_parameters(wash, context))
    assert {each.metavar for each in typer.main.get_command(app).params if each.name == "spin"} == {metavar}


def test_options_of_the_other_context_have_their_defaults() -> None:
    with_parameters(wash, Context.FLEET)(dish="cup", hot=True, node="n1")
    assert GIVEN[-1] == WashOptions("cup", hot=True, soap="none", node="n1")


def test_a_command_without_a_record_stays_as_it_is() -> None:
    assert with_parameters(plain, Context.NODE) is plain


def test_a_node_is_told_the_flags_that_differ_from_the_default() -> None:
    assert flags_for_node(WashOptions("cup", hot=True, node="n1")) == ["--hot"]
    assert flags_for_node(WashOptions("cup", soap="")) == ["--soap="]
    assert flags_for_node(WashOptions("cup", hot=True, soap="green"), besides=("hot",)) == ["--soap=green"]


@pytest.mark.parametrize(("name", "record"), [("logs", LogsOptions), ("explain", ExplainOptions)])
def test_a_flag_that_a_node_is_told_has_the_name_of_its_field(name: str, record: type) -> None:
    named = {f"--{each.name.replace('_', '-')}" for each in fields(record)} - {"--what", "--node", "--state-dir"}
    assert named == {each.opts[0] for each in program().commands[name].params if each.name != "what"}


def test_each_command_of_kubectl_that_both_have_is_on_one_page() -> None:
    apart = {name for name in COMMANDS.keys() & FLEET_COMMANDS if COMMANDS[name].module != FLEET_COMMANDS[name].module}
    assert apart == {"up", "down", "install", "uninstall", "key"}


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("fleet", "cp", "a", "web:/x", "--retries", "3"), "--retries"),
        (("get", "pods", "--state-dir", "/x"), "--state-dir"),
    ],
)
def test_an_option_of_the_other_command_is_refused(words: tuple[str, ...], option: str) -> None:
    refused = run(*words)
    assert (refused.code, refused.out) == (2, "")
    assert f"No such option: {option}" in refused.err
