"""A pod driven by the temporal CLI and tctl alone, including invalid input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.clients import run_tctl, temporal
from tests.e2e.engine import EngineNode, LivePod, Pods, shell, status_of
from tests.runtimes.images import BUSYBOX_2


async def test_a_pod_can_be_managed_by_temporal_and_tctl_alone(
    pods: Pods, engine: EngineNode, tctl: Path, tmp_path: Path
) -> None:
    document = pods.manifest("web", shell("web"), shell("log"))
    pod = pods.know(document)

    start = tmp_path / "start.json"
    start.write_text(json.dumps({"pod": document}))
    await temporal(
        engine, "workflow", "start", "--type", "PodWorkflow", "--task-queue", engine.task_queue,
        "--workflow-id", pod.handle.id, "--input-file", start,
    )  # fmt: skip
    await pod.running()
    shown = json.loads(await temporal(
        engine, "workflow", "query", "--workflow-id", pod.handle.id, "--type", "pod", "--output", "json",
    ))  # fmt: skip
    (answer,) = shown["queryResult"]
    assert (answer["kind"], answer["status"]["phase"]) == ("Pod", "Running")
    assert answer == await pod.get()

    # Another image for one container, sent by the temporal CLI ...
    changed = with_image(document, "web", BUSYBOX_2)
    await temporal(
        engine, "workflow", "signal", "--workflow-id", pod.handle.id, "--name", "update_pod",
        "--input", json.dumps(changed),
    )  # fmt: skip
    await pod.running(web=1)
    # ... and for the other by tctl, from a file.
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(with_image(changed, "log", BUSYBOX_2)))
    await run_tctl(tctl, engine, "workflow", "signal", "-w", pod.handle.id, "-n", "update_pod", "-if", file)
    seen = await pod.running(web=1, log=1)
    assert seen["metadata"]["generation"] == 3
    assert await pod.events("Rejected") == []

    await run_tctl(
        tctl, engine, "workflow", "signal", "-w", pod.handle.id, "-n", "delete_pod", "-i", '{"gracePeriodSeconds": 5}'
    )
    final = await pod.gone()
    assert final["metadata"]["deletionGracePeriodSeconds"] == 5
    assert status_of(final, "web")["state"]["terminated"]["exitCode"] == 0
    told = await temporal(engine, "workflow", "result", "--workflow-id", pod.handle.id, "--output", "json")
    assert json.loads(told)["result"] == final


async def test_cancelling_the_workflow_deletes_the_pod(pods: Pods, engine: EngineNode) -> None:
    pod = await pods.apply("cancelled", shell("main"))
    await pod.running()
    await temporal(engine, "workflow", "cancel", "--workflow-id", pod.handle.id)
    final = await pod.gone()
    assert status_of(final, "main")["state"]["terminated"]["exitCode"] == 0


async def test_no_invalid_signal_harms_a_pod(pods: Pods, engine: EngineNode, tctl: Path, tmp_path: Path) -> None:
    pod = await pods.apply("deaf", shell("main"))
    before = await pod.running()
    instance = await pod.instance("main")
    broken = tmp_path / "broken.json"
    broken.write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": {"containers": []}}')

    def signal(name: str, *payloads: str) -> Any:
        inputs = [part for payload in payloads for part in ("--input", payload)]
        return temporal(engine, "workflow", "signal", "--workflow-id", pod.handle.id, "--name", name, *inputs)

    for name in ("update_pod", "delete_pod", "pleg", "probe", "backoff_expired"):
        await signal(name)
        await signal(name, "{}", "{}")
    for payload in ('"a string"', "17", "[]", "null", '{"status": "no", "events": 7, "container": [], "spec": 1}'):
        for name in ("update_pod", "pleg", "backoff_expired"):
            await signal(name, payload)
    await signal("delete_pod", '{"gracePeriodSeconds": "soon"}')
    await signal("delete_pod", '{"gracePeriodSeconds": -1}')
    await signal("delete_pod", '{"uid": "another"}')
    await signal("backoff_expired", '{"container": "nobody"}')
    await signal("no_such_signal")
    await signal("no_such_signal", "{}", "{}", "{}")
    await temporal(  # bytes that no converter knows
        engine, "workflow", "signal", "--workflow-id", pod.handle.id, "--name", "update_pod",
        "--input", "binary", "--input-meta", "encoding=binary/unknown",
    )  # fmt: skip
    await run_tctl(tctl, engine, "workflow", "signal", "-w", pod.handle.id, "-n", "update_pod", "-if", broken)
    await run_tctl(tctl, engine, "workflow", "signal", "-w", pod.handle.id, "-n", "update_pod")
    await run_tctl(tctl, engine, "workflow", "signal", "-w", pod.handle.id, "-n", "no_such_signal", "-i", "17")

    # After all of that, a valid signal is still understood.
    document = {**pod.document, "metadata": {**pod.document["metadata"], "labels": {"heard": "yes"}}}
    await pod.handle.signal("update_pod", document)
    after = await pod.until(lambda pod: pod["metadata"].get("labels") == {"heard": "yes"})
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert status_of(after, "main") == status_of(before, "main")
    assert (await pod.instance("main")).id == instance.id
    assert "deletionTimestamp" not in after["metadata"]

    told = {event["message"] for event in await pod.events("Rejected")}
    for name in ("update_pod", "delete_pod", "pleg", "probe", "backoff_expired"):
        one = "a v1 Pod" if name == "update_pod" else "`{}`"
        assert f"signal {name}: takes one payload, got 0: {one} is one" in told
        assert f"signal {name}: takes one payload, got 2" in told
    known = "known: update_pod, delete_pod, pleg, probe, backoff_expired"
    for sentence in (
        f"signal no_such_signal: unknown, with 0 payloads; {known}",
        f"signal no_such_signal: unknown, with 3 payloads; {known}",
        f"signal no_such_signal: unknown, with 1 payload; {known}",
        "signal delete_pod: gracePeriodSeconds: must be 0 or more",
        f"signal delete_pod: uid: is {before['metadata']['uid']}, not another",
        "signal backoff_expired: container: is 'nobody', must be one of main",
        "signal update_pod: spec.containers: required",
    ):
        assert any(message.startswith(sentence) for message in told), (sentence, sorted(told))
    rejected = [event for event in await pod.events("Rejected") if event["type"] == "Warning"]
    assert sum(event["count"] for event in rejected) >= 34
    assert await failed_tasks(pod) == []


async def test_invalid_updates_are_refused_before_anything_is_written(pods: Pods) -> None:
    pod = await pods.apply("refusing", shell("main"))
    await pod.running()
    before = (await pod.handle.describe()).history_length
    for name, payload, why in (
        ("apply", {"kind": "Pod"}, "metadata.name: required"),
        ("apply", {**pod.document, "spec": {**pod.document["spec"], "hostNetwork": True}}, "spec.hostNetwork"),
        ("add_ephemeral_container", {"name": "main", "image": "busybox:1"}, "name"),
        ("delete", {"gracePeriodSeconds": -1}, "gracePeriodSeconds: must be 0 or more"),
    ):
        assert why in await refusal(pod, name, payload)
    assert (await pod.handle.describe()).history_length == before


async def refusal(pod: LivePod, update: str, payload: Any) -> str:
    try:
        await pod.handle.execute_update(update, payload)
    except Exception as error:  # noqa: BLE001  # what it is, is what the caller looks at
        return str(error.__cause__ or error)
    raise AssertionError(f"{update} was accepted: {payload}")


async def failed_tasks(pod: LivePod) -> list[str]:
    """The failed workflow tasks in the history, of which there must be none."""
    return [
        str(event.workflow_task_failed_event_attributes.failure.message)
        async for event in pod.handle.fetch_history_events()
        if event.HasField("workflow_task_failed_event_attributes")
    ]


def with_image(document: dict[str, Any], name: str, image: str) -> dict[str, Any]:
    containers = [{**each, "image": image} if each["name"] == name else each for each in document["spec"]["containers"]]
    return {**document, "spec": {**document["spec"], "containers": containers}}
