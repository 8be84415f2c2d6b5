"""An invalid answer of the runtime affects only its own pod. Tested over a real socket.

Holds: No answer of a runtime is believed unchecked.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from protos.cri.v1 import api_pb2 as cri
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError, TransportFault
from syncpod.node.reader import PodReader, Relist
from syncpod.translation import names
from tests.cri.test_client_calls import AnyCri, serving

LABELS = {
    names.NODE_LABEL: "n",
    names.POD_UID_LABEL: "u1",
    names.POD_NAME_LABEL: "web",
    names.POD_NAMESPACE_LABEL: "default",
    names.CONTAINER_NAME_LABEL: "main",
}
_Entry = TypeVar("_Entry", cri.PodSandbox, cri.Container)
_Status = TypeVar("_Status", cri.PodSandboxStatusResponse, cri.ContainerStatusResponse)
DEEP = {"info": "[" * 200_000}


def sandbox(id: str = "s1", name: str = "web", namespace: str = "default") -> cri.PodSandbox:
    metadata = cri.PodSandboxMetadata(name=name, namespace=namespace, uid="u1")
    return cri.PodSandbox(id=id, metadata=metadata, labels=LABELS)


def sandboxes(*more: cri.PodSandbox) -> cri.ListPodSandboxResponse:
    return cri.ListPodSandboxResponse(items=[sandbox(), *more])


def container(id: str = "c1", name: str = "main", **fields: Any) -> cri.Container:
    metadata = cri.ContainerMetadata(name=name)
    state = cri.CONTAINER_RUNNING
    return cri.Container(id=id, pod_sandbox_id="s1", metadata=metadata, labels=LABELS, state=state, **fields)


def containers(*more: cri.Container) -> cri.ListContainersResponse:
    return cri.ListContainersResponse(containers=[container(), *more])


def sandbox_status(
    id: str = "s1", attempt: int = 0, ip: str = "", info: Mapping[str, str] | None = None
) -> cri.PodSandboxStatusResponse:
    metadata = cri.PodSandboxMetadata(name="web", namespace="default", uid="u1", attempt=attempt)
    network = cri.PodSandboxNetworkStatus(ip=ip, additional_ips=[cri.PodIP(ip=ip)])
    return cri.PodSandboxStatusResponse(
        status=cri.PodSandboxStatus(id=id, metadata=metadata, labels=LABELS, network=network), info=info or {}
    )


def status(
    id: str = "c1", attempt: int = 0, info: Mapping[str, str] | None = None, **fields: Any
) -> cri.ContainerStatusResponse:
    metadata = cri.ContainerMetadata(name="main", attempt=attempt)
    fields.setdefault("state", cri.CONTAINER_RUNNING)
    return cri.ContainerStatusResponse(
        status=cri.ContainerStatus(id=id, metadata=metadata, labels=LABELS, **fields), info=info or {}
    )


def of_another(answer: _Status) -> _Status:
    """The same status, with another pod's name."""
    answer.status.labels[names.POD_UID_LABEL] = "u2"
    return answer


def answering(answers: Mapping[str, Message | bytes]) -> AnyCri:
    """A runtime with one pod with one container, which gives these answers."""
    handler = AnyCri()
    honest = {
        "ListPodSandbox": sandboxes(),
        "ListContainers": containers(),
        "PodSandboxStatus": sandbox_status(),
        "ContainerStatus": status(),
    }
    for name, answer in {**honest, **answers}.items():
        handler.answers[name] = answer if isinstance(answer, bytes) else answer.SerializeToString()
    return handler


async def relisted(**answers: Message | bytes) -> Relist:
    """The result of the node's reader for such answers."""
    handler = answering(answers)
    async with serving(handler) as endpoint, CriClient(endpoint) as client:
        return await PodReader(client, boot=1, owner="n", pod_timeout_seconds=60).read_all()


@pytest.mark.parametrize(
    "answer",
    [b"\xff\xff", containers(container("four")).SerializeToString().replace(b"four", b"\xff\xfe\xfd\xfc")],
    ids=["no-message", "no-utf-8"],
)
async def test_an_undecodable_list_is_a_fault_of_the_runtime(answer: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TransportFault, match="list_containers: the runtime's answer is not a CRI message"):
        await relisted(ListContainers=answer)
    assert not [record for record in caplog.records if record.exc_info], "a traceback each second"


