"""create_sandbox makes one sandbox per attempt, however often and from wherever it is called.

Holds: A node runs at most one pod per name.
"""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.between.collection import Collector
from activities.node.pod_record import note_pod
from activities.pods import cgroup
from activities.verbs import create_sandbox
from protos.cri.v1 import api_pb2 as cri
from syncpod.cri.errors import Unavailable
from syncpod.cri.port import RuntimeStatus, SandboxSummary
from syncpod.lifecycle.actions import StepName
from syncpod.messages import KillCause
from syncpod.messages.identity import EndedLife
from syncpod.messages.step_table import Stage
from syncpod.messages.steps import Fault, Outcome
from syncpod.node.directories import prepare_pod
from syncpod.node.pod_cgroups import make_pod_cgroup
from syncpod.node.pod_records import RECORD_NAME, read_pod_record
from syncpod.node.tombstones import tombstone_at, write_tombstone
from syncpod.translation import names
from syncpod.translation.sandbox_config import sandbox_config
from tests.activities.bench import Bench, bench_of, container, fault_of
from tests.activities.test_collection import never_asked
from tests.activities.test_pod_queues import fill
from tests.runtimes.containerd import Containerd


async def test_a_sandbox_is_made_with_its_directories_and_reported_ready(bench: Bench) -> None:
    pod = bench.pod(hostNetwork=False)
    result = await pod.create_sandbox()
    [sandbox] = result.status.sandboxes
    assert (result.outcome, result.id, result.missing_images) == (Outcome.DONE, sandbox.id, ())
    assert (sandbox.ready, sandbox.attempt, sandbox.incarnation) == (True, 0, "life-1")
    assert sandbox.ip
    assert pod.directory.is_dir()
    assert pod.logs.is_dir()
    assert bench.agent.returned == [result.status]
    assert (result.attempt, result.node.name) == (1, "node-a")


async def test_a_repeated_create_adopts_the_sandbox(bench: Bench) -> None:
    """Holds: Every step may run twice."""
    pod = bench.pod()
    first = await pod.create_sandbox()
    again = await pod.create_sandbox()
    assert (again.outcome, again.id) == (Outcome.ADOPTED, first.id)
    assert len(again.status.sandboxes) == 1


async def test_a_retry_waits_for_the_stalled_attempt_and_adopts_its_sandbox(bench: Bench) -> None:
    pod = bench.pod(hostNetwork=False)
    request = pod.sandbox_request()
    with bench.runtime.gates.hold("cni-add") as gate:
        elder = pod.step(StepName.CREATE_SANDBOX, request)
        await gate.reached()
        retry = pod.step(StepName.CREATE_SANDBOX, request, attempt=2)
        await retry.goes_on("waits for its turn")
    made, adopted = await elder.result(), await retry.result()
    assert (made.outcome, adopted.outcome, adopted.attempt) == (Outcome.DONE, Outcome.ADOPTED, 2)
    assert [sandbox.id for sandbox in adopted.status.sandboxes] == [made.id]


async def test_a_sandbox_being_created_by_another_client_is_awaited_and_adopted(bench: Bench) -> None:
    """A worker was replaced while its call still runs: the name is reserved, but nothing is listed."""
    pod = bench.pod(hostNetwork=False)
    config = sandbox_config(pod.pod, attempt=0, node=bench.node.context, incarnation=pod.incarnation)
    with bench.runtime.gates.hold("cni-add") as gate:
        other = asyncio.create_task(bench.cri.run_pod_sandbox(config))
        await gate.reached()
        step = pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())
        await step.goes_on("waits for the runtime to finish sandbox 0: its name is reserved")
    result = await step.result()
    assert (result.outcome, result.id) == (Outcome.ADOPTED, await other)
    assert len(result.status.sandboxes) == 1


async def test_a_sandbox_of_a_dead_client_is_created_again_once_its_name_is_free(bench: Bench) -> None:
    """The call completes and is rolled back: a sandbox that is listed until then cannot be adopted."""
    pod = bench.pod(hostNetwork=False)
    config = sandbox_config(pod.pod, attempt=0, node=bench.node.context, incarnation=pod.incarnation)
    with bench.runtime.gates.hold("cni-add") as gate:
        dying = asyncio.create_task(bench.cri.run_pod_sandbox(config))
        await gate.reached()
        dying.cancel()
        await asyncio.wait({dying})
        step = pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())
        await step.goes_on()
    result = await step.result()
    assert result.outcome == Outcome.DONE
    assert [(each.id, each.ready) for each in result.status.sandboxes] == [(result.id, True)]


