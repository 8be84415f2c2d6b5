"""The names of the steps by which a pod's workflow acts on its node."""

from __future__ import annotations

from enum import StrEnum


class StepName(StrEnum):
    """Names of a pod's steps: those of its activities, as the history shows them.

    `syncpod.messages.step_table` has one row for each.
    """

    CREATE_SANDBOX = "create_sandbox"
    SYNC_VOLUMES = "sync_volumes"
    ALLOCATE_RESOURCES = "allocate_resources"
    RESIZE_POD = "resize_pod"
    PULL_IMAGE = "pull_image"
    START_INIT_CONTAINER = "start_init_container"
    START_EPHEMERAL_CONTAINER = "start_ephemeral_container"
    START_CONTAINER = "start_container"
    KILL_CONTAINER = "kill_container"
    KILL_POD = "kill_pod"
    REMOVE_CONTAINER = "remove_container"
