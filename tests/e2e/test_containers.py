"""A container seen from inside, and reasons why a container does not start."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.engine import EngineNode, Pods, shell, status_of
from tests.e2e.meanwhile import Told, meanwhile
from tests.runtimes.images import USER_1000

pytestmark = pytest.mark.every_runtime("what a container sees from inside is made by the runtime", one_containerd=True)

ABSENT = "syncpod.invalid/no/such:1"
"""An image on a registry whose name resolves nowhere."""


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def slow(engine: EngineNode, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Told]:
    """Runs stories that wait for ten seconds, while the other tests run."""
    place = tmp_path_factory.mktemp("host") / "later"
    async with meanwhile(engine, partial(a_host_path_that_is_not_there, place=place)) as told:
        yield told


async def test_containers_share_an_empty_dir_and_see_the_nodes_directories(pods: Pods, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("from the node\n")
    shared = {"name": "shared", "mountPath": "/shared"}
    pod = await pods.apply(
        "volumes",
        shell("writer", "echo from the writer > /shared/word; sleep 1000", volumeMounts=[shared]),
        shell(
            "reader",
            "sleep 1000",
            volumeMounts=[
                {**shared, "readOnly": True},
                {"name": "host", "mountPath": "/host"},
                {"name": "made", "mountPath": "/made"},
            ],
        ),
        volumes=[
            {"name": "shared", "emptyDir": {}},
            {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}},
            {"name": "made", "hostPath": {"path": str(tmp_path / "made"), "type": "DirectoryOrCreate"}},
        ],
    )
    seen = await pod.running()
    word = await pod.exec("reader", "until [ -s /shared/word ]; do sleep 0.05; done; cat /shared/word")
    assert word == "from the writer"
    assert "Read-only file system" in await pod.exec("reader", "touch /shared/mine")
    assert await pod.exec("reader", "cat /host/given") == "from the node"
    await pod.exec("reader", "echo from inside > /made/word")
    assert (tmp_path / "made" / "word").read_text() == "from inside\n"
    mounts = {each["name"]: each.get("readOnly", False) for each in status_of(seen, "reader")["volumeMounts"]}
    assert mounts == {"shared": True, "host": False, "made": False}
    await pod.delete()
    assert (tmp_path / "made" / "word").exists()  # the node's own files stay


async def a_host_path_that_is_not_there(pods: Pods, *, place: Path) -> None:
    volumes = [{"name": "host", "hostPath": {"path": str(place), "type": "Directory"}}]
    mounts = [{"name": "host", "mountPath": "/host"}]
    pod = await pods.apply("mount", shell("main", volumeMounts=mounts), volumes=volumes)
    await pod.until(lambda pod: pod["status"].get("phase") == "Pending" and "conditions" in pod["status"])
    event = await pod.event("FailedMount")
    assert str(place) in event["message"]
    assert await pod.sandboxes() == []
    await asyncio.to_thread(place.mkdir)
    await pod.running()


async def test_environment_and_identity_match_the_pod_spec(pods: Pods, engine: EngineNode) -> None:
    def field(path: str) -> dict[str, Any]:
        return {"valueFrom": {"fieldRef": {"fieldPath": path}}}

    env = [
        {"name": "GREETING", "value": "hello"},
        {"name": "WHOLE", "value": "$(GREETING), $(NAME); $$(GREETING) $(NOBODY)"},
        {"name": "NAME", **field("metadata.name")},
        {"name": "AGAIN", "value": "$(NAME)"},
        {"name": "POD_UID", **field("metadata.uid")},
        {"name": "POD_IP", **field("status.podIP")},
        {"name": "HOST_IP", **field("status.hostIP")},
        {"name": "NODE", **field("spec.nodeName")},
        {"name": "TIER", **field("metadata.labels['tier']")},
    ]
    document = pods.manifest(
        "env",
        {
            **shell("main", "echo $0 $1; exec sleep 1000"),
            "args": ["$(AGAIN)", "$(GREETING)"],
            "env": env,
            "workingDir": "/tmp",
            "securityContext": {"runAsUser": 1234, "runAsGroup": 2345},
        },
        securityContext={"fsGroup": 3456, "supplementalGroups": [4567], "runAsNonRoot": True},
        volumes=[{"name": "scratch", "emptyDir": {}}],
    )
    document["metadata"]["labels"] = {"tier": "front"}
    document["spec"]["containers"][0]["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    pod = pods.know(document)
    await pod.apply(document)
    seen = await pod.running()
    meta, status = seen["metadata"], seen["status"]

    inside = dict(line.split("=", 1) for line in (await pod.exec("main", "env")).splitlines())
    wanted = {
        "GREETING": "hello",
        "WHOLE": "hello, $(NAME); $(GREETING) $(NOBODY)",
        "NAME": pod.name,
        "AGAIN": pod.name,
        "POD_UID": meta["uid"],
        "POD_IP": status["podIP"],
        "HOST_IP": status["hostIP"],
        "NODE": engine.name,
        "TIER": "front",
    }
    assert {name: inside.get(name) for name in wanted} == wanted
    assert await pod.logged("main") == [f"{pod.name} hello"]
    assert await pod.exec("main", "pwd; hostname") == f"/tmp\n{pod.name}"
    assert await pod.exec("main", "id -u; id -g; id -G") == "1234\n2345\n2345 3456 4567"
    await pod.exec("main", "echo mine > /scratch/file")
    written = next(iter(engine.worker.state_dir.glob(f"pods/{meta['uid']}/volumes/*/scratch/file"))).stat()
    assert (written.st_uid, written.st_gid, stat.S_ISREG(written.st_mode)) == (1234, 3456, True)


async def test_the_images_user_determines_user_and_groups(pods: Pods) -> None:
    security = {"fsGroup": 3456, "supplementalGroups": [4567], "runAsNonRoot": True}
    main = {"name": "main", "image": USER_1000, "command": ["sleep", "1000"]}
    pod = await pods.apply("by-image", main, securityContext=security)
    await pod.running()
    assert await pod.exec("main", "id -u; id -G") == "1000\n1000 2000 3456 4567"


async def test_a_container_with_run_as_non_root_does_not_run_as_root(pods: Pods) -> None:
    pod = await pods.apply("root", shell("main"), securityContext={"runAsNonRoot": True})
    seen = await pod.until(lambda pod: "CreateContainerConfigError" in str(status_of(pod, "main").get("state")))
    waiting = status_of(seen, "main")["state"]["waiting"]
    assert waiting["message"].startswith("container has runAsNonRoot and image will run as root")
    assert seen["status"]["phase"] == "Pending"
    assert (await pod.event("Failed"))["message"] == f"Error: {waiting['message']}"
    assert await pod.containers() == []


# --- images -----------------------------------------------------------------------------------------------------------


async def test_a_missing_image_is_pulled_again_after_a_back_off(pods: Pods) -> None:
    pod = await pods.apply("missing", {"name": "main", "image": ABSENT}, shell("other"))
    seen = await pod.until(
        lambda pod: (
            "ImagePullBackOff" in str(status_of(pod, "main").get("state"))
            and "running" in status_of(pod, "other")["state"]  # it does not wait for the first
        )
    )
    assert seen["status"]["phase"] == "Pending"
    message = status_of(seen, "main")["state"]["waiting"]["message"]
    assert message.startswith(f'Back-off pulling image "{ABSENT}": ErrImagePull: ')

    told = [event for event in await pod.events() if event["container"] == "main"]
    events = [(event["type"], event["reason"], event["message"].split(": ")[0]) for event in told]
    assert events[:5] == [
        ("Normal", "Pulling", f'Pulling image "{ABSENT}"'),
        ("Warning", "Failed", f'Failed to pull image "{ABSENT}"'),
        ("Warning", "Failed", "Error"),
        ("Normal", "BackOff", f'Back-off pulling image "{ABSENT}"'),
        ("Warning", "Failed", "Error"),
    ]
    errors = [event["message"] for event in await pod.events("Failed") if event["message"].startswith("Error")]
    assert errors == ["Error: ErrImagePull", "Error: ImagePullBackOff"]
    (pull,) = [line for line in await pod.history("step") if line["subject"] == "pull_image"]
    assert pull["outcome"] == "ErrImagePull"
    holds = [line for line in await pod.history("hold") if line["subject"] == "main"]
    assert holds[0]["reason"].startswith("ImagePullBackOff 10s: ")
    # An operator who has repaired the registry need not wait.
    await pod.handle.signal("backoff_expired", {"container": "main"})
    while len(holds := [line for line in await pod.history("hold") if line["subject"] == "main"]) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    assert holds[1]["reason"].startswith("ImagePullBackOff 20s: ")


async def test_an_image_with_policy_never_is_not_pulled(pods: Pods) -> None:
    absent = "syncpod.invalid/nor/this:1"  # no earlier test has requested it
    pod = await pods.apply("never", {"name": "main", "image": absent, "imagePullPolicy": "Never"})
    seen = await pod.until(lambda pod: "ErrImageNeverPull" in str(status_of(pod, "main").get("state")))
    assert status_of(seen, "main")["state"]["waiting"] == {
        "reason": "ErrImageNeverPull",
        "message": f'Container image "{absent}" is not present with pull policy of Never',
    }
    assert seen["status"]["phase"] == "Pending"
    reasons = [event["reason"] for event in await pod.events() if event["container"] == "main"]
    assert reasons == ["ErrImageNeverPull", "Failed"]
    assert await pod.events("Pulling") == []


async def test_a_missing_host_path_keeps_the_pod_waiting(slow: Told) -> None:
    await slow["a_host_path_that_is_not_there"]