async def test_create_sandbox_heartbeats_what_it_waits_for(bench: Bench) -> None:
    pod = bench.pod(hostNetwork=False)
    with bench.runtime.gates.hold("cni-add") as gate:
        step = pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())
        await gate.reached()
        step.heartbeats.clear()
        await step.goes_on()
        assert set(step.heartbeats) == {"makes sandbox 0"}
    await step.result()


async def test_a_dead_sandbox_is_removed_and_its_attempt_counts_as_used(bench: Bench) -> None:
    pod = bench.pod()
    dead = await pod.create_sandbox()
    await bench.cri.stop_pod_sandbox(dead.id)
    await pod.until_dead(dead.id)
    result = await pod.create_sandbox()
    assert (result.outcome, result.status.sandboxes) == (Outcome.SPENT, ())
    next_one = await pod.create_sandbox(attempt=1)
    assert (next_one.outcome, next_one.status.sandboxes[0].attempt) == (Outcome.DONE, 1)


async def test_a_sandbox_of_an_earlier_pod_with_the_same_uid_is_never_adopted(bench: Bench) -> None:
    earlier = bench.pod(incarnation="life-1")
    await earlier.create_sandbox()
    later = bench.pod(uid=earlier.uid, incarnation="life-2")
    later.pod = earlier.pod
    result = await later.create_sandbox()
    assert (result.outcome, [each.id for each in result.status.sandboxes]) == (Outcome.DONE, [result.id])


async def test_containers_of_an_earlier_pods_sandbox_get_their_grace_before_its_removal(bench: Bench) -> None:
    script = "trap 'exit 3' TERM; echo ready; while :; do sleep 600 & wait $!; done"
    polite = container(command=("sh", "-c", script))
    earlier = bench.pod(polite, incarnation="life-1")
    await earlier.create_sandbox()
    await earlier.start()
    await earlier.until_ready()
    later = bench.pod(uid=earlier.uid, incarnation="life-2")
    later.pod = earlier.pod
    assert (await later.create_sandbox()).outcome == Outcome.DONE
    exit_ = bench.agent.ends[0].exit
    assert exit_ is not None
    assert (exit_.exit_code, exit_.killed_by) == (3, KillCause.EARLIER_LIFE)


@pytest.mark.parametrize("lost", ["nothing", "the record", "the directory"])
async def test_another_life_under_the_uid_finds_nothing_of_one_whose_workflow_was_terminated(
    bench: Bench, lost: str
) -> None:
    scratch = [{"name": "scratch", "emptyDir": {}}]
    earlier = bench.pod(volumes=scratch, uid=str(uuid.uuid4()), name="static", incarnation="life-1")
    await earlier.create_sandbox()
    await earlier.start()
    volume = earlier.directory / "volumes" / "kubernetes.io~empty-dir" / "scratch"
    (volume / "file").write_text("of the last life")
    if lost == "the record":
        (earlier.directory / RECORD_NAME).unlink()
    if lost == "the directory":
        shutil.rmtree(earlier.directory)
    later = bench.pod(volumes=scratch, uid=earlier.uid, name="static", incarnation="life-2")
    made = await later.create_sandbox()
    view = await later.view()
    assert (made.outcome, [(each.incarnation, each.attempt) for each in view.sandboxes]) == (
        Outcome.DONE,
        [("life-2", 0)],
    )
    assert (view.containers, list(volume.iterdir()), (later.logs / "main").exists()) == ((), [], False)
    assert [event.reason for event in made.events if event.type == "Warning"] == ["EarlierLifeEnded"]
    here = bench.node.context
    assert tombstone_at(here, earlier.uid, "life-1") is not None
    record = read_pod_record(here, later.uid)
    assert record is not None
    assert (record.incarnation, (await later.create_sandbox()).outcome) == ("life-2", Outcome.ADOPTED)


async def test_an_adoption_ends_no_other_life_under_the_uid(bench: Bench) -> None:
    running = bench.pod(incarnation="life-1")
    await running.create_sandbox()
    await running.start()
    adopted = bench.pod(uid=running.uid, name=running.pod.metadata.name, incarnation="life-2")
    request = adopted.sandbox_request().model_copy(update={"adopt": True})
    assert (await adopted.step(StepName.CREATE_SANDBOX, request).result()).outcome == Outcome.ADOPTED
    assert [each.state for each in (await running.view()).containers] == ["running"]


