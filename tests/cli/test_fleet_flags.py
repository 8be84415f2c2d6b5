"""Flags of `fleet logs` and `fleet explain` reach the node as given: the node says what is wrong with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import typer
from temporalio.client import Client

from syncpod.cli import fleet_errands
from syncpod.cli.commands.fleet_explain import explain
from syncpod.cli.commands.fleet_logs import logs
from syncpod.cli.temporal import fleet, fleet_pods
from syncpod.cli.temporal.fleet_pods import FoundPod
from syncpod.messages.fleet import FleetNodeView


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The words that nodes were asked to run."""
    words: list[list[str]] = []

    def run(work: Callable[[Client], Awaitable[Any]], **_: Any) -> Any:
        return asyncio.run(cast(Any, work(cast(Client, None))))

    async def find(_client: Client, names: list[str], *_: Any) -> FoundPod:
        return FoundPod(FleetNodeView(name="n1"), names[-1], None)

    async def there(_client: Client, _node: FleetNodeView, given: list[str], **_: Any) -> int:
        words.append(given)
        return 0

    monkeypatch.setattr(fleet, "run", run)
    monkeypatch.setattr(fleet_pods, "find_pod", find)
    monkeypatch.setattr(fleet_errands, "run_there", there)
    monkeypatch.setattr(fleet_errands, "print_there", there)
    return words


@pytest.mark.parametrize("text", ["", "5m"])
def test_a_time_that_is_given_without_a_value_is_not_ignored(asked: list[list[str]], text: str) -> None:
    with pytest.raises(typer.Exit):
        logs(["web"], since=text, since_time=text)
    explain(["web"], at=text, since=text)
    assert asked == [
        ["logs", "web", "--namespace=default", f"--since={text}", f"--since-time={text}"],
        ["explain", "web", "--namespace=default", f"--at={text}", f"--since={text}"],
    ]


def test_flags_that_are_not_given_are_not_sent(asked: list[list[str]]) -> None:
    with pytest.raises(typer.Exit):
        logs(["web"])
    explain(["web"], restart=0, start=True)
    assert asked == [
        ["logs", "web", "--namespace=default"],
        ["explain", "web", "--namespace=default", "--restart=0", "--start"],
    ]
