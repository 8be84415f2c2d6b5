"""The long form of sandboxes and containers: statuses, verbose information, events."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from protos.cri.v1 import api_pb2
from syncpod.runtime import listing, store
from syncpod.runtime.images.config import OwnImage, read_config
from syncpod.runtime.processes.process_spec import user
from syncpod.runtime.state import Container, Runtime, Sandbox


def sandbox_status(runtime: Runtime, sandbox: Sandbox) -> api_pb2.PodSandboxStatus:
    """Return a sandbox's status. Raises FileNotFoundError if it is being removed."""
    listed = listing.read_sandbox(sandbox.entry)
    _, config = sandbox_record(runtime, sandbox)
    return api_pb2.PodSandboxStatus(
        id=listed.id,
        metadata=listed.metadata,
        state=listed.state,
        created_at=listed.created_at,
        # A stopped sandbox shows no address, although its address is kept until the sandbox is removed.
        network=api_pb2.PodSandboxNetworkStatus(ip=sandbox.address if sandbox.ready else ""),
        linux=api_pb2.LinuxPodSandboxStatus(
            namespaces=api_pb2.Namespace(options=config.linux.security_context.namespace_options)
        ),
        labels=listed.labels,
        annotations=listed.annotations,
        runtime_handler=listed.runtime_handler,
    )


def sandbox_info(runtime: Runtime, sandbox: Sandbox) -> Mapping[str, str]:
    """Return the additional information of a verbose status, in containerd's form."""
    _, config = sandbox_record(runtime, sandbox)
    info = {
        "pid": sandbox.pause.pid if sandbox.pause else 0,
        "processStatus": "running" if sandbox.ready else "deleted",
        "runtimeHandler": "",
        "runtimeType": runtime.host.isolation,
        "address": sandbox.address,
        "config": _json(config),
    }
    return {"info": json.dumps(info)}


def container_status(runtime: Runtime, container: Container) -> api_pb2.ContainerStatus:
    """Return a container's status. Raises FileNotFoundError if it is being removed."""
    facts, config = container_record(runtime, container)
    ended, process = container.ended, container.process
    status = api_pb2.ContainerStatus(
        id=container.id,
        metadata=config.metadata,
        state=container.state,
        created_at=container.created_at,
        image=api_pb2.ImageSpec(image=facts["image"]),
        image_ref=facts["image_ref"],
        image_id=facts["image_id"],
        labels=config.labels,
        annotations=config.annotations,
        mounts=config.mounts,
        log_path=facts["log_path"],
        resources=api_pb2.ContainerResources(linux=config.linux.resources),
        user=api_pb2.ContainerUser(linux=_runs_as(runtime, facts, config)),
        stop_signal=facts.get("stop_signal", config.stop_signal) or api_pb2.SIGNAL_SIGTERM,
    )
    if ended is not None:
        status.started_at = ended.started_at
        status.finished_at = ended.finished_at
        status.exit_code = ended.exit_code
        status.reason = ended.reason
        status.message = ended.message
    elif process is not None:
        status.started_at = process.started_at
    return status


def container_info(runtime: Runtime, container: Container) -> Mapping[str, str]:
    """Return the additional information of a verbose status, in containerd's form."""
    _, config = container_record(runtime, container)
    running = container.process is not None and container.ended is None
    info = {
        "sandboxID": container.sandbox.id,
        "pid": container.process.pid if running and container.process else 0,
        "removing": container.removing,
        "runtimeType": runtime.host.isolation,
        "config": _json(config),
    }
    return {"info": json.dumps(info)}


def event(
    runtime: Runtime, id: str, sandbox: Sandbox, kind: api_pb2.ContainerEventType
) -> api_pb2.ContainerEventResponse:
    """Return an event of the sandbox or one of its containers, with the present statuses of the whole pod."""
    happened = api_pb2.ContainerEventResponse(container_id=id, container_event_type=kind, created_at=time.time_ns())
    try:
        happened.pod_sandbox_status.CopyFrom(sandbox_status(runtime, sandbox))
    except FileNotFoundError:
        return happened  # the sandbox is gone
    for container in tuple(sandbox.containers.values()):
        try:
            happened.containers_statuses.append(container_status(runtime, container))
        except FileNotFoundError:
            continue  # gone, and about to be forgotten
    return happened


def sandbox_record(runtime: Runtime, sandbox: Sandbox) -> tuple[Mapping[str, Any], api_pb2.PodSandboxConfig]:
    """Return the server's facts about a sandbox, and its config. Raises FileNotFoundError."""
    facts, request = _record(runtime.sandbox_directory(sandbox.id))
    return facts, api_pb2.RunPodSandboxRequest.FromString(request).config


def container_record(runtime: Runtime, container: Container) -> tuple[Mapping[str, Any], api_pb2.ContainerConfig]:
    """Return the server's facts about a container, and its config. Raises FileNotFoundError."""
    facts, request = _record(runtime.container_directory(container.id))
    return facts, api_pb2.CreateContainerRequest.FromString(request).config


def _record(directory: Path) -> tuple[Mapping[str, Any], bytes]:
    record = store.recent_record(directory)
    if record is None:
        raise FileNotFoundError(directory)
    return record


def image_of(runtime: Runtime, facts: Mapping[str, Any]) -> OwnImage | None:
    """Return the image whose files a container uses, given the container's facts; None if its image has no files."""
    if "root" not in facts:
        return None
    return OwnImage(runtime.images.root_directory(facts["root"]), read_config(facts["image_config"]))


def _runs_as(runtime: Runtime, facts: Mapping[str, Any], config: api_pb2.ContainerConfig) -> api_pb2.LinuxContainerUser:
    host = runtime.host
    runs_as = user(config.linux.security_context, host, "config.linux.security_context", image_of(runtime, facts))
    if runs_as is None:
        return api_pb2.LinuxContainerUser(uid=host.uid, gid=host.gid, supplemental_groups=host.groups)
    groups = dict.fromkeys((runs_as.gid, *runs_as.groups))
    return api_pb2.LinuxContainerUser(uid=runs_as.uid, gid=runs_as.gid, supplemental_groups=tuple(groups))


def _json(message: Message) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)
