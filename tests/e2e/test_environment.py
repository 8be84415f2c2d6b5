"""Containers get variables from all sources and parts of volumes, even if these appear late."""

from __future__ import annotations

import asyncio
import base64
import secrets
from typing import Any

import pytest

from syncpod.objects import ObjectStore
from syncpod.pod import ConfigMap, ObjectMeta, Secret
from tests.e2e.engine import PATIENCE, RUNS, EngineNode, LivePod, Pods, shell, status_of
from tests.e2e.words import say, waits_for

WRITES = """
echo "# written by an init container" > /shared/app.env
echo "PORT='8080' # the port" >> /shared/app.env
mkdir -p /shared/parts/a && echo hello > /shared/parts/a/index
ln -s /etc /shared/escape
"""
SAYS = f"""
echo "$CFG_color|$token|$COLOR|$TOKEN|$PORT|$NAME|$REQUEST|$BOTH|${{OPTIONAL-unset}}|$1"
cat /part/index
{waits_for("/made/stop")}
"""
LINES = {"main": 2, "late": 1}
"""The lines that each container writes before it continues."""


@pytest.fixture
def objects(engine: EngineNode) -> ObjectStore:
    """The node's ConfigMaps and Secrets, as `syncpod apply` writes them."""
    home = engine.worker.state_dir.parent
    return ObjectStore(engine.worker.state_dir, home / "memory")


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


def secret(name: str, **data: str) -> Secret:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return Secret(metadata=ObjectMeta(name=name, namespace="default"), data=encoded)


def given(config: str, keys: str) -> dict[str, Any]:
    """A container with a variable from each source. It prints what it sees, and keeps running."""
    return {
        **shell("main"),
        "command": ["sh", "-c", SAYS, "sh"],
        "args": ["$(BOTH)"],
        "resources": {"requests": {"memory": "16Mi"}},
        "envFrom": [{"prefix": "CFG_", "configMapRef": {"name": config}}, {"secretRef": {"name": keys}}],
        "env": [
            {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": config, "key": "color"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": keys, "key": "token"}}},
            {"name": "PORT", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "app.env", "key": "PORT"}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "REQUEST", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory"}}},
            {"name": "BOTH", "value": "$(COLOR):$(PORT) $$(COLOR)"},
            {"name": "OPTIONAL", "valueFrom": {"secretKeyRef": {"name": keys, "key": "none", "optional": True}}},
        ],
        "volumeMounts": [
            {"name": "v", "mountPath": "/part", "subPath": "parts/a", "readOnly": True},
            {"name": "v", "mountPath": "/made", "subPathExpr": "made/$(NAME)"},
        ],
    }


async def until_waiting(pod: LivePod, name: str, message: str) -> None:
    """Wait until a container waits because its configuration is missing, and an event says so."""
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
    await pod.until(lambda seen: status_of(seen, name).get("state") == waiting)
    event = await pod.event("Failed")
    assert event["type"] == "Warning"
    assert f"Error: {message}" in [each["message"] for each in await pod.events("Failed")]


async def test_containers_get_their_environment_and_each_waits_for_missing_objects(
    engine: EngineNode, pods: Pods, objects: ObjectStore
) -> None:
    suffix = secrets.token_hex(3)
    config, keys, late = f"settings-{suffix}", f"keys-{suffix}", f"late-{suffix}"
    objects.put(config_map(config, color="blue"))
    objects.put(secret(keys, token="first"))
    pod = await pods.apply(
        "given",
        given(config, keys),
        shell("late", 'echo "$WHEN"; ' + RUNS, envFrom=[{"configMapRef": {"name": late}}]),
        shell("escape", volumeMounts=[{"name": "v", "mountPath": "/x", "subPath": "escape"}]),
        initContainers=[shell("writes", WRITES, volumeMounts=[{"name": "v", "mountPath": "/shared"}])],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    await pod.until(lambda seen: "running" in status_of(seen, "main").get("state", {}))
    told = f"blue|{{token}}|blue|{{token}}|8080|{pod.name}|16777216|blue:8080 $(COLOR)|unset|blue:8080 $(COLOR)"
    assert await said(pod, "main") == [told.format(token="first"), "hello"]

    # The others do not start: one waits for a ConfigMap, one has a subPath that leads out of its volume.
    await until_waiting(pod, "late", f'configmap "{late}" not found')
    await until_waiting(pod, "escape", 'failed to prepare subPath for volumeMount "v" of container "escape"')
    objects.put(config_map(late, WHEN="now"))
    await pod.until(lambda seen: "running" in status_of(seen, "late").get("state", {}))
    assert status_of(await pod.get(), "late")["restartCount"] == 0
    assert await said(pod, "late") == ["now"]

    # The next instance sees a changed Secret, since its parts of volumes are prepared again.
    objects.put(secret(keys, token="second"))
    uid = (await pod.get())["metadata"]["uid"]
    volume = engine.worker.state_dir / "pods" / uid / "volumes" / "kubernetes.io~empty-dir" / "v"
    (volume / "parts" / "a" / "index").write_text("changed\n")
    await say(volume / "made" / pod.name / "stop")
    await pod.until(lambda seen: status_of(seen, "main")["restartCount"] == 1)
    assert await said(pod, "main") == [told.format(token="second"), "changed"]


async def said(pod: LivePod, name: str) -> list[str]:
    """The output of a container's newest instance before it continues."""
    async with asyncio.timeout(PATIENCE):
        while len(lines := await pod.log(name)) < LINES[name]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return lines