async def test_a_list_of_more_than_16_mib_is_refused() -> None:
    """The kubelet's limit: a hundred thousand containers."""
    with pytest.raises(CriError, match=r"list_containers: .*larger than max"):
        await relisted(ListContainers=containers(container("c2", image_ref="x" * (17 << 20))))


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"ContainerStatus": b"\xff\xff"}, "not a CRI message"),
        ({"PodSandboxStatus": b"\xff\xff"}, "not a CRI message"),
        ({"ContainerStatus": status("other")}, "the runtime answered about 'other', not about c1"),
        ({"ContainerStatus": of_another(status())}, "lists c1 as 'main', number 0, in sandbox 's1' of pod u1, and its"),
        ({"PodSandboxStatus": of_another(sandbox_status())}, "lists s1 as 'web', number 0, of pod u1, and its status"),
        ({"ContainerStatus": status(attempt=1)}, "its status is of 'main', number 1, of pod 'u1'"),
        (
            {"ListContainers": containers(container(image_ref="x"))},
            "container c1: it is listed twice, and not as the same",
        ),
        ({"PodSandboxStatus": sandbox_status("")}, "the runtime answered about '', not about s1"),
        ({"ContainerStatus": status(attempt=2**32 - 1)}, "is not valid: restart_count: "),
        ({"PodSandboxStatus": sandbox_status(attempt=2**32 - 1)}, "its status is of 'web', number 4294967295"),
        (
            {"ListContainers": containers(*(container(f"x{number}") for number in range(1_000)))},
            "lists 1002 sandboxes and containers of pod u1, and at most 1000 are read",
        ),
    ],
)
async def test_an_invalid_answer_about_a_pod_fails_only_the_reading_of_that_pod(
    answers: Mapping[str, Message | bytes], said: str
) -> None:
    relist = await relisted(**answers)
    assert (list(relist.failures), dict(relist.pods)) == (["u1"], {})
    assert said in str(relist.failures["u1"])


def theirs(entry: _Entry) -> _Entry:
    """The same entry, as if it were another pod's."""
    entry.labels[names.POD_UID_LABEL] = "u2"
    return entry


async def test_what_is_listed_twice_or_was_not_asked_for_changes_nothing() -> None:
    """A pod with two ready sandboxes is ended, and other nodes' sandboxes are no pods of this node."""
    alien = container("alien")
    del alien.labels[names.NODE_LABEL]
    relist = await relisted(ListPodSandbox=sandboxes(sandbox()), ListContainers=containers(container(), alien))
    pod = relist.pods["u1"]
    assert ([each.id for each in pod.sandboxes], [each.id for each in pod.containers]) == (["s1"], ["c1"])


async def test_a_container_that_a_list_gives_to_another_pod_is_neither_ones_to_end() -> None:
    """The pod that it was given to would end it, as the older of two, and its own pod would start another one."""
    handler = answering({})
    async with serving(handler) as endpoint, CriClient(endpoint) as client:
        reader = PodReader(client, boot=1, owner="n", pod_timeout_seconds=60)
        assert set((await reader.read_all()).pods) == {"u1"}
        stolen = cri.ListContainersResponse(containers=[theirs(container())])
        handler.answers["ListContainers"] = stolen.SerializeToString()
        relist = await reader.read_all()
        assert not relist.pods
        assert "c1: it was listed as 'main', number 0, in sandbox 's1' of pod u1 before" in str(relist.failures["u1"])
        with pytest.raises(TransportFault, match="the runtime answered with c1, which it has listed as 'main'"):
            reader.require_own("create_container", "c1", "u2")
        handler.answers["ListContainers"] = containers().SerializeToString()
        assert set((await reader.read_all()).pods) == {"u1"}


@pytest.mark.parametrize("list_", ["ListContainers", "ListPodSandbox"])
async def test_what_runs_is_gone_only_when_the_runtime_says_so_when_asked(list_: str) -> None:
    """Another one would take its place, and both would run."""
    handler = answering({"ListPodSandbox": sandboxes()})
    handler.answers["PodSandboxStatus"] = sandbox_status(ip="10.0.0.1").SerializeToString()
    async with serving(handler) as endpoint, CriClient(endpoint) as client:
        reader = PodReader(client, boot=1, owner="n", pod_timeout_seconds=60)
        assert set((await reader.read_all()).pods) == {"u1"}
        handler.answers[list_] = b""
        said = (
            "the runtime does not list .*, of pod u1, although it answers about it|in sandbox 's1' of pod u1, although"
        )
        with pytest.raises(TransportFault, match=said):
            await reader.read("u1")
        assert set((await reader.read_all()).failures) == {"u1"}
        handler.answers["ListContainers"] = handler.answers["ListPodSandbox"] = b""
        handler.refusals |= dict.fromkeys(("ContainerStatus", "PodSandboxStatus"), grpc.StatusCode.NOT_FOUND)
        relist = await reader.read_all()
        assert (dict(relist.pods), dict(relist.failures)) == ({}, {})


