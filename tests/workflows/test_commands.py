"""The tables of commands, the workflows' handlers and the effects match."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from syncpod.messages.command_table import CommandTable
from syncpod.messages.fleet_commands import FLEET_NODE_COMMANDS, WORKLOAD_COMMANDS
from syncpod.messages.node_commands import NODE_COMMANDS
from syncpod.messages.pod_commands import POD_COMMANDS, RESTART
from syncpod.messages.signals import Restart
from syncpod.pod.model_errors import first_problem
from workflows.effects import Effect
from workflows.fleet import node_changes, workload_updates
from workflows.handlers import unknown_signal, unknown_update
from workflows.node import absorb as node_absorb
from workflows.pod import absorb as pod_absorb
from workflows.rejections import Rejected

OF_THE_RUN = {"renew"}
"""Signals that concern only the run of a workflow, so its entity takes them."""


def test_every_command_has_an_effect() -> None:
    """A row without one would answer that there is no such command, and only when it is sent."""
    assert POD_COMMANDS.signals.keys() - OF_THE_RUN == pod_absorb.SIGNALS.keys()
    assert POD_COMMANDS.updates.keys() == pod_absorb.UPDATES.keys()
    assert (NODE_COMMANDS.signals.keys() | NODE_COMMANDS.updates.keys()) - OF_THE_RUN == node_absorb.EFFECTS.keys()
    assert FLEET_NODE_COMMANDS.signals.keys() - OF_THE_RUN == node_changes.SIGNALS.keys()
    assert FLEET_NODE_COMMANDS.updates.keys() == node_changes.UPDATES.keys()
    assert WORKLOAD_COMMANDS.updates.keys() == workload_updates.updates_of("deployment/web").keys()


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("delete_pod", 0, "takes one payload, got 0: `{}` is one"),
        ("resize", 0, "takes one payload, got 0: `{}` is one"),
        ("apply", 0, "takes one payload, got 0: a v1 Pod is one"),
        ("add_ephemeral_container", 0, "takes one payload, got 0: a v1 EphemeralContainer is one"),
        ("delete_pod", 2, "takes one payload, got 2"),
    ],
)
def test_a_wrong_number_of_payloads_names_one_that_is_right(name: str, given: int, says: str) -> None:
    command = POD_COMMANDS.signals.get(name) or POD_COMMANDS.updates[name]
    assert command.wrong_number(given) == says


@pytest.mark.parametrize(
    ("table", "name", "says"),
    [
        (
            NODE_COMMANDS,
            "cordon",
            "cordon is an update: `temporal workflow update execute --name cordon` with",
        ),
        (
            POD_COMMANDS,
            "resize",
            "resize is an update: `temporal workflow update execute --name resize` with",
        ),
        (POD_COMMANDS, "nobody", "unknown, with 1 payload; known: update_pod, "),
    ],
)
def test_an_update_that_comes_as_a_signal_is_told_how_it_is_sent(table: CommandTable, name: str, says: str) -> None:
    assert unknown_signal(table, name, 1).startswith(says)


@pytest.mark.parametrize(
    ("table", "name", "says"),
    [
        (POD_COMMANDS, "restart", "restart is a signal: `temporal workflow signal --name restart` with `--input '{"),
        (NODE_COMMANDS, "nobody", "unknown update nobody; known: apply, delete, sync_pods, cordon, uncordon"),
    ],
)
def test_a_signal_that_comes_as_an_update_is_told_how_it_is_sent(table: CommandTable, name: str, says: str) -> None:
    assert unknown_update(table, name).startswith(says)


@pytest.mark.parametrize("given", [5, "x", ["container"]])
def test_a_payload_that_is_no_object_is_told_what_one_is(given: object) -> None:
    effect: Effect[None, Restart, tuple[()]] = Effect(RESTART, lambda *_: ())
    with pytest.raises(Rejected) as refused:
        effect(None, (given,), datetime.now(UTC))
    assert str(refused.value) == 'must be an object: {"container": ""}'


def test_a_field_of_a_wrong_type_is_told_without_pythons_words() -> None:
    for given, says in (({"name": 5}, "name: must be a string; put it in quotes"), ({"pdo": {}}, "pdo: unknown field")):
        with pytest.raises(ValidationError) as wrong:
            NODE_COMMANDS.updates["delete"].decoded(given)
        assert str(first_problem(wrong.value)) == says
    with pytest.raises(ValidationError) as wrong:
        NODE_COMMANDS.signals["sync_pods"].decoded({"pods": 5})
    assert str(first_problem(wrong.value)) == "pods: must be a list"
