"""Pods whose images are in a registry with a password: Debian's docker-registry on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from syncpod.node.pull_records import pulled_images
from syncpod.objects import ObjectStore
from syncpod.pod import ObjectMeta, Secret
from tests.e2e.engine import RUNS, EngineNode, LivePod, Pods, shell, status_of
from tests.e2e.faults_support import FaultyNode
from tests.runtimes.containerd import Containerd
from tests.runtimes.docker_registry import DockerRegistry, announce, fresh_busybox, slow_way
from tests.runtimes.ports import free_port
from tests.runtimes.require import Missing, do_without
from tests.runtimes.runtime import Runtime
from tests.runtimes.selection import CONTAINERDS

PASSWORD = "right-" + secrets.token_hex(12)
WRONG = "wrong-" + secrets.token_hex(12)

pytestmark = pytest.mark.parametrize("runtime", CONTAINERDS, indirect=True, scope="session")


@pytest.fixture
def shop(runtime: Runtime, tmp_path: Path) -> Iterator[DockerRegistry]:
    """A registry without images."""
    try:
        registry = DockerRegistry(tmp_path, user="jo", password=PASSWORD)
    except Missing as missing:
        do_without("docker-registry", str(missing))
    announce(containerd_of(runtime), registry.address)
    with registry:
        yield registry


def containerd_of(runtime: Runtime) -> Containerd:
    assert isinstance(runtime, Containerd)
    return runtime


def put_secret(objects: ObjectStore, name: str, address: str, password: str) -> None:
    auth = base64.b64encode(f"jo:{password}".encode()).decode()
    config = json.dumps({"auths": {f"http://{address}/v2/": {"auth": auth}}})
    metadata = ObjectMeta(name=name, namespace="default")
    kind = "kubernetes.io/dockerconfigjson"
    objects.put(Secret(metadata=metadata, type=kind, string_data={".dockerconfigjson": config}))


def container(image: str, name: str = "main", **more: Any) -> dict[str, Any]:
    return {**shell(name, RUNS, **more), "image": image}


def waiting(pod: dict[str, Any], name: str = "main") -> dict[str, str]:
    found: dict[str, str] = status_of(pod, name).get("state", {}).get("waiting", {})
    return found


async def everything_said(pod: LivePod) -> str:
    """Everything that is stored and shown about a pod and its node."""
    told = [json.dumps(await pod.handle.query(query)) for query in ("pod", "history", "events")]
    history = [str(event) async for event in pod.handle.fetch_history_events()]
    log = await asyncio.to_thread(pod.node.worker.log.read_text)
    return "".join([*told, *history, log])


def assert_unsaid(text: str, *passwords: str) -> None:
    for password in passwords:
        for form in (password, base64.b64encode(f"jo:{password}".encode()).decode()):
            assert form not in text
            assert base64.b64encode(form.encode()).decode()[4:-4] not in text


async def test_only_a_pod_with_the_registry_password_gets_its_image(
    pods: Pods, engine: EngineNode, shop: DockerRegistry
) -> None:
    image = await asyncio.to_thread(fresh_busybox, 4096)
    digest = await asyncio.to_thread(shop.push, image, "team/app", "1")
    put_secret(engine.objects, "right", shop.address, PASSWORD)
    name = f"{shop.address}/team/app"
    wanted = [{"name": "right"}]
    pod = await pods.apply("right", container(f"{name}:1"), imagePullSecrets=wanted)
    seen = await pod.running()
    assert len(await pod.events("Pulling")) == 1
    same = await pods.apply("same", container(f"{name}:1@{digest}"), imagePullSecrets=wanted)
    seen_again = await same.running()
    assert status_of(seen_again, "main")["imageID"] == status_of(seen, "main")["imageID"]
    assert status_of(seen_again, "main")["image"]
    assert await same.events("Pulling") == []  # the digest of the image that the tag named

    poor = await pods.apply("poor", container(f"{name}:1", imagePullPolicy="IfNotPresent"), shell("other"))
    refused = await poor.until(lambda pod: waiting(pod).get("reason") in ("ErrImagePull", "ImagePullBackOff"))
    assert "authorization" in waiting(refused)["message"] or "401" in waiting(refused)["message"]
    await poor.until(lambda pod: "running" in status_of(pod, "other").get("state", {}))
    never = await pods.apply("never", container(f"{name}:1", imagePullPolicy="Never"))
    denied = await never.until(lambda pod: waiting(pod).get("reason") == "ErrImageNeverPull")
    assert waiting(denied)["message"] == f'Container image "{name}:1" is not present with pull policy of Never'
    assert_unsaid(await everything_said(pod) + await everything_said(poor), PASSWORD)


async def test_a_pod_with_a_wrong_password_starts_once_the_secret_is_corrected(
    pods: Pods, engine: EngineNode, shop: DockerRegistry
) -> None:
    image = f"{shop.address}/app:1"
    await asyncio.to_thread(lambda: shop.push(fresh_busybox(4096), "app", "1"))
    put_secret(engine.objects, "wrong", shop.address, WRONG)
    wanted = [{"name": "wrong"}, {"name": "absent"}]
    pod = await pods.apply("wrong", container(image), shell("other"), imagePullSecrets=wanted)
    seen = await pod.until(lambda pod: waiting(pod).get("reason") == "ImagePullBackOff")
    message = waiting(seen)["message"]
    assert message.startswith(f'Back-off pulling image "{image}": ErrImagePull: ')
    assert "401 Unauthorized" in message
    await pod.until(lambda pod: "running" in status_of(pod, "other").get("state", {}))
    events = [event for event in await pod.events() if event["container"] in ("", "main")]
    told = [(event["type"], event["reason"], event["message"]) for event in events]
    missing = "Unable to retrieve some image pull secrets (absent); attempting to pull the image may not succeed."
    assert ("Warning", "FailedToRetrieveImagePullSecret", missing) in told
    assert ("Warning", "Failed", "Error: ErrImagePull") in told
    assert ("Normal", "BackOff", f'Back-off pulling image "{image}"') in told

    put_secret(engine.objects, "wrong", shop.address, PASSWORD)
    await pod.running()
    assert_unsaid(await everything_said(pod), PASSWORD, WRONG)


async def test_a_pull_is_retried_until_the_registry_is_available(pods: Pods, engine: EngineNode) -> None:
    address = f"127.0.0.1:{free_port()}"
    announce(containerd_of(engine.runtime), address)
    pod = await pods.apply("nobody", container(f"{address}/app:1"))
    seen = await pod.until(lambda pod: waiting(pod).get("reason") == "ImagePullBackOff")
    assert waiting(seen)["message"].startswith(f'Back-off pulling image "{address}/app:1": ErrImagePull: ')
    assert "connection refused" in waiting(seen)["message"]
    assert seen["status"]["phase"] == "Pending"


async def test_a_slow_pull_shows_progress_delays_no_other_pod_and_survives_a_registry_kill(
    pods: Pods, engine: EngineNode, shop: DockerRegistry
) -> None:
    await asyncio.to_thread(lambda: shop.push(fresh_busybox(12 << 20), "big", "1"))
    async with slow_way(shop.port, bytes_per_second=1 << 20) as port:
        address = f"127.0.0.1:{port}"
        announce(containerd_of(engine.runtime), address)
        put_secret(engine.objects, "slow", address, PASSWORD)
        pod = await pods.apply(
            "big", container(f"{address}/big:1"), shell("other"), imagePullSecrets=[{"name": "slow"}]
        )
        said = await doing(pod, "MiB")
        assert re.fullmatch(rf"pulls {address}/big:1: \d+\.\d of 13\.\d MiB, \d+ s", said)
        await pod.until(lambda pod: "running" in status_of(pod, "other").get("state", {}))
        assert "running" not in status_of(await pod.get(), "main").get("state", {})
        shop.kill()
        seen = await pod.until(lambda pod: waiting(pod).get("reason") == "ImagePullBackOff")
        assert waiting(seen)["message"].startswith(f'Back-off pulling image "{address}/big:1": ErrImagePull: ')
        await asyncio.to_thread(shop.start)
        await pod.running()
        assert [step["outcome"] for step in await pod.history("step") if step["subject"] == "pull_image"][-1] == "done"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_pull_is_finished_and_verified_after_a_worker_kill(
    node: FaultyNode, shop: DockerRegistry, when: Literal["before", "after"]
) -> None:
    image = f"{shop.address}/app:1"
    await asyncio.to_thread(lambda: shop.push(fresh_busybox(4096), "app", "1"))
    home = node.worker.state_dir.parent
    put_secret(ObjectStore(home / "state", home / "memory"), "right", shop.address, PASSWORD)
    with node.proxy.stop("PullImage", when) as stop:
        pod = await node.apply(container(image), imagePullSecrets=[{"name": "right"}])
        await stop.reached(patience=60)
        intents = home / "state" / "image_manager" / "pulling"
        assert len(list(intents.iterdir())) == 1
        await node.kill()
    await node.serve()
    await pod.running()
    assert list(intents.iterdir()) == []
    [record] = [each for each in pulled_images(home / "state") if f"{shop.address}/app" in each.credential_mapping]
    known = record.credential_mapping[f"{shop.address}/app"]
    assert ([each.name for each in known.kubernetes_secrets], known.node_pods_accessible) == (["right"], False)


async def doing(pod: LivePod, word: str) -> str:
    """The texts of the pod's pending steps that contain this word."""
    async with asyncio.timeout(60):
        while True:
            description = await pod.handle.describe()
            for step in description.raw_description.pending_activities:
                for payload in step.heartbeat_details.payloads:
                    if word in (said := str(json.loads(payload.data))):
                        return said
            await asyncio.sleep(0.1)