async def test_a_deleted_life_ends_no_other_pod_of_its_name(bench: Bench) -> None:
    """Its workflow comes from a restored database, which lacks the workflow of the pod that runs now."""
    running = bench.pod()
    await running.create_sandbox()
    await running.start()
    deleted = bench.pod(name=running.pod.metadata.name)
    write_tombstone(bench.node.context, deleted.uid, deleted.incarnation)
    with pytest.raises(ApplicationError):
        await deleted.create_sandbox()
    assert [each.state for each in (await running.view()).containers] == ["running"]


async def test_a_step_is_cancelled_even_while_the_runtime_is_down(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    await fill(bench.node.queues[Stage.BEGINNING])
    step = pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())
    await step.goes_on("waits for its turn to begin")

    async def away(*_: object, **__: object) -> None:
        raise Unavailable("list_podsandbox", "UNAVAILABLE", "connection refused")

    monkeypatch.setattr(bench.cri, "list_pod_sandboxes", away)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step.result()
    monkeypatch.undo()


async def test_a_foreign_sandbox_keeps_its_name_and_keeps_running(bench: Bench) -> None:
    """Holds: Only sandboxes and containers with our label are touched."""
    pod = bench.pod()
    config = sandbox_config(pod.pod, attempt=0, node=bench.node.context, incarnation=pod.incarnation)
    del config.labels["syncpod.dev/node"]
    stranger = await bench.cri.run_pod_sandbox(config)
    fault, error, detail = await fault_of(pod.create_sandbox())
    assert fault == Fault.FAILED_CREATE_SANDBOX
    assert f"sandbox {stranger}, which is not managed by syncpod" in error.message
    assert detail.status.sandboxes == ()
    assert (await bench.cri.pod_sandbox_status(stranger)).state == "SANDBOX_READY"


async def test_a_network_plugin_that_fails_is_a_fault_with_the_kubelets_event(bench: Bench) -> None:
    pod = bench.pod(hostNetwork=False)
    with bench.runtime.gates.refuse("cni-add"):
        fault, error, detail = await fault_of(pod.create_sandbox())
    assert fault == Fault.FAILED_CREATE_SANDBOX
    assert "refused by the gate" in error.message
    [event] = detail.events
    assert (event.type, event.reason) == ("Warning", "FailedCreatePodSandBox")
    assert event.message.startswith(
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup net"
    )
    assert (await pod.create_sandbox(attempt=1)).outcome == Outcome.DONE


async def test_a_sandbox_whose_network_setup_and_teardown_fail_does_not_block_the_pod(bench: Bench) -> None:
    """1.6 leaves it NOTREADY with its name reserved, 2.4 leaves nothing that is listed."""
    pod = bench.pod(hostNetwork=False)
    with bench.runtime.gates.refuse("cni-add"), bench.runtime.gates.refuse("cni-del"):
        await fault_of(pod.create_sandbox())
    second = await pod.create_sandbox()
    if second.outcome == Outcome.SPENT:
        second = await pod.create_sandbox(attempt=1)
    assert second.outcome == Outcome.DONE
    assert [each.ready for each in second.status.sandboxes] == [True]


async def test_a_runtime_kill_during_network_setup_leaves_no_second_sandbox(
    runtime: Containerd, tmp_path: Path
) -> None:
    """After the restart the half-made sandbox is dead: its attempt is spent, although 2.4 has released its name."""
    async with bench_of(runtime, tmp_path) as bench:
        pod = bench.pod(hostNetwork=False)
        with runtime.gates.hold("cni-add") as gate:
            step = pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())
            await gate.reached()
            runtime.kill()
            with pytest.raises(ApplicationError) as lost:
                await step.result()
        assert (lost.value.type, lost.value.non_retryable) == ("Unavailable", False)
        await bench.restart_runtime()
        retried = await pod.create_sandbox(attempt=0)
        if retried.outcome == Outcome.SPENT:
            retried = await pod.create_sandbox(attempt=1)
        assert retried.outcome == Outcome.DONE
        assert [each.ready for each in retried.status.sandboxes] == [True]


