"""pull_image: pull policies, one pull at a time, cancellation at once, and the kubelet's messages.

Holds: Every back-off is visible.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.exceptions import ApplicationError

from syncpod.cri.errors import CriError, ImageAbsent, RegistryUnavailable, RuntimeFailure, SignatureValidationFailed
from syncpod.lifecycle.actions import StepName
from syncpod.messages.running_steps import steps_of
from syncpod.messages.steps import Fault, Outcome, PullImage, StepResult
from tests.activities.bench import Bench, PodOnBench, bench_of, container, fault_of
from tests.activities.registry import ABSENT_TAG, Registry, registry
from tests.runtimes.containerd import Containerd

pytestmark = pytest.mark.every_runtime("errors of a pull are worded by the runtime")


@pytest.fixture
def shelf(runtime: Containerd) -> Iterator[Registry]:
    """The test's own registry: with its port in the name, every image is new to the runtime."""
    with registry() as served:
        served.announce_to(runtime)
        yield served


@pytest_asyncio.fixture(autouse=True)
async def no_images_left(bench: Bench, shelf: Registry) -> AsyncIterator[None]:
    yield
    for image in await bench.cri.list_images():
        for tag in image.repo_tags:
            if tag.startswith(shelf.address):
                bench.runtime.ctr("images", "rm", tag)


def request_of(pod: PodOnBench, name: str = "main") -> PullImage:
    return PullImage(ref=pod.ref, fence=pod.next_fence(), pod=pod.pod, container=name)


def pod_of(bench: Bench, image: str, policy: str = "IfNotPresent") -> PodOnBench:
    return bench.pod(container(image=image, imagePullPolicy=policy))


def messages(result: StepResult) -> list[tuple[str, str]]:
    return [(event.reason, event.message) for event in result.events]


async def test_an_absent_image_is_pulled_and_can_be_started(bench: Bench, shelf: Registry) -> None:
    image = f"{shelf.address}/app:1"
    pod = pod_of(bench, image)
    assert (await pod.create_sandbox()).missing_images == ("main",)
    assert (await pod.start()).outcome == Outcome.IMAGE_ABSENT
    result = await pod.pull()
    assert (result.outcome, result.missing_images) == (Outcome.DONE, ())
    pulling, pulled = messages(result)
    assert pulling == ("Pulling", f'Pulling image "{image}"')
    assert [event.reason for event in bench.agent.happened] == ["Pulling"], "a cluster is told when it begins"
    assert pulled[0] == "Pulled"
    duration = r"(\d+(\.\d+)?s|\d+ms)"
    assert re.fullmatch(
        rf'Successfully pulled image "{image}" in {duration} \({duration} including waiting\)\. '
        r"Image size: [1-9]\d+ bytes\.",
        pulled[1],
    )
    started = await pod.start(pulled=True)
    assert [event.reason for event in started.events] == ["Created", "Started"]


async def test_a_repeated_pull_finds_the_image(bench: Bench, shelf: Registry) -> None:
    """Holds: Every step may run twice."""
    image = f"{shelf.address}/app:1"
    pod = pod_of(bench, image)
    await pod.pull()
    asked = len(shelf.requests)
    again = await pod.pull()
    present = f'Container image "{image}" already present on machine and can be accessed by the pod'
    assert (again.outcome, messages(again)) == (Outcome.DONE, [("Pulled", present)])
    assert len(shelf.requests) == asked


async def test_policy_always_asks_the_registry_each_time(bench: Bench, shelf: Registry) -> None:
    pod = pod_of(bench, f"{shelf.address}/app:1", policy="Always")
    await pod.pull()
    asked = len(shelf.requests)
    assert [reason for reason, _ in messages(await pod.pull())] == ["Pulling", "Pulled"]
    assert len(shelf.requests) > asked


async def test_an_image_without_a_tag_is_pulled_as_latest(bench: Bench, shelf: Registry) -> None:
    pod = pod_of(bench, f"{shelf.address}/app")
    assert (await pod.pull()).missing_images == ()
    assert shelf.requests[0] == "/v2/app/manifests/latest"


async def test_a_missing_tag_is_a_fault_with_the_runtimes_message(bench: Bench, shelf: Registry) -> None:
    image = f"{shelf.address}/app:{ABSENT_TAG}"
    fault, error, detail = await fault_of(pod_of(bench, image).pull())
    assert (fault, f"{image}: not found" in error.message) == (Fault.ERR_IMAGE_PULL, True)
    assert messages(detail) == [
        ("Pulling", f'Pulling image "{image}"'),
        ("Failed", f'Failed to pull image "{image}": {error.message}'),
        ("Failed", "Error: ErrImagePull"),
    ]


