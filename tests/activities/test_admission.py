"""Admission of pods, and the release of their resources.

Holds: An admitted pod is never rejected, and its resources stay reserved until it has ended.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from typing import Any

import pytest

from activities.foresee_admission import foresee_admission
from activities.node.ledger import Ledger
from syncpod.lifecycle.actions import StepName
from syncpod.messages.queries import ComesBefore
from syncpod.messages.steps import Fault, KillPod, Outcome, StepResult
from syncpod.node.directories import remove_pod_files
from syncpod.node.pod_records import read_pod_record
from syncpod.pod.host_ports import host_ports
from syncpod.translation.sysctls import allowed_sysctls
from tests.activities.bench import Bench, PodOnBench, container, fault_of


@pytest.fixture
def two_cores(bench: Bench) -> Bench:
    """A node with two free cores."""
    have(bench, cpu=2000)
    return bench


def have(bench: Bench, **capacity: int) -> None:
    """Set the node's capacity, with plenty of other resources. Only its pods are limited, in a cgroup of their own."""
    parent = f"{bench.runtime.cgroup_parent}/of-this-size"
    bench.node.context = replace(bench.node.context, capacity=capacity, cgroup_parent=parent)


def asking(bench: Bench, cpu: str, **spec: Any) -> PodOnBench:
    """A pod that requests this much CPU."""
    return bench.pod(container(resources={"requests": {"cpu": cpu}}), **spec)


async def rejection_of(pod: PodOnBench) -> tuple[str, str]:
    """Reason and message with which the node rejects a pod."""
    fault, error, detail = await fault_of(pod.create_sandbox())
    assert fault == Fault.POD_REJECTED
    assert detail.rejection is not None
    assert error.message == f"{detail.rejection.reason}: {detail.rejection.message}"
    assert (await pod.view()).sandboxes == ()
    return detail.rejection.reason, detail.rejection.message


async def kill_finished_pod(pod: PodOnBench) -> StepResult:
    """Run the kill step of a finished pod."""
    request = KillPod(ref=pod.ref, fence=pod.next_fence(), grace_seconds=0, message="finished", final=True)
    return await pod.step(StepName.KILL_POD, request).result()


async def test_a_pod_is_rejected_if_the_node_has_no_room_for_it(two_cores: Bench) -> None:
    await asking(two_cores, "1500m").create_sandbox()
    late = asking(two_cores, "600m")
    assert await rejection_of(late) == (
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000",
    )
    await asking(two_cores, "500m").create_sandbox()  # being turned away takes nothing


async def test_a_pod_is_rejected_if_its_node_affinity_does_not_match(two_cores: Bench) -> None:
    """Row 6: NodeAffinity comes after missing resources and before host ports."""
    two_cores.node.context = replace(two_cores.node.context, labels={"disk": "hdd"})
    wrong = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    assert await rejection_of(asking(two_cores, "1", nodeSelector={"disk": "ssd"})) == ("NodeAffinity", wrong)
    assert (await rejection_of(asking(two_cores, "3", nodeSelector={"disk": "ssd"})))[0] == "OutOfcpu"
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": ["node-a"]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    elsewhere = asking(two_cores, "1", affinity={"nodeAffinity": required})
    assert await rejection_of(elsewhere) == ("NodeAffinity", wrong)
    await asking(two_cores, "2", nodeSelector={"disk": "hdd"}).create_sandbox()


async def test_an_admission_forecast_reserves_nothing(two_cores: Bench) -> None:
    await asking(two_cores, "1500m").create_sandbox()
    late = asking(two_cores, "600m")
    why = "OutOfcpu: Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"
    assert await foresee_admission(two_cores.node, late.pod) == [why]
    assert await foresee_admission(two_cores.node, asking(two_cores, "500m").pod) == []
    assert await foresee_admission(two_cores.node, asking(two_cores, "500m").pod) == []
    kata = asking(two_cores, "100m", runtimeClassName="kata").pod
    (why,) = await foresee_admission(two_cores.node, kata)
    assert why.startswith("spec.runtimeClassName: the runtime has no handler 'kata'")