@pytest.mark.parametrize(
    "answers",
    [
        {"ListContainers": containers(container("../../x"))},
        {"ListContainers": containers(container("x\ny"))},
        {"ListContainers": containers(container("x2", name="../main"))},
        {"ListPodSandbox": sandboxes(sandbox("../s"))},
        {"ListPodSandbox": sandboxes(sandbox("s2", name="n" * 5_000))},
        {"ListPodSandbox": sandboxes(sandbox("s2", namespace="a\x1b[31m"))},
    ],
)
async def test_entries_without_id_or_name_belong_to_no_pod(
    answers: Mapping[str, Message], caplog: pytest.LogCaptureFixture
) -> None:
    relist = await relisted(**answers)
    pod = relist.pods["u1"]
    assert ([each.id for each in pod.sandboxes], [each.id for each in pod.containers]) == (["s1"], ["c1"])
    (said,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "passed over" in said and said.isprintable()


async def test_invalid_texts_numbers_and_addresses_are_sanitised() -> None:
    relist = await relisted(
        PodSandboxStatus=sandbox_status(ip="fe80::1%a\n10.0.0.1 evil", info=DEEP),
        ContainerStatus=status(
            info={"info": '{"pid": 9223372036854775808}'},
            state=cri.CONTAINER_EXITED,
            created_at=2**63 - 1,
            started_at=-(2**63),
            finished_at=2**63 - 1,
            exit_code=-(2**31),
            reason="r\n" * 5_000,
            message="m" * 1_000_000,
            log_path="/var/log/\0x",
            image=cri.ImageSpec(image="i" * 1_000_000),
            image_ref="sha256:\n" + "f" * 1_000_000,
            annotations={names.CONTAINER_HASH_ANNOTATION: "h" * 1_000_000},
        ),
    )
    pod = relist.pods["u1"]
    (known,) = pod.sandboxes
    assert (known.ip, known.additional_ips, known.pid) == ("", (), 0)
    (ended,) = pod.containers
    assert (ended.pid, ended.log_path, ended.started_at, ended.exit_code) == (0, "", None, -(2**31))
    assert len(ended.image) + len(ended.image_ref) + len(ended.hash) < 5_000 and ended.image_ref.isprintable()
    assert len(ended.message) < 20_000 and len(ended.reason) < 2_000 and ended.reason.isprintable()


async def test_a_pod_has_few_addresses_and_a_runtime_few_words() -> None:
    """Both are in each signal and in each step's result, or in the log."""
    many = sandbox_status(ip="10.0.0.1")
    many.status.network.additional_ips.extend(
        cri.PodIP(ip=f"10.1.{number >> 8}.{number & 255}") for number in range(9999)
    )
    many.status.network.additional_ips.insert(0, cri.PodIP(ip="fe80::1%" + "z" * 1_000_000))
    (known,) = (await relisted(PodSandboxStatus=many)).pods["u1"].sandboxes
    assert len(known.additional_ips) < 20 and all(len(each) < 100 for each in known.additional_ips)
    ready = cri.RuntimeCondition(type="RuntimeReady", reason="r\x1b[31m\n" * 1_000, message="m" * 1_000_000)
    answer = cri.StatusResponse(status=cri.RuntimeStatus(conditions=[ready]))
    async with serving(answering({"Status": answer})) as endpoint, CriClient(endpoint) as client:
        said = (await client.status()).runtime_message
    assert said.isprintable() and len(said) < 5_000


async def test_malformed_process_information_gives_no_pid() -> None:
    for info in (DEEP, {"info": '{"pid": true}'}, {"info": f'{{"pid": {"9" * 5_000}}}'}):
        (running,) = (await relisted(ContainerStatus=status(info=info))).pods["u1"].containers
        assert running.pid == 0


async def test_an_invalid_id_is_a_fault_and_the_version_is_cut_to_one_line() -> None:
    handler = AnyCri()
    handler.answers |= {
        "RunPodSandbox": cri.RunPodSandboxResponse(pod_sandbox_id="../x").SerializeToString(),
        "CreateContainer": cri.CreateContainerResponse(container_id="a\nb").SerializeToString(),
        "Version": cri.VersionResponse(runtime_name="x\x1b[2J", runtime_version="1" * 10_000).SerializeToString(),
    }
    async with serving(handler) as endpoint, CriClient(endpoint) as client:
        with pytest.raises(CriError, match=r"answered with '\.\./x', which is not an id"):
            await client.run_pod_sandbox(cri.PodSandboxConfig())
        with pytest.raises(CriError, match=r"answered with 'a\\nb', which is not an id"):
            await client.create_container("s", cri.ContainerConfig(), cri.PodSandboxConfig())
        version = await client.version()
    assert version.name.isprintable() and len(version.version) < 2_000