@pytest.mark.parametrize("status", [401, 500, 503])
async def test_a_broken_registry_is_a_fault_of_the_image_and_not_of_the_runtime(
    bench: Bench, shelf: Registry, status: int
) -> None:
    shelf.status = status
    fault, _, _ = await fault_of(pod_of(bench, f"{shelf.address}/app:1").pull())
    assert fault == Fault.ERR_IMAGE_PULL


async def test_an_unreachable_registry_is_a_fault_of_the_image(bench: Bench) -> None:
    fault, error, _ = await fault_of(pod_of(bench, "localhost:1/app:1").pull())
    assert (fault, "connection refused" in error.message) == (Fault.ERR_IMAGE_PULL, True)


async def test_an_invalid_image_name_is_refused_before_the_runtime_is_asked(bench: Bench) -> None:
    fault, error, detail = await fault_of(pod_of(bench, "example.com/Web:1").pull())
    said = (
        'Failed to apply default image tag "example.com/Web:1": couldn\'t parse image name "example.com/Web:1": '
        "invalid reference format: repository name (Web) must be lowercase"
    )
    assert (fault, error.message) == (Fault.INVALID_IMAGE_NAME, said)
    assert messages(detail) == [("InspectFailed", said), ("Failed", "Error: InvalidImageName")]


async def test_a_missing_image_with_policy_never_is_a_fault(bench: Bench, shelf: Registry) -> None:
    fault, _, _ = await fault_of(pod_of(bench, f"{shelf.address}/app:1", policy="Never").pull())
    assert (fault, shelf.requests) == (Fault.ERR_IMAGE_NEVER_PULL, [])


@pytest.mark.parametrize(
    ("kind", "text", "fault", "message"),
    [
        (
            RegistryUnavailable,
            "RegistryUnavailable: no route",
            Fault.REGISTRY_UNAVAILABLE,
            "image pull failed for {image} because the registry is unavailable: no route",
        ),
        (
            SignatureValidationFailed,
            "SignatureValidationFailed: no key",
            Fault.SIGNATURE_VALIDATION_FAILED,
            "image pull failed for {image} because the signature validation failed: no key",
        ),
        (RuntimeFailure, "denied", Fault.ERR_IMAGE_PULL, "denied"),
    ],
)
async def test_failed_pulls_have_the_kubelets_reason_and_message(
    bench: Bench,
    shelf: Registry,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[CriError],
    text: str,
    fault: Fault,
    message: str,
) -> None:
    async def failing(*_: object, **__: object) -> str:
        raise kind("pull_image", "UNKNOWN", text)

    monkeypatch.setattr(bench.cri, "pull_image", failing)
    image = f"{shelf.address}/app:1"
    found, error, detail = await fault_of(pod_of(bench, image).pull())
    assert (found, error.message) == (fault, message.format(image=image))
    assert messages(detail)[1:] == [
        ("Failed", f'Failed to pull image "{image}": {text}'),
        ("Failed", f"Error: {fault.value}"),
    ]