async def test_pods_that_come_before_one_are_counted_with_what_is_taken(two_cores: Bench) -> None:
    """The third of three pods that fit one by one."""
    before = [ComesBefore(amounts={"cpu": 1000})] * 2
    third = asking(two_cores, "500m").pod
    assert await foresee_admission(two_cores.node, third, before[:1]) == []
    assert await foresee_admission(two_cores.node, third, before) == [
        "OutOfcpu: Node didn't have enough resource: cpu, requested: 500, used: 2000, capacity: 2000 "
        "(together with the pods before it)"
    ]
    ports = [{"containerPort": 64322, "hostPort": 64322}]
    taken = ComesBefore(ports=host_ports(two_cores.pod(container(ports=ports)).pod))
    (why,) = await foresee_admission(two_cores.node, two_cores.pod(container(ports=ports)).pod, [taken])
    assert why.startswith("NodePorts: ") and why.endswith(" (together with the pods before it)")
    assert await foresee_admission(two_cores.node, asking(two_cores, "2").pod) == []  # nothing of it is kept


async def test_an_admitted_pod_stays_admitted_whatever_the_node_becomes(two_cores: Bench) -> None:
    pod = asking(two_cores, "1500m")
    await pod.create_sandbox()
    have(two_cores, cpu=1)
    await pod.kill(grace=0)
    await pod.create_sandbox(attempt=1)

    two_cores.node.ledger = Ledger(two_cores.node.context)  # as after a restart of the worker
    await pod.kill(grace=0)
    await pod.create_sandbox(attempt=2)
    assert (await rejection_of(asking(two_cores, "1")))[1].endswith("requested: 1000, used: 1500, capacity: 1")


async def test_an_adopted_pod_stays_admitted_without_its_record(two_cores: Bench) -> None:
    """With the record, the requested node labels may be lost; running containers are not ended because of that."""
    pod = asking(two_cores, "1500m")
    await pod.create_sandbox()
    shutil.rmtree(pod.directory)
    two_cores.node.ledger = Ledger(two_cores.node.context)
    have(two_cores, cpu=1)
    adoption = pod.sandbox_request().model_copy(update={"adopt": True})
    assert (await pod.step(StepName.CREATE_SANDBOX, adoption).result()).outcome == Outcome.ADOPTED
    record = read_pod_record(two_cores.node.context, pod.ref.uid)
    assert record is not None and record.admitted
    unmade = asking(two_cores, "1500m")
    adoption = unmade.sandbox_request().model_copy(update={"adopt": True})
    fault, _, _ = await fault_of(unmade.step(StepName.CREATE_SANDBOX, adoption).result())
    assert fault == Fault.POD_REJECTED


async def test_a_finished_pod_takes_no_resources(two_cores: Bench) -> None:
    pod = asking(two_cores, "2")
    await pod.create_sandbox()
    await pod.kill(grace=0)  # will be created again
    await rejection_of(asking(two_cores, "1"))

    await kill_finished_pod(pod)
    await kill_finished_pod(pod)
    record = read_pod_record(two_cores.node.context, pod.uid)
    assert record is not None and record.finished
    two_cores.node.ledger = Ledger(two_cores.node.context)
    await asking(two_cores, "2").create_sandbox()


async def test_a_removed_pod_takes_no_resources(two_cores: Bench) -> None:
    pod = asking(two_cores, "2")
    await pod.create_sandbox()
    await pod.kill(grace=0)
    for _ in range(2):
        assert await pod.remove()
    await asking(two_cores, "2").create_sandbox()


async def test_a_pod_removed_by_raw_calls_takes_no_resources(two_cores: Bench) -> None:
    """`syncpod prune` ends by bare calls a pod whose name is another's now, and its record goes with its files."""
    gone = asking(two_cores, "1500m")
    await gone.create_sandbox()
    meta = gone.pod.metadata
    await two_cores.cri.stop_pod_sandbox(gone.sandbox_id)
    await two_cores.cri.remove_pod_sandbox(gone.sandbox_id)
    remove_pod_files(two_cores.node.context, namespace=meta.namespace, name=meta.name, uid=meta.uid)
    await asking(two_cores, "600m").create_sandbox()
    assert (await rejection_of(asking(two_cores, "1500m")))[1].endswith("requested: 1500, used: 600, capacity: 2000")


async def test_the_previous_incarnation_of_a_pod_gives_up_its_resources_to_the_next(two_cores: Bench) -> None:
    first = asking(two_cores, "2", name="static", uid="static-1", incarnation="life-1")
    await first.create_sandbox()
    second = asking(two_cores, "1", name="static", uid="static-1", incarnation="life-2")
    await second.create_sandbox(attempt=1)
    await kill_finished_pod(first)  # comes late, and frees nothing of its successor
    assert (await rejection_of(asking(two_cores, "1500m")))[0] == "OutOfcpu"
    await asking(two_cores, "1").create_sandbox()


