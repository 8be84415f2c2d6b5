"""pull_image with credentials: the order of attempts, the pods that may use the image, and the reports."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from activities.images.progress import Downloads
from activities.node.pulls import Pulls, PullSettings, RateLimit
from syncpod.cri.port import Ingest
from syncpod.lifecycle.actions import StepName
from syncpod.messages.steps import Fault, Outcome, PullImage, StepResult
from syncpod.node.pull_records import pulled_images
from syncpod.node.verification import Verification
from syncpod.objects import ObjectRef
from syncpod.pod import ObjectMeta, Secret
from tests.activities.bench import Bench, PodOnBench, container, fault_of, until
from tests.activities.registry import Registry, registry
from tests.runtimes.containerd import Containerd

PASSWORD = "correct horse battery staple"


@pytest.fixture
def shelf(runtime: Containerd) -> Iterator[Registry]:
    """A registry of the test's own, with only the account `jo`."""
    with registry() as served:
        served.announce_to(runtime)
        served.accounts = {"jo": PASSWORD}
        yield served


@pytest_asyncio.fixture(autouse=True)
async def no_images_left(bench: Bench, shelf: Registry) -> AsyncIterator[None]:
    yield
    for image in await bench.cri.list_images():
        for tag in (*image.repo_tags, *image.repo_digests):
            if tag.startswith(shelf.address):
                bench.runtime.ctr("images", "rm", tag)


def put_secret(bench: Bench, name: str, address: str, password: str = PASSWORD, user: str = "jo") -> None:
    auths = {"auths": {address: {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}}}
    put(bench, name, "kubernetes.io/dockerconfigjson", {".dockerconfigjson": json.dumps(auths)})


def put(bench: Bench, name: str, kind: str, data: dict[str, str]) -> None:
    bench.node.objects.put(Secret(metadata=ObjectMeta(name=name, namespace="default"), type=kind, string_data=data))


def pod_of(bench: Bench, image: str, *secrets: str, policy: str = "IfNotPresent") -> PodOnBench:
    wanted = [{"name": name} for name in secrets]
    return bench.pod(container(image=image, imagePullPolicy=policy), imagePullSecrets=wanted)


def reasons(result: StepResult) -> list[str]:
    return [event.reason for event in result.events]


def everything_said(bench: Bench, *results: StepResult) -> str:
    """Everything that was sent to the workflow or written to disk, as one text."""
    directory = bench.node.context.state_dir / "image_manager"
    files = [path.read_text() for path in directory.rglob("*") if path.is_file()]
    return "".join([*(result.model_dump_json() for result in results), *files])


