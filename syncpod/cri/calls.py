"""The table of all calls to a runtime, with the kubelet's name of each call, and whether the call changes something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class CallSpec(NamedTuple):
    """One call to a runtime."""

    operation: str
    """The kubelet's `operation_type` of the call, in metrics and errors. The names for containerd's own calls are
    ours."""
    changes: bool
    """True if the call changes something in the runtime: tests kill the worker before and after it."""


CALLS: Final[Mapping[str, CallSpec]] = {
    "Version": CallSpec("version", changes=False),
    "Status": CallSpec("status", changes=False),
    "RuntimeConfig": CallSpec("runtime_config", changes=False),
    "UpdateRuntimeConfig": CallSpec("update_runtime_config", changes=True),
    "RunPodSandbox": CallSpec("run_podsandbox", changes=True),
    "StopPodSandbox": CallSpec("stop_podsandbox", changes=True),
    "RemovePodSandbox": CallSpec("remove_podsandbox", changes=True),
    "PodSandboxStatus": CallSpec("podsandbox_status", changes=False),
    "ListPodSandbox": CallSpec("list_podsandbox", changes=False),
    "ListPodSandboxStats": CallSpec("list_podsandbox_stats", changes=False),
    "UpdatePodSandboxResources": CallSpec("update_podsandbox_resources", changes=True),
    "CreateContainer": CallSpec("create_container", changes=True),
    "StartContainer": CallSpec("start_container", changes=True),
    "StopContainer": CallSpec("stop_container", changes=True),
    "RemoveContainer": CallSpec("remove_container", changes=True),
    "ListContainers": CallSpec("list_containers", changes=False),
    "ContainerStatus": CallSpec("container_status", changes=False),
    "ListContainerStats": CallSpec("list_container_stats", changes=False),
    "UpdateContainerResources": CallSpec("update_container", changes=True),
    "ReopenContainerLog": CallSpec("reopen_container_log", changes=True),
    "ExecSync": CallSpec("exec_sync", changes=True),
    "Exec": CallSpec("exec", changes=False),
    "Attach": CallSpec("attach", changes=False),
    "PortForward": CallSpec("port_forward", changes=False),
    "ImageStatus": CallSpec("image_status", changes=False),
    "PullImage": CallSpec("pull_image", changes=True),
    "ListImages": CallSpec("list_images", changes=False),
    "RemoveImage": CallSpec("remove_image", changes=True),
    "ImageFsInfo": CallSpec("image_fs_info", changes=False),
    "Kill": CallSpec("kill_task", changes=True),
    "Wait": CallSpec("wait_task", changes=False),
    "Get": CallSpec("get_task", changes=False),
    "DeleteTask": CallSpec("delete_task", changes=True),
    "CreateRecord": CallSpec("create_record", changes=True),
    "ListStatuses": CallSpec("list_ingests", changes=False),
}
"""Every call of `syncpod.cri.client`, by the name of its request without `Request`; the last rows are containerd's
calls."""


def call_of(request: str) -> CallSpec:
    """Return the call whose request message has this name. Raises KeyError for a call without a row."""
    return CALLS[request.removesuffix("Request")]
