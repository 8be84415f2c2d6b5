"""Hostile requests get a status code and a message with the field's path, and the server survives.

Holds: No request brings the embedded runtime down, and none leads out of its directories.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protos.cri.v1 import api_pb2 as cri
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX

METHODS = {
    f"/runtime.v1.{service.name}/{method.name}": method
    for service in cri.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
ENDLESS = "/runtime.v1.RuntimeService/GetContainerEvents"


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with Embedded.launch("--simulate") as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def calls(server: Embedded) -> AsyncIterator[BareCri]:
    async with BareCri(server.endpoint) as bare:
        yield bare


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sandbox(calls: BareCri) -> AsyncIterator[str]:
    """One sandbox for all requests that need one."""
    config = calls.sandbox_config("stage")
    yield (await calls.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=config))).pod_sandbox_id


async def refused(call: Any) -> tuple[str, str]:
    """Return the code and the message of a refused call."""
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call
    return refusal.value.code().name, refusal.value.details() or ""


def pod(change: Callable[[cri.PodSandboxConfig], Any]) -> cri.PodSandboxConfig:
    config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="n", namespace="default", uid="u"))
    change(config)
    return config


def container(change: Callable[[cri.ContainerConfig], Any]) -> cri.ContainerConfig:
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="c"), image=cri.ImageSpec(image=BUSYBOX))
    change(config)
    return config


SANDBOXES: dict[str, tuple[Callable[[cri.PodSandboxConfig], Any], str]] = {
    "no metadata": (lambda it: it.ClearField("metadata"), "config.metadata: required"),
    "no name": (lambda it: it.metadata.ClearField("name"), "config.metadata.name: required"),
    "no namespace": (lambda it: it.metadata.ClearField("namespace"), "config.metadata.namespace: required"),
    "no uid": (lambda it: it.metadata.ClearField("uid"), "config.metadata.uid: required"),
    "a name that leads up": (lambda it: setattr(it.metadata, "name", ".."), "config.metadata.name: must be a plain"),
    "a name with a slash": (lambda it: setattr(it.metadata, "name", "a/b"), "config.metadata.name: must be a plain"),
    "a name with a NUL": (lambda it: setattr(it.metadata, "name", "a\0"), "config.metadata.name: must be a plain"),
    "a uid with a newline": (lambda it: setattr(it.metadata, "uid", "a\nb"), "config.metadata.uid: must be a plain"),
    "a huge name": (
        lambda it: setattr(it.metadata, "name", "x" * 1_000_000),
        "config.metadata.name: must not be longer",
    ),
    "a log directory that leads up": (
        lambda it: setattr(it, "log_directory", "/var/log/../../etc"),
        "config.log_directory: must not lead out",
    ),
    "a relative log directory": (
        lambda it: setattr(it, "log_directory", "logs"),
        "config.log_directory: must be an abs",
    ),
    "a log directory with a NUL": (
        lambda it: setattr(it, "log_directory", "/a\0"),
        "config.log_directory: must not hold",
    ),
    "a host name that is none": (lambda it: setattr(it, "hostname", "a b"), "config.hostname: must be a host name"),
    "a cgroup that leads up": (
        lambda it: setattr(it.linux, "cgroup_parent", "/../.."),
        "config.linux.cgroup_parent: must be a path",
    ),
    "a port that is none": (
        lambda it: it.port_mappings.append(cri.PortMapping(container_port=70000)),
        "config.port_mappings[0].container_port: must be a port",
    ),
    "annotations without end": (
        lambda it: it.annotations.update({str(n): "x" * 1000 for n in range(300)}),
        "config.annotations: are ",
    ),
    "a huge label": (lambda it: it.labels.update({"l": "x" * 10_000}), 'config.labels["l"]: must not be longer'),
    "a resolv.conf line of its own": (
        lambda it: it.dns_config.servers.append("1.1.1.1\noptions x"),
        "config.dns_config.servers[0]: must be one word",
    ),
    "Windows": (lambda it: it.windows.SetInParent(), "config.windows: this is Linux"),
    "a script that cannot be obeyed": (
        lambda it: it.annotations.update({"simulate.syncpod.dev/c": "["}),
        "metadata.annotations[simulate.syncpod.dev/c]",
    ),
}

CONTAINERS: dict[str, tuple[Callable[[cri.ContainerConfig], Any], str]] = {
    "no metadata": (lambda it: it.ClearField("metadata"), "config.metadata: required"),
    "no name": (lambda it: it.metadata.ClearField("name"), "config.metadata.name: required"),
    "a name that leads up": (lambda it: setattr(it.metadata, "name", "../x"), "config.metadata.name: must be a plain"),
    "no image": (lambda it: it.ClearField("image"), "config.image.image: required"),
    "a log that leads up": (
        lambda it: setattr(it, "log_path", "../../etc/passwd"),
        "config.log_path: must name a file",
    ),
    "a log that leads up later": (lambda it: setattr(it, "log_path", "a/../../b"), "config.log_path: must name a file"),
    "an absolute log": (lambda it: setattr(it, "log_path", "/etc/passwd"), "config.log_path: must be a path relative"),
    "a log that is a directory": (lambda it: setattr(it, "log_path", "."), "config.log_path: must name a file"),
    "a log with a NUL": (lambda it: setattr(it, "log_path", "a\0b"), "config.log_path: must not hold a NUL"),
    "a log with a huge name": (lambda it: setattr(it, "log_path", "a" * 300), "config.log_path: no part of it"),
    "a command with a NUL": (lambda it: it.command.append("a\0"), "config.command[0]: must not hold a NUL"),
    "a huge argument": (lambda it: it.args.extend(["a", "x" * 200_000]), "config.args[1]: must not be longer than"),
    "arguments without end": (lambda it: it.args.extend(["x" * 1000] * 3000), "config: command, args and envs are "),
    "a variable without a name": (lambda it: it.envs.add(key="", value=b"x"), "config.envs[0].key: must be a name"),
    "a variable with = in its name": (lambda it: it.envs.add(key="a=b"), "config.envs[0].key: must be a name"),
    "a variable with a NUL": (
        lambda it: it.envs.add(key="a", value=b"\0"),
        "config.envs[0].value: must not hold a NUL",
    ),
    "a mount over the root": (
        lambda it: it.mounts.add(container_path="/", host_path="/tmp"),
        "config.mounts[0].container_path: must not be the root",
    ),
    "a mount that leads up": (
        lambda it: it.mounts.add(container_path="/a/../../b", host_path="/tmp"),
        "config.mounts[0].container_path: must not lead out",
    ),
    "a mount of nothing": (lambda it: it.mounts.add(container_path="/a"), "config.mounts[0].host_path: must be an abs"),
    "mounts without end": (
        lambda it: it.mounts.extend([cri.Mount(container_path="/a", host_path="/tmp")] * 5000),
        "config.mounts: at most 1000",
    ),
    "a user below zero": (
        lambda it: setattr(it.linux.security_context.run_as_user, "value", -1),
        "config.linux.security_context.run_as_user: must be an id",
    ),
    "a group without a user": (
        lambda it: setattr(it.linux.security_context.run_as_group, "value", 1),
        "config.linux.security_context.run_as_group: needs run_as_user",
    ),
    "a capability that is none": (
        lambda it: it.linux.security_context.capabilities.add_capabilities.append("FLY"),
        'config.linux.security_context.capabilities.add_capabilities[0]: there is no capability "FLY"',
    ),
    "more privilege than its sandbox": (
        lambda it: setattr(it.linux.security_context, "privileged", True),
        "config.linux.security_context.privileged: no privileged container",
    ),
    "memory below zero": (
        lambda it: setattr(it.linux.resources, "memory_limit_in_bytes", -5),
        "config.linux.resources.memory_limit_in_bytes: must be a number of bytes, or -1 for no limit",
    ),
    "an OOM score that is none": (
        lambda it: setattr(it.linux.resources, "oom_score_adj", 5000),
        "config.linux.resources.oom_score_adj: must be from -1000 to 1000",
    ),
    "a file outside its cgroup": (
        lambda it: it.linux.resources.unified.update({"../../x.y": "1"}),
        'config.linux.resources.unified: "../../x.y" is not a file',
    ),
}


@pytest.mark.parametrize("what", SANDBOXES)
async def test_an_invalid_sandbox_config_is_refused_by_path(calls: BareCri, what: str) -> None:
    change, sentence = SANDBOXES[what]
    code, said = await refused(calls.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=pod(change))))
    assert (code, said[: len(sentence)]) == ("INVALID_ARGUMENT", sentence)
    assert "\n" not in said


@pytest.mark.parametrize("what", CONTAINERS)
async def test_an_invalid_container_config_is_refused_by_path(calls: BareCri, sandbox: str, what: str) -> None:
    change, sentence = CONTAINERS[what]
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container(change))
    code, said = await refused(calls.runtime.CreateContainer(request))
    assert (code, said[: len(sentence)]) == ("INVALID_ARGUMENT", sentence)


async def test_other_invalid_requests_are_refused(calls: BareCri, sandbox: str) -> None:
    runtime, images = calls.runtime, calls.images
    other = pod(lambda it: setattr(it.metadata, "name", "other"))
    config = container(lambda it: None)
    wrong: list[tuple[Any, str]] = [
        (runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=other, runtime_handler="kata")), "runtime_handler: no "),
        (runtime.CreateContainer(cri.CreateContainerRequest(pod_sandbox_id=sandbox)), "config: required"),
        (
            runtime.CreateContainer(
                cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config, sandbox_config=other)
            ),
            "sandbox_config.metadata: is not that of sandbox",
        ),
        (runtime.StopPodSandbox(cri.StopPodSandboxRequest()), "pod_sandbox_id: required"),
        (runtime.RemovePodSandbox(cri.RemovePodSandboxRequest()), "pod_sandbox_id: required"),
        (runtime.PodSandboxStatus(cri.PodSandboxStatusRequest()), "pod_sandbox_id: required"),
        (runtime.StopContainer(cri.StopContainerRequest()), "container_id: required"),
        (runtime.StopContainer(cri.StopContainerRequest(container_id="0", timeout=-1)), "timeout: must not be neg"),
        (runtime.RemoveContainer(cri.RemoveContainerRequest()), "container_id: required"),
        (runtime.ContainerStatus(cri.ContainerStatusRequest()), "container_id: required"),
        (
            runtime.PortForward(cri.PortForwardRequest(pod_sandbox_id=sandbox, port=[80, 0])),
            "port[1]: must be a port",
        ),
        (
            runtime.ListContainers(
                cri.ListContainersRequest(
                    filter=cri.ContainerFilter(state=cri.ContainerStateValue(state=cast(cri.ContainerState, 9)))
                )
            ),
            "filter.state.state: there is no state 9",
        ),
        (images.PullImage(cri.PullImageRequest()), "image.image: required"),
        (
            images.PullImage(cri.PullImageRequest(image=cri.ImageSpec(image="A B"))),
            'image.image: failed to parse image reference "A B": invalid reference format',
        ),
        (images.ImageStatus(cri.ImageStatusRequest()), "image.image: required"),
    ]
    for call, sentence in wrong:
        code, said = await refused(call)
        assert (code, said[: len(sentence)]) == ("INVALID_ARGUMENT", sentence)


@pytest.mark.parametrize("id", ["f" * 64, "nothing", "../../etc", "\0", "x" * 100_000, "ü"])
async def test_calls_for_missing_ids_fail_with_not_found(calls: BareCri, id: str) -> None:
    runtime = calls.runtime
    for call in (
        runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=id)),
        runtime.ContainerStatus(cri.ContainerStatusRequest(container_id=id)),
        runtime.StartContainer(cri.StartContainerRequest(container_id=id)),
        runtime.ExecSync(cri.ExecSyncRequest(container_id=id, cmd=["true"])),
        runtime.ContainerStats(cri.ContainerStatsRequest(container_id=id)),
        runtime.CreateContainer(cri.CreateContainerRequest(pod_sandbox_id=id, config=container(lambda it: None))),
    ):
        assert (await refused(call))[0] == "NOT_FOUND"


async def test_a_message_over_16_mib_is_refused(calls: BareCri) -> None:
    huge = pod(lambda it: it.annotations.update({str(n): "x" * 1_000_000 for n in range(17)}))
    assert (await refused(calls.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=huge))))[
        0
    ] == "RESOURCE_EXHAUSTED"


UNSERVED = ("CheckpointContainer", "CheckpointPod", "RestorePod", "ListMetricDescriptors", "ListPodSandboxMetrics")


@pytest.mark.parametrize("name", UNSERVED)
async def test_an_unimplemented_call_says_so(calls: BareCri, name: str) -> None:
    request = GetMessageClass(METHODS[f"/runtime.v1.RuntimeService/{name}"].input_type)()
    code, said = await refused(getattr(calls.runtime, name)(request))
    assert (code, said) == ("UNIMPLEMENTED", f"{name}: not served by the embedded runtime")


def messages(descriptor: Any, depth: int = 0) -> st.SearchStrategy[Message]:
    """Draw a message of that type: every field may be set, to any value."""
    fields = {
        field.name: _values(field, depth) for field in descriptor.fields if not (field.message_type and depth > 3)
    }
    kind = GetMessageClass(descriptor)
    return st.fixed_dictionaries({}, optional=fields).map(lambda given: kind(**given))


TEXT = st.one_of(
    st.text(max_size=30), st.sampled_from(["", ".", "..", "/", "/a/../b", "a\0", "busybox", "x" * 5000, "0", "e"])
)


def _values(field: Any, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type and field.message_type.GetOptions().map_entry:
        return st.dictionaries(TEXT, TEXT, max_size=3)
    if field.message_type:
        one: st.SearchStrategy[Any] = st.deferred(lambda: messages(field.message_type, depth + 1))
    elif field.enum_type:
        one = st.integers(-5, 100)
    elif field.cpp_type == field.CPPTYPE_STRING:
        one = TEXT if field.type == field.TYPE_STRING else st.binary(max_size=30)
    elif field.cpp_type == field.CPPTYPE_BOOL:
        one = st.booleans()
    elif field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        one = st.floats()
    else:
        unsigned = field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64)
        bits = 32 if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_INT32) else 64
        low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        one = st.one_of(st.integers(-2 if not unsigned else 0, 3), st.integers(low, high))
    return st.lists(one, max_size=2) if field.is_repeated else one


@pytest.fixture(scope="module")
def channel(server: Embedded) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as open_channel:
        yield open_channel


def outcome(channel: grpc.Channel, name: str, request: bytes) -> tuple[str, str]:
    """Make a call with these bytes; return its code and message."""
    kind = channel.unary_stream if METHODS[name].server_streaming else channel.unary_unary
    call = kind(name, request_serializer=bytes, response_deserializer=bytes)
    try:
        answer = call(request, timeout=10)
        if METHODS[name].server_streaming:
            list(answer)
    except grpc.RpcError as error:
        assert isinstance(error, grpc.Call)
        return error.code().name, error.details() or ""
    return "OK", ""


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_message_causes_an_internal_error(channel: grpc.Channel, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in METHODS if name != ENDLESS]))
    request = data.draw(messages(METHODS[name].input_type))
    code, said = outcome(channel, name, request.SerializeToString())
    assert code not in ("INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_EXCEEDED"), said
    assert len(said) <= 1024


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from([name for name in METHODS if name != ENDLESS]), request=st.binary(max_size=60))
def test_undecodable_bytes_are_refused(channel: grpc.Channel, name: str, request: bytes) -> None:
    code, said = outcome(channel, name, request)
    assert code in ("OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"), said


def test_after_all_hostile_requests_the_server_still_serves_without_tracebacks(server: Embedded) -> None:
    assert re.search("Traceback|Error", server.log.read_text()) is None
    assert server.version
