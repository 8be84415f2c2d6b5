"""A pod and a node to translate, with results as plain data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from syncpod.cri import ContainerConfig, SandboxConfig
from syncpod.cri.port import ImageStatus
from syncpod.pod import Container, ContainerKind, Pod
from syncpod.pod.defaults import with_defaults
from syncpod.translation.container_config import container_config, container_variables
from syncpod.translation.context import Host, NodeContext, Resolver
from syncpod.translation.env import NO_SOURCES, Sources
from syncpod.translation.mounts import NOTHING
from syncpod.translation.sandbox_config import sandbox_config

HOST = Host(
    addresses=("192.0.2.10", "2001:db8::10"),
    cpus=4,
    memory_bytes=8 << 30,
    hugepage_sizes=("2MB", "1GB"),
    resolver=Resolver(servers=("192.0.2.53",), searches=("example.org",), options=("ndots:2",)),
)
NODE = NodeContext(
    name="node-1",
    state_dir=Path("/var/lib/syncpod"),
    memory_dir=Path("/run/syncpod"),
    log_dir=Path("/var/log/pods"),
    cluster="cluster-1/default",
    host=HOST,
)
IMAGE = ImageStatus(
    id="sha256:0123",
    repo_tags=("docker.io/library/busybox:1",),
    repo_digests=(),
    size=1,
    uid=None,
    username="",
    pinned=False,
)
UID = "11111111-2222-3333-4444-555555555555"


def make_pod(spec: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    """A pod `web` with one container `main`, these fields of spec and metadata, and defaults."""
    document = {
        "metadata": {"name": "web", "namespace": "default", "uid": UID, **metadata},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **(spec or {})},
    }
    return with_defaults(Pod.model_validate(document, extra="forbid"))


def make_container(fields: dict[str, Any], **spec: Any) -> tuple[Pod, Container]:
    """A pod whose container `main` has these fields, and that container."""
    pod = make_pod({"containers": [{"name": "main", "image": "busybox:1", **fields}], **spec})
    return pod, pod.spec.containers[0]


def sandbox(pod: Pod, *, attempt: int = 0, node: NodeContext = NODE) -> SandboxConfig:
    return sandbox_config(pod, attempt=attempt, node=node, incarnation="life-1")


def configured(
    pod: Pod,
    container: Container,
    *,
    kind: ContainerKind = "container",
    restart_count: int = 0,
    image: ImageStatus | None = IMAGE,
    pod_ips: tuple[str, ...] = ("10.4.0.7",),
    node: NodeContext = NODE,
    target_id: str = "",
    sources: Sources = NO_SOURCES,
    sub_paths: Mapping[int, str] = NOTHING,
) -> ContainerConfig:
    variables = container_variables(pod, container, kind=kind, pod_ips=pod_ips, node=node, sources=sources)
    return container_config(
        pod,
        container,
        kind=kind,
        restart_count=restart_count,
        observed_image=image,
        pod_ips=pod_ips,
        node=node,
        incarnation="life-1",
        variables=variables,
        sub_paths=sub_paths,
        target_id=target_id,
    )


def as_data(message: Message) -> Any:
    """The message as JSON data with CRI's own field names; 64-bit integers are strings."""
    return MessageToDict(message, preserving_proto_field_name=True)
