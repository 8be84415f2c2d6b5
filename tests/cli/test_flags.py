"""Flags that take a value, in kubectl's syntax."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from syncpod.cli.input.kubectl_words import arranged
from syncpod.cli.main import run
from syncpod.cli.program import program


def parsed(line: str) -> dict[str, Any]:
    """The arguments with which a command is called."""
    name, *words = line.split()
    found: dict[str, Any] = program().commands[name].make_context(name, words).params
    return found


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("delete web --wait=false", "delete web --no-wait"),
        ("delete web --wait=true", "delete web"),
        ("delete web --no-wait --wait=1", "delete web"),
        ("delete web --wait=F", "delete web --no-wait"),
        ("delete web --no-wait=false", "delete web --wait"),
        ("delete --all=true --force=false", "delete --all"),
        ("delete --all --all=false web", "delete web"),
        ("delete -A --all-namespaces=false web", "delete web"),
        ("delete web --ignore-not-found=true --wait=false", "delete web --ignore-not-found --no-wait"),
        ("apply -f pod.yaml --wait=true", "apply -f pod.yaml --wait"),
        ("apply --wait=false -f pod.yaml", "apply -f pod.yaml"),
        ("get pods --watch=true --no-headers=True -o wide", "get pods -w --no-headers -o wide"),
        ("debug web --image=b --attach=false", "debug web --image b --no-attach"),
        ("get pods -w=false", "get pods"),
        ("get pods -Aw=false", "get pods -A"),
        ("logs web -f=true", "logs web -f"),
        ("delete -n default web --wait=false", "delete web -n default --no-wait"),
    ],
)
def test_a_boolean_flag_may_have_a_value(line: str, same: str) -> None:
    assert parsed(line) == parsed(same)


@pytest.mark.parametrize("command", ["apply", "fleet apply"])
def test_flags_that_change_nothing_are_left_out(command: str) -> None:
    line = [*command.split(), "-f", "pod.yaml"]
    assert arranged(program(), [*line, "--server-side", "--force-conflicts", "--validate=strict"]) == line


def _commands(group: Any, *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield from _commands(command, *before, name) if hasattr(command, "commands") else [((*before, name), command)]


def test_an_empty_namespace_is_the_default_one_in_every_command() -> None:
    with_files = {"apply", "delete", "get", "plan", "up", "wait"}  # "" = the manifests' own, or default
    seen = 0
    for words, command in _commands(program()):
        option = next((each for each in command.params if each.name == "namespace"), None)
        if option is None or "-n" not in option.opts:
            continue
        seen += 1
        given, _ = option.handle_parse_result(command.context_class(command), {"namespace": ""}, [])
        assert given == ("" if words[-1] in with_files else "default"), words
    assert seen > 40


@pytest.mark.parametrize("verb", ["prune", "adopt"])
def test_an_empty_namespace_is_not_every_namespace(verb: str) -> None:
    assert parsed(f"{verb} --all --namespace=")["namespace"] == "default"
    assert parsed(f"{verb} --all")["namespace"] == ""


def test_arguments_that_are_not_our_flags_are_unchanged() -> None:
    assert parsed("exec web --tty=false -- sh --tty=true --wait=false")["command"] == [
        "sh",
        "--tty=true",
        "--wait=false",
    ]
    assert parsed("delete -l --wait=false")["selector"] == "--wait=false"


@pytest.mark.parametrize("value", ["", "no", "yes", "client"])
def test_a_non_boolean_value_of_a_boolean_flag_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("delete", "web", f"--wait={value}")) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"syncpod: --wait: must be true or false, not {value!r}\n")