async def test_a_pod_without_a_workflow_gives_up_its_resources_to_the_next_of_its_name(two_cores: Bench) -> None:
    first, second = asking(two_cores, "2"), asking(two_cores, "2")
    await first.create_sandbox()
    metadata = second.pod.metadata.model_copy(update={"name": first.pod.metadata.name})
    second.pod = second.pod.model_copy(update={"metadata": metadata})
    await second.create_sandbox()
    assert (await first.view()).sandboxes == ()


async def test_a_node_whose_machine_shuts_down_rejects_new_pods(bench: Bench) -> None:
    early, late = bench.pod(), bench.pod()
    await early.create_sandbox()
    bench.agent.shutdown = why = ("NodeShutdown", "Pod was rejected as the node is shutting down.")
    assert await foresee_admission(bench.node, late.pod) == [": ".join(why)]
    assert await rejection_of(late) == why
    await early.kill(grace=0)
    await early.create_sandbox(attempt=1)
    bench.agent.shutdown = None
    assert await foresee_admission(bench.node, late.pod) == []
    await late.create_sandbox(attempt=1)


async def test_a_node_under_pressure_rejects_new_pods_but_not_admitted_ones(bench: Bench) -> None:
    """Row 118: Admit is the first handler, and is called once in a pod's life."""
    early, late = bench.pod(), bench.pod()
    await early.create_sandbox()
    bench.agent.pressure = "The node had condition: [DiskPressure]. "
    assert await rejection_of(late) == ("Evicted", "The node had condition: [DiskPressure]. ")
    await early.kill(grace=0)
    await early.create_sandbox(attempt=1)


async def test_a_pod_is_rejected_if_its_host_port_is_taken(bench: Bench) -> None:
    ports = [{"containerPort": 18080}]
    first = bench.pod(container(ports=ports))
    await first.create_sandbox()
    second = bench.pod(container(ports=[{"containerPort": 80, "hostPort": 18080}]), hostNetwork=False)
    assert await rejection_of(second) == (
        "NodePorts",
        "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
    )
    await kill_finished_pod(first)
    await bench.pod(container(ports=ports)).create_sandbox()


REJECTED: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "an unsafe sysctl": (
        {"hostNetwork": False, "securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        ("SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted'),
    ),
    "AppArmor, which does not exist": (
        {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
        ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
    ),
}


@pytest.mark.parametrize(("spec", "expected"), REJECTED.values(), ids=REJECTED)
async def test_a_pod_with_unsupported_settings_is_rejected(
    bench: Bench, spec: dict[str, Any], expected: tuple[str, str]
) -> None:
    bench.node.context = replace(bench.node.context, host=replace(bench.node.context.host, apparmor=False))
    assert await rejection_of(bench.pod(**spec)) == expected


async def test_an_allowed_unsafe_sysctl_is_set(bench: Bench) -> None:
    bench.node.sysctls = allowed_sysctls("6.1", ["kernel.msg*"])
    sysctls = [{"name": "kernel.msgmax", "value": "4096"}]
    pod = bench.pod(container(), hostNetwork=False, securityContext={"sysctls": sysctls})
    await pod.create_sandbox()
    started = await pod.start()
    said = await bench.cri.exec_sync(started.id, ("cat", "/proc/sys/kernel/msgmax"), timeout_seconds=20)
    assert said.stdout == b"4096\n"


async def test_a_pod_for_another_operating_system_is_rejected(bench: Bench) -> None:
    pod = bench.pod()
    labelled = pod.pod.metadata.model_copy(update={"labels": {"kubernetes.io/os": "windows"}})
    pod.pod = pod.pod.model_copy(update={"metadata": labelled})
    assert await rejection_of(pod) == (
        "PodOSSelectorNodeLabelDoesNotMatch",
        "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
    )


async def test_an_unsupported_supplemental_groups_policy_is_rejected_with_the_kubelets_message(bench: Bench) -> None:
    pod = bench.pod(securityContext={"supplementalGroupsPolicy": "Strict"})
    if (await bench.cri.status()).supplemental_groups_policy:
        await pod.create_sandbox()
        return
    assert await rejection_of(pod) == (
        "SupplementalGroupsPolicyNotSupported",
        "SupplementalGroupsPolicy=Strict is not supported in this node",
    )


async def test_concurrent_admissions_never_exceed_the_capacity(bench: Bench) -> None:
    have(bench, pods=3)
    outcomes = await asyncio.gather(*(bench.pod().create_sandbox() for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(each, StepResult) for each in outcomes) == 3