async def test_a_cancelled_create_returns_the_sandbox_already_requested(bench: Bench) -> None:
    """Holds: A call to the runtime is never cut off."""
    pod = bench.pod(hostNetwork=False)
    with bench.runtime.gates.hold("cni-add") as gate:
        step = pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())
        await gate.reached()
        step.cancel()
        await step.goes_on("makes sandbox 0")
    result = await step.result()
    assert (result.outcome, result.id) == (Outcome.DONE, result.status.sandboxes[0].id)


async def test_a_step_cancelled_while_waiting_has_changed_nothing(bench: Bench) -> None:
    pod = bench.pod()
    await fill(bench.node.queues[Stage.BEGINNING])
    step = pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())
    await step.goes_on("waits for its turn to begin")
    step.cancel()
    result = await step.result()
    assert (result.outcome, result.status.sandboxes) == (Outcome.CANCELLED, ())


async def test_a_waiting_step_is_retried_after_a_worker_shutdown(bench: Bench) -> None:
    pod = bench.pod()
    await fill(bench.node.queues[Stage.BEGINNING])
    step = pod.step(StepName.CREATE_SANDBOX, pod.sandbox_request())
    await step.goes_on("waits for its turn to begin")
    step.cancel(worker_shutdown=True)
    with pytest.raises(ApplicationError, match="the step let go: the worker stops") as let_go:
        await step.result()
    assert not let_go.value.non_retryable and let_go.value.category == ApplicationErrorCategory.BENIGN


