"""The fields of a snapshot (the input of the next run) have the order in which a reader of its page needs them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from syncpod.messages.signed import Accepted
from syncpod.pod import ObjectMeta, Pod
from workflows.fleet.node_state import FleetNodeState
from workflows.fleet.object import ObjectState
from workflows.fleet.workload_state import WorkloadState
from workflows.node.state import NodeState
from workflows.pod import start
from workflows.pod.state import PodState


def test_a_pods_snapshot_begins_with_the_pod_and_ends_with_the_numbers_of_its_commands() -> None:
    state = PodState(
        pod=Pod(metadata=ObjectMeta(name="web")),
        accepted=Accepted(floor=1, numbers=tuple(range(2, 258))),
        incarnation="a",
    )
    state.event(datetime(2026, 1, 1, tzinfo=UTC), "Normal", "Started", "Container started")
    names = list(start.next_input(state)["snapshot"])
    assert (names[0], names[-1]) == ("pod", "accepted")


@pytest.mark.parametrize("model", [PodState, NodeState, FleetNodeState, WorkloadState, ObjectState])
def test_the_numbers_of_commands_are_the_last_field_of_each_snapshot(model: type[BaseModel]) -> None:
    assert list(model.model_fields)[-1] == "accepted"
