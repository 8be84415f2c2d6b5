"""The tables of commands, the handlers of the workflows and the effects belong together."""

from __future__ import annotations

import pytest

from syncpod.messages.pod_commands import POD_COMMANDS


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