async def test_a_pod_pulls_with_the_credentials_of_its_secret_and_the_password_appears_nowhere_else(
    bench: Bench, shelf: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    put_secret(bench, "pull", shelf.address)
    pod = pod_of(bench, f"{shelf.address}/app:1", "pull")
    result = await pod.pull()
    assert (reasons(result), result.missing_images) == (["Pulling", "Pulled"], ())
    assert shelf.seen[-1] == "jo"
    [record] = pulled_images(bench.node.context.state_dir)
    [known] = record.credential_mapping[f"{shelf.address}/app"].kubernetes_secrets
    assert (known.namespace, known.name, len(known.credential_hash)) == ("default", "pull", 64)
    assert PASSWORD not in everything_said(bench, result) + caplog.text


async def test_a_wrong_password_is_a_fault_that_does_not_contain_it(
    bench: Bench, shelf: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    put_secret(bench, "pull", shelf.address, password="hunter2-is-wrong")
    pod = pod_of(bench, f"{shelf.address}/app:1", "pull")
    fault, error, detail = await fault_of(pod.pull())
    assert (fault, "401 Unauthorized" in error.message) == (Fault.ERR_IMAGE_PULL, True)
    assert reasons(detail) == ["Pulling", "Failed", "Failed"]
    assert shelf.seen[-1] == "jo"
    assert "hunter2-is-wrong" not in everything_said(bench, detail) + error.message + caplog.text
    assert not list((bench.node.context.state_dir / "image_manager" / "pulling").iterdir())


async def test_a_failed_pull_watches_the_secret_for_changes_until_it_succeeds(bench: Bench, shelf: Registry) -> None:
    put_secret(bench, "pull", shelf.address, password="wrong")
    pod = pod_of(bench, f"{shelf.address}/app:1", "pull")
    await fault_of(pod.pull())
    waiters = {ObjectRef("Secret", "default", "pull"): {(f"pod/default/{pod.pod.metadata.name}", "main")}}
    assert bench.node.waiting_for == waiters
    put_secret(bench, "pull", shelf.address)
    await pod.pull()
    assert bench.node.waiting_for == {}


async def test_each_matching_credential_is_tried_and_only_without_any_the_pull_is_anonymous(
    bench: Bench, shelf: Registry
) -> None:
    put_secret(bench, "elsewhere", "registry.example.com", user="never")
    put_secret(bench, "general", shelf.address, user="al", password="first")
    put_secret(bench, "special", f"{shelf.address}/team", user="bo", password="second")
    image = f"{shelf.address}/team/app:1"
    fault, _, _ = await fault_of(pod_of(bench, image, "elsewhere", "general", "special").pull())
    assert fault == Fault.ERR_IMAGE_PULL
    assert [name for name in dict.fromkeys(shelf.seen) if name] == ["bo", "al"]
    put_secret(bench, "general", shelf.address)
    assert (await pod_of(bench, image, "general", "special").pull()).outcome == Outcome.DONE
    shelf.seen.clear()
    await fault_of(pod_of(bench, f"{shelf.address}/other:1", "elsewhere").pull())
    assert set(shelf.seen) == {""}


async def test_unusable_pull_secrets_are_skipped(bench: Bench, shelf: Registry) -> None:
    shelf.accounts = {}
    put(bench, "opaque", "Opaque", {"password": "x"})
    put(bench, "torn", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": "hunter2"})
    result = await pod_of(bench, f"{shelf.address}/app:1", "absent", "opaque", "torn").pull()
    assert [event.reason for event in result.events] == ["Pulling", "Pulled"]


async def test_a_pull_that_fails_names_the_pull_secrets_that_it_had_to_do_without(
    bench: Bench, shelf: Registry
) -> None:
    put(bench, "opaque", "Opaque", {"password": "x"})
    put(bench, "torn", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": "hunter2"})
    put_secret(bench, "wrong", shelf.address, user="al", password="wrong")
    pod = pod_of(bench, f"{shelf.address}/app:1", "absent", "opaque", "torn", "wrong")
    _, _, detail = await fault_of(pod.pull())
    [pulling, told, *rest] = detail.events
    assert pulling.reason == "Pulling"
    assert (told.type, told.reason, told.container, told.message) == (
        "Warning",
        "FailedToRetrieveImagePullSecret",
        "",
        "Unable to retrieve some image pull secrets (absent, opaque, torn); attempting to pull the image may not "
        "succeed.",
    )
    assert {event.reason for event in rest} == {"Failed"}


async def test_node_credentials_are_tried_last_and_make_an_image_available_to_all_pods(
    bench: Bench, shelf: Registry, tmp_path: Path
) -> None:
    auth = tmp_path / "config.json"
    bench.node.pulls = Pulls(tmp_path / "state", PullSettings(registry_auth_file=auth))
    put_secret(bench, "pull", shelf.address, user="al", password="wrong")
    image = f"{shelf.address}/app:1"
    await fault_of(pod_of(bench, image, "pull").pull())
    auth.write_text(json.dumps({"auths": {shelf.address: {"username": "jo", "password": PASSWORD}}}))
    shelf.seen.clear()
    await pod_of(bench, image, "pull").pull()
    assert [name for name in dict.fromkeys(shelf.seen) if name] == ["al", "jo"]
    assert reasons(await pod_of(bench, image).pull()) == ["Pulled"]
    auth.write_text("{")
    await fault_of(pod_of(bench, f"{shelf.address}/app:2").pull())


async def test_an_image_pulled_with_a_secret_is_verified_for_a_pod_without_it(bench: Bench, shelf: Registry) -> None:
    put_secret(bench, "pull", shelf.address)
    put_secret(bench, "copy", shelf.address)
    image = f"{shelf.address}/app:1"
    owner = pod_of(bench, image, "pull")
    await owner.pull()
    asked = len(shelf.requests)

    friend = pod_of(bench, image, "copy")
    assert (await friend.create_sandbox()).missing_images == ()
    assert (await friend.start()).outcome == Outcome.DONE
    assert len(shelf.requests) == asked

    stranger = pod_of(bench, image)
    assert (await stranger.create_sandbox()).missing_images == ("main",)
    assert (await stranger.start()).outcome == Outcome.IMAGE_ABSENT
    fault, error, _ = await fault_of(stranger.pull())
    assert fault == Fault.ERR_IMAGE_PULL
    assert any(text in error.message for text in ("401 Unauthorized", "no basic auth credentials"))

    never = pod_of(bench, image, policy="Never")
    assert (await never.create_sandbox()).missing_images == ()
    fault, error, _ = await fault_of(never.start())
    absent = f'Container image "{image}" is not present with pull policy of Never'
    assert (fault, error.message) == (Fault.ERR_IMAGE_NEVER_PULL, absent)

    shelf.accounts = {}  # the registry opens its doors: a pull for the stranger shows that, and nobody need ask again
    await stranger.pull()
    assert (await stranger.start(pulled=True)).outcome == Outcome.DONE
    assert reasons(await pod_of(bench, image).pull()) == ["Pulled"]


async def test_with_policy_never_verify_every_pod_may_use_present_images(
    bench: Bench, shelf: Registry, tmp_path: Path
) -> None:
    bench.node.pulls = Pulls(tmp_path / "state", PullSettings(verification=Verification("NeverVerify")))
    put_secret(bench, "pull", shelf.address)
    image = f"{shelf.address}/app:1"
    await pod_of(bench, image, "pull").pull()
    assert reasons(await pod_of(bench, image).pull()) == ["Pulled"]


async def test_with_policy_always_verify_preloaded_images_are_pulled(
    bench: Bench, shelf: Registry, tmp_path: Path
) -> None:
    shelf.accounts = {}
    image = f"{shelf.address}/app:1"
    await pod_of(bench, image).pull()
    bench.node.pulls = Pulls(tmp_path / "other", PullSettings(verification=Verification("AlwaysVerify")))
    pod = pod_of(bench, image)
    assert (await pod.create_sandbox()).missing_images == ("main",)
    assert reasons(await pod.pull()) == ["Pulling", "Pulled"]
    assert reasons(await pod.pull()) == ["Pulled"]


@pytest.mark.parametrize("tag", ["", ":1"])
async def test_an_image_is_pulled_by_its_digest(bench: Bench, shelf: Registry, tag: str) -> None:
    shelf.accounts = {}
    image = f"{shelf.address}/app{tag}@{shelf.manifest_digest}"
    pod = pod_of(bench, image)
    assert (await pod.create_sandbox()).missing_images == ("main",)
    assert (await pod.pull()).missing_images == ()
    assert shelf.requests[0] == f"/v2/app/manifests/{shelf.manifest_digest}"
    result = await pod.start(pulled=True)
    running = result.status.newest("main")
    assert running is not None
    assert running.image_ref


async def test_a_failed_image_volume_pull_affects_only_containers_that_mount_it(bench: Bench, shelf: Registry) -> None:
    put_secret(bench, "pull", shelf.address)
    mounts = [{"name": "data", "mountPath": "/data"}]
    reader = container("reader", volumeMounts=mounts)
    image = f"{shelf.address}/data:1"

    def pod_with(secret: str) -> PodOnBench:
        volumes = [{"name": "data", "image": {"reference": image}}]
        return bench.pod(reader, container("other"), imagePullSecrets=[{"name": secret}], volumes=volumes)

    poor = pod_with("absent")
    fault, _, detail = await fault_of(poor.pull("reader"))
    assert fault == Fault.ERR_IMAGE_PULL
    assert [(event.reason, event.container) for event in detail.events] == [
        ("Pulling", ""),
        ("FailedToRetrieveImagePullSecret", ""),
        ("Failed", ""),
        ("Failed", "reader"),
    ]
    assert (await poor.pull("other")).missing_images == ("reader",)
    rich = pod_with("pull")
    result = await rich.pull("reader")
    assert [(event.reason, event.container) for event in result.events] == [
        ("Pulling", ""),
        ("Pulled", ""),
        ("Pulled", "reader"),
    ]
    assert result.missing_images == ()


# --- turns ------------------------------------------------------------------------------------------------------------


async def test_parallel_pulls_are_limited_and_each_image_is_pulled_once(
    bench: Bench, shelf: Registry, tmp_path: Path
) -> None:
    shelf.accounts = {}
    bench.node.pulls = Pulls(tmp_path / "state", PullSettings(at_once=2))
    shelf.open.clear()
    pods = [pod_of(bench, f"{shelf.address}/{name}:1") for name in ("a", "a", "b", "c")]
    steps = [pod.step(StepName.PULL_IMAGE, _request(pod)) for pod in pods]

    async def two_have_been_asked_for() -> bool:
        return len({path.split("/")[2] for path in shelf.requests}) == 2

    await until(two_have_been_asked_for)
    await asyncio.gather(*(step.goes_on() for step in steps))
    assert sorted(step.heartbeats[-1].split()[0] for step in steps) == ["pulls", "pulls", "waits", "waits"]
    assert len({path.split("/")[2] for path in shelf.requests}) == 2
    shelf.open.set()
    results = [await step.result() for step in steps]
    said = [reasons(result)[0] for result in results]
    assert (sorted(said[:2]), said[2:]) == (["Pulled", "Pulling"], ["Pulling", "Pulling"])
    assert [path.split("/")[2] for path in shelf.requests if "/manifests/1" in path].count("a") == 1


async def test_a_pull_over_the_rate_limit_fails_with_the_kubelets_message(bench: Bench, shelf: Registry) -> None:
    bench.node.pulls.rate = RateLimit(0.0, 0)
    image = f"{shelf.address}/app:1"
    fault, error, detail = await fault_of(pod_of(bench, image).pull())
    assert (fault, error.message) == (Fault.ERR_IMAGE_PULL, "pull QPS exceeded")
    assert detail.events[1].message == f'Failed to pull image "{image}": pull QPS exceeded'
    assert shelf.seen == []


async def test_the_pull_rate_limit_is_a_burst_of_ten_and_five_per_second() -> None:
    rate = RateLimit(5.0, 10)
    rate._filled = 100.0
    assert [rate.accept(100.0) for _ in range(11)] == [True] * 10 + [False]
    assert [rate.accept(100.2), rate.accept(100.3), rate.accept(100.4)] == [True, False, True]
    assert sum(rate.accept(1000.0) for _ in range(20)) == 10


# --- progress ---------------------------------------------------------------------------------------------------------


async def test_a_long_pull_reports_its_progress(bench: Bench) -> None:
    with registry(noise=8 << 20) as shelf:
        shelf.announce_to(bench.runtime)
        shelf.bytes_per_second = 1_000_000
        image = f"{shelf.address}/app:1"
        pod = pod_of(bench, image)
        step = pod.step(StepName.PULL_IMAGE, _request(pod))

        async def told() -> bool:
            return step.task.done() or any("MiB" in said and _bytes(said)[0] for said in step.heartbeats)

        await until(told)
        shelf.bytes_per_second = 0
        await step.result()
        bench.runtime.ctr("images", "rm", image)
    said = next((said for said in step.heartbeats if "MiB" in said and _bytes(said)[0]), str(step.heartbeats))
    assert (said.startswith(f"pulls {image}: "), said.endswith(" s")) == (True, True)
    done, total = _bytes(said)
    assert (0 < done < total, round(total, 1)) == (True, 8.0)


def test_progress_counts_running_downloads_and_keeps_finished_ones() -> None:
    mib = 1 << 20
    downloads = Downloads([Ingest("layer-left", 3 * mib, 9 * mib), Ingest("layer-resumed", mib, 4 * mib)])
    assert str(downloads) == ""
    left = Ingest("layer-left", 3 * mib, 9 * mib)
    downloads.see([left, Ingest("manifest-a", 5, 10), Ingest("layer-resumed", mib, 4 * mib)])
    assert str(downloads) == ""
    downloads.see([left, Ingest("layer-resumed", 2 * mib, 4 * mib), Ingest("layer-new", 0, 6 * mib)])
    assert str(downloads) == "2.0 of 10.0 MiB"
    downloads.see([left, Ingest("layer-new", 3 * mib, 6 * mib), Ingest("layer-unknown", mib // 2, 0)])
    assert str(downloads) == "7.5 of 10.5 MiB"
    downloads.see([])
    assert str(downloads) == "10.5 of 10.5 MiB"


def _bytes(said: str) -> tuple[float, float]:
    done, total = said.partition(": ")[2].partition(" MiB")[0].split(" of ")
    return float(done), float(total)


def _request(pod: PodOnBench, name: str = "main") -> Any:
    return PullImage(ref=pod.ref, fence=pod.next_fence(), pod=pod.pod, container=name)