async def test_an_image_that_is_not_there_after_its_pull_is_a_failed_pull(
    bench: Bench, shelf: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a runtime that reported a pull as done but did not list the image was called again without a pause."""

    async def lying(*_: object, **__: object) -> str:
        return "sha256:0"

    monkeypatch.setattr(bench.cri, "pull_image", lying)
    image = f"{shelf.address}/app:1"
    fault, error, detail = await fault_of(pod_of(bench, image).pull())
    text = f'image "{image}": the runtime reports that it pulled it, and does not find it afterwards'
    assert (fault, error.message) == (Fault.ERR_IMAGE_PULL, text)
    assert messages(detail)[1:] == [("Failed", f"Failed to pull {text}"), ("Failed", "Error: ErrImagePull")]


@pytest.mark.parametrize("policy", ["IfNotPresent", "Always"])
async def test_an_image_that_a_start_misses_after_its_pull_fails_the_next_pull_once(
    bench: Bench, shelf: Registry, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """A runtime that finds an image in one answer and not in the next had start and pull take turns without a pause."""

    async def refusing(*_: object, **__: object) -> str:
        raise ImageAbsent("create_container", "NOT_FOUND", "no such image")

    image = f"{shelf.address}/app:1"
    pod = pod_of(bench, image, policy)
    await pod.create_sandbox()
    await pod.pull()
    create = bench.cri.create_container
    monkeypatch.setattr(bench.cri, "create_container", refusing)
    assert (await pod.start(pulled=True)).outcome == Outcome.IMAGE_ABSENT
    fault, error, _ = await fault_of(pod.pull())
    text = "the runtime had it after its pull, and does not find it for the container's start"
    assert (fault, error.message) == (Fault.ERR_IMAGE_PULL, f'image "{image}": {text}')
    monkeypatch.setattr(bench.cri, "create_container", create)
    assert (await pod.pull()).outcome == Outcome.DONE
    assert (await pod.start(pulled=True)).outcome == Outcome.DONE


async def test_a_cancelled_pull_ends_at_once_and_the_next_one_begins(bench: Bench, shelf: Registry) -> None:
    pod = pod_of(bench, f"{shelf.address}/app:1")
    shelf.open.clear()
    step = pod.step(StepName.PULL_IMAGE, request_of(pod))
    await shelf.asked()
    step.cancel()
    result = await step.result()
    assert (result.outcome, result.missing_images) == (Outcome.CANCELLED, None)
    shelf.open.set()
    assert (await pod.pull()).missing_images == ()


async def test_pulls_run_in_turn_and_a_waiting_one_can_be_cancelled(bench: Bench, shelf: Registry) -> None:
    first, second, third = (pod_of(bench, f"{shelf.address}/app-{number}:1") for number in range(3))
    shelf.open.clear()
    pulling = first.step(StepName.PULL_IMAGE, request_of(first))
    await shelf.asked()
    waiting = second.step(StepName.PULL_IMAGE, request_of(second))
    patient = third.step(StepName.PULL_IMAGE, request_of(third))
    for step in (waiting, patient):
        await step.goes_on("waits for other pulls to pull")
    said = {step["uid"]: step for step in steps_of(bench.node.running)}
    assert [said[pod.ref.uid]["doing"].partition(" ")[0] for pod in (first, second)] == ["pulls", "waits"]
    assert said[second.ref.uid]["container"] == "main"
    waiting.cancel()
    assert (await waiting.result()).outcome == Outcome.CANCELLED
    assert {request.split("/")[2] for request in shelf.requests} == {"app-0"}
    shelf.open.set()
    assert [(await step.result()).missing_images for step in (pulling, patient)] == [(), ()]
    assert steps_of(bench.node.running) == []


async def test_a_pull_that_waited_for_another_of_the_same_image_does_not_pull_again(
    bench: Bench, shelf: Registry
) -> None:
    first, second = (pod_of(bench, f"{shelf.address}/app:1") for _ in range(2))
    shelf.open.clear()
    pulling = first.step(StepName.PULL_IMAGE, request_of(first))
    await shelf.asked()
    waiting = second.step(StepName.PULL_IMAGE, request_of(second))
    await waiting.goes_on("waits for other pulls to pull")
    shelf.open.set()
    await pulling.result()
    asked = len(shelf.requests)
    assert [reason for reason, _ in messages(await waiting.result())] == ["Pulled"]
    assert len(shelf.requests) == asked


async def test_a_pull_runs_beside_other_steps_and_does_not_report_their_containers(
    bench: Bench, shelf: Registry
) -> None:
    image = f"{shelf.address}/app:1"
    pod = bench.pod(container("quick"), container("slow", image=image))
    await pod.create_sandbox()
    shelf.open.clear()
    pull = pod.step(StepName.PULL_IMAGE, request_of(pod, "slow"))
    await shelf.asked()
    listed_at = len(bench.agent.returned)
    started = await pod.start("quick")
    assert (started.outcome, started.status.newest("quick") is None) == (Outcome.DONE, False)
    stopped = await pod.kill()
    assert [each.state for each in stopped.status.containers] == ["exited"]
    shelf.open.set()
    result = await pull.result()
    assert (result.outcome, result.missing_images, result.status.seq.counter) == (Outcome.DONE, (), 0)
    assert len(bench.agent.returned) - listed_at == 2


async def test_a_newer_pull_for_the_same_container_ends_a_stalled_one(bench: Bench, shelf: Registry) -> None:
    pod = pod_of(bench, f"{shelf.address}/app:1")
    shelf.open.clear()
    stalled = pod.step(StepName.PULL_IMAGE, request_of(pod))
    await shelf.asked()
    late = request_of(pod)
    newer = pod.step(StepName.PULL_IMAGE, request_of(pod))
    fault, _, _ = await fault_of(stalled.result())
    assert fault == Fault.STALE_FENCE
    shelf.open.set()
    assert (await newer.result()).missing_images == ()
    long_ago = datetime.now(UTC) - timedelta(seconds=60)
    fault, _, _ = await fault_of(pod.step(StepName.PULL_IMAGE, late, scheduled=long_ago).result())
    assert fault == Fault.STALE_FENCE


async def test_a_runtime_crash_during_a_pull_is_not_a_fault_of_the_image(
    runtime: Containerd, tmp_path: Path, shelf: Registry
) -> None:
    async with bench_of(runtime, tmp_path) as bench:
        pod = pod_of(bench, f"{shelf.address}/app:1")
        shelf.open.clear()
        step = pod.step(StepName.PULL_IMAGE, request_of(pod))
        await shelf.asked()
        runtime.kill()
        with pytest.raises(ApplicationError) as caught:
            await step.result()
        assert (caught.value.type, caught.value.non_retryable) == ("Unavailable", False)
        shelf.open.set()
        await bench.restart_runtime()
        result: Any = await pod.pull()
        assert result.missing_images == ()