async def test_only_host_network_pods_get_a_sandbox_while_the_network_is_not_ready(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 15: NetworkNotReady, and not for pods on the node's own network."""
    ready = await bench.cri.status()
    await without(bench, monkeypatch, network_ready=False, network_message="NetworkPluginNotReady: no CNI")
    fault, error, detail = await fault_of(bench.pod(hostNetwork=False).create_sandbox())
    assert (fault, error.message) == (
        Fault.NETWORK_NOT_READY,
        "network is not ready: NetworkPluginNotReady: no CNI",
    )
    assert (detail.status.sandboxes, [each.reason for each in detail.events]) == ((), ["NetworkNotReady"])
    assert ready.network_ready
    assert (await bench.pod(hostNetwork=True).create_sandbox()).outcome == Outcome.DONE


async def test_no_sandbox_is_created_while_the_runtime_is_not_ready(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 15: the runtime's own condition."""
    await without(bench, monkeypatch, runtime_ready=False, runtime_message="RuntimeNotReady: starting")
    fault, _, detail = await fault_of(bench.pod().create_sandbox())
    assert (fault, detail.status.sandboxes) == (Fault.RUNTIME_NOT_READY, ())


async def without(bench: Bench, monkeypatch: pytest.MonkeyPatch, **changed: object) -> None:
    """Let the runtime's real status return without some fields."""
    true = await bench.cri.status()
    fields = {name: getattr(true, name) for name in RuntimeStatus.__dataclass_fields__}
    answer = RuntimeStatus(**(fields | changed))

    async def status(*, verbose: bool = False) -> RuntimeStatus:
        return answer

    monkeypatch.setattr(bench.cri, "status", status)


async def test_features_that_the_runtime_does_not_announce_are_refused_by_name(bench: Bench) -> None:
    pod = bench.pod(runtimeClassName="kata")
    fault, error, detail = await fault_of(pod.create_sandbox())
    if bench.runtime.version.startswith("2."):
        assert (fault, detail.status.sandboxes) == (Fault.UNSUPPORTED_BY_RUNTIME, ())
    else:
        # It announces no handlers, and refuses an unknown one itself.
        assert fault == Fault.FAILED_CREATE_SANDBOX
    assert "kata" in error.message


async def test_a_host_path_of_the_wrong_type_is_a_failed_mount(bench: Bench, tmp_path: Path) -> None:
    volume = {"name": "data", "hostPath": {"path": str(tmp_path / "absent"), "type": "Directory"}}
    mount = {"name": "data", "mountPath": "/data"}
    fault, error, detail = await fault_of(bench.pod(container(volumeMounts=[mount]), volumes=[volume]).create_sandbox())
    assert fault == Fault.FAILED_MOUNT
    assert [(each.reason, each.message) for each in detail.events] == [("FailedMount", error.message)]
    assert "hostPath type check failed" in error.message


async def test_create_sandbox_reports_containers_with_missing_images(bench: Bench) -> None:
    pod = bench.pod(container("there"), container("absent", image="localhost:1/absent:1"))
    assert (await pod.create_sandbox()).missing_images == ("absent",)


async def test_the_runtime_is_asked_for_pods_of_the_name_while_the_pod_is_noted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ask = threading.Event(), bench.cri.list_pod_sandboxes

    async def listing(**which: Any) -> tuple[SandboxSummary, ...]:
        asked.set()
        return await ask(**which)

    def noted(*of: Any) -> None:
        assert asked.wait(60), "it is asked only afterwards"
        note_pod(*of)

    monkeypatch.setattr(bench.cri, "list_pod_sandboxes", listing)
    monkeypatch.setattr(create_sandbox, "note_pod", noted)
    assert (await bench.pod().create_sandbox()).outcome == Outcome.DONE


async def test_cgroup_and_volumes_are_made_together_and_are_there_when_the_sandbox_is_asked_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, made, run = threading.Barrier(2, timeout=60), [], bench.cri.run_pod_sandbox

    def with_the_other(what: str, making: Callable[..., None]) -> Callable[..., None]:
        def make(*of: Any) -> None:
            begun.wait()  # broken after a minute, if they are made one after the other
            making(*of)
            made.append(what)

        return make

    async def running(*of: Any, **more: Any) -> str:
        assert sorted(made) == ["cgroup", "volumes"]
        return await run(*of, **more)

    monkeypatch.setattr(cgroup, "make_pod_cgroup", with_the_other("cgroup", make_pod_cgroup))
    monkeypatch.setattr(create_sandbox, "prepare_pod", with_the_other("volumes", prepare_pod))
    monkeypatch.setattr(bench.cri, "run_pod_sandbox", running)
    assert (await bench.pod().create_sandbox()).outcome == Outcome.DONE


async def test_the_cgroup_of_a_pod_that_waits_for_a_volume_goes_with_the_pod(bench: Bench) -> None:
    missing = {"name": "data", "secret": {"secretName": "absent"}}
    pod = bench.pod(container(volumeMounts=[{"name": "data", "mountPath": "/data"}]), volumes=[missing])
    fault, _, _ = await fault_of(pod.create_sandbox())
    assert fault == Fault.FAILED_MOUNT
    await pod.remove()
    assert (pod.cgroups(), pod.directory.exists()) == ([], False)


async def test_an_unavailable_runtime_is_a_retryable_fault(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> None:
        raise Unavailable("list_podsandbox", "UNAVAILABLE", "connection refused")

    monkeypatch.setattr(bench.cri, "list_pod_sandboxes", away)
    with pytest.raises(ApplicationError) as caught:
        await bench.pod().create_sandbox()
    monkeypatch.undo()
    assert (caught.value.type, caught.value.non_retryable) == ("Unavailable", False)


async def test_containers_left_by_an_earlier_pod_of_the_name_are_ended_first(bench: Bench) -> None:
    """Its workflow was terminated, and the pod applied again, with another UID."""
    earlier, later = bench.pod(), bench.pod()
    later.pod = later.pod.model_copy(
        update={"metadata": later.pod.metadata.model_copy(update={"name": earlier.pod.metadata.name})}
    )
    await earlier.create_sandbox()
    await earlier.start()
    bystander = bench.pod()
    await bystander.create_sandbox()
    await bystander.start()

    made = await later.create_sandbox()
    gone = await earlier.view()
    assert (gone.sandboxes, gone.containers, earlier.cgroups(), earlier.directory.exists()) == ((), (), [], False)
    assert [sandbox.id for sandbox in made.status.sandboxes] == [made.id]
    assert [event.reason for event in made.events if event.type == "Warning"] == ["EarlierLifeEnded"]
    assert [each.state for each in (await bystander.view()).containers] == ["running"]


async def test_an_earlier_pod_that_was_killed_and_not_yet_removed_is_left_to_the_node(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker died in between. The tombstone shows that this life is over, so the next try need not wait for it."""
    earlier = bench.pod()
    later = bench.pod(name=earlier.pod.metadata.name)
    await earlier.create_sandbox()
    await earlier.start()

    async def dies(*_: object, **__: object) -> NoReturn:
        raise Unavailable("remove_pod_sandbox", "UNAVAILABLE", "the worker is killed")

    with monkeypatch.context() as patch:
        patch.setattr("activities.pods.removal.remove_remains", dies)
        with pytest.raises(ApplicationError):
            await later.create_sandbox()
    assert tombstone_at(bench.node.context, earlier.uid, earlier.incarnation) is not None
    made = await later.create_sandbox()
    assert [event.reason for event in made.events if event.type == "Warning"] == []
    assert [each.ready for each in (await earlier.view()).sandboxes] == [False]
    assert await Collector(bench.node).remove(EndedLife(earlier.ref), never_asked)
    assert ((await earlier.view()).sandboxes, earlier.directory.exists()) == ((), False)


@pytest.mark.parametrize("labelled", [True, False])
async def test_a_sandbox_with_the_pods_name_but_without_a_uid_is_left_alone(bench: Bench, labelled: bool) -> None:
    """It was made by raw calls, with the node's label; the node's housekeeping handles it."""
    pod, node = bench.pod(), bench.node.context
    uid = {names.POD_UID_LABEL: "../x"} if labelled else {}
    name = {names.POD_NAME_LABEL: pod.pod.metadata.name, names.POD_NAMESPACE_LABEL: pod.pod.metadata.namespace}
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=pod.pod.metadata.name, uid="../x", namespace="default"),
        log_directory=str(node.log_dir / "stranger"),
        labels={names.NODE_LABEL: node.name, **name, **uid},
        annotations={names.CLUSTER_ANNOTATION: node.cluster},
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=f"{bench.runtime.cgroup_parent}/stranger" if bench.runtime.cgroup_parent else "",
            security_context=cri.LinuxSandboxSecurityContext(
                namespace_options=cri.NamespaceOption(network=cri.NamespaceMode.NODE, pid=cri.NamespaceMode.CONTAINER)
            ),
        ),
    )
    stranger = await bench.cri.run_pod_sandbox(config)
    try:
        made = await pod.create_sandbox()
        assert made.outcome == Outcome.DONE
        assert [sandbox.id for sandbox in made.status.sandboxes] == [made.id]
        assert [each.state for each in await bench.cri.list_pod_sandboxes(id=stranger)] == ["SANDBOX_READY"]
    finally:
        await bench.cri.stop_pod_sandbox(stranger)
        await bench.cri.remove_pod_sandbox(stranger)


async def test_no_sandbox_is_created_beside_a_pod_of_its_name_from_another_cluster(bench: Bench) -> None:
    """The database was lost and the pod applied again: the running one stays, and stays the only one."""
    other, ours = bench.pod(), bench.pod()
    ours.pod = ours.pod.model_copy(
        update={"metadata": ours.pod.metadata.model_copy(update={"name": other.pod.metadata.name})}
    )
    here = bench.node.context
    elsewhere = dataclasses.replace(here, cluster="another/default")
    bench.node.context = elsewhere
    made = await other.create_sandbox()
    await other.start()
    bench.node.context = here

    for _ in range(2):
        fault, error, detail = await fault_of(ours.create_sandbox())
        assert fault == Fault.FAILED_CREATE_SANDBOX
        assert f"(uid {other.uid}) runs on this node" in error.message
        assert f"`syncpod prune {other.pod.metadata.name}`" in error.message
        assert detail.status.sandboxes == ()
    assert [each.state for each in (await other.view()).containers] == ["running"]

    await bench.cri.stop_pod_sandbox(made.id)  # it has ended, as far as anybody is concerned
    await other.until_dead(made.id)
    assert (await ours.create_sandbox()).outcome == Outcome.DONE
    assert [each.id for each in (await other.view()).sandboxes] == [made.id]


async def test_a_pod_already_running_beside_another_of_its_name_continues_and_can_be_adopted(bench: Bench) -> None:
    """An older worker has admitted both: neither a repeated step nor an adoption is refused."""
    other, ours = bench.pod(), bench.pod()
    ours.pod = ours.pod.model_copy(
        update={"metadata": ours.pod.metadata.model_copy(update={"name": other.pod.metadata.name})}
    )
    here = bench.node.context
    made = await ours.create_sandbox()
    bench.node.context = dataclasses.replace(here, cluster="another/default")
    adoption = other.sandbox_request().model_copy(update={"adopt": True})
    assert (await other.step(StepName.CREATE_SANDBOX, adoption).result()).outcome == Outcome.ADOPTED
    bench.node.context = here
    again = await ours.create_sandbox()
    assert (again.outcome, again.id) == (Outcome.ADOPTED, made.id)
