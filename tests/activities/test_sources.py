"""start_container: variables from ConfigMaps, Secrets and files, and subPath mounts, in each instance."""

from __future__ import annotations

import base64
import dataclasses
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.api.failure.v1 import Failure

from syncpod.kernel.mounting import is_mount, may_mount
from syncpod.messages.steps import Fault
from syncpod.node.secret_values import known_secret_values
from syncpod.objects import ObjectRef
from syncpod.pod import ConfigMap, ObjectMeta, Secret
from syncpod.temporal.plugin import DATA_CONVERTER
from tests.activities.bench import Bench, PodOnBench, as_sent, container, fault_of, until


@pytest_asyncio.fixture
async def mounting(bench: Bench) -> AsyncIterator[Bench]:
    """A node that may mount, since it is root; its pods' mounts are removed with the pods."""
    if not may_mount():
        pytest.skip("mounting needs CAP_SYS_ADMIN")
    bench.node.context = dataclasses.replace(bench.node.context, may_mount=True)
    yield bench
    for pod in bench.pods:
        await pod.kill(grace=1)
        await pod.remove()


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


def secret(name: str, **data: str) -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace="default"), string_data=data)


async def said(pod: PodOnBench, name: str = "main", restart: int = 0) -> list[str]:
    """The output of a container at its end."""
    log = pod.logs / name / f"{restart}.log"

    async def ended() -> bool:
        newest = (await pod.view()).newest(name)
        return newest is not None and newest.restart_count == restart and newest.state == "exited" and log.exists()

    await until(ended)
    return [line.split(" ", 3)[3] for line in log.read_text().splitlines()]


def mounts_below(directory: Path) -> bool:
    return str(directory) in Path("/proc/self/mountinfo").read_text()


async def test_a_container_gets_variables_from_config_maps_secrets_and_files(bench: Bench) -> None:
    bench.node.objects.put(config_map("settings", color="blue"))
    bench.node.objects.put(secret("keys", token="s3cret"))
    pod = bench.pod(
        container(
            command=["sh", "-c", 'echo "$color $TOKEN $PORT $(ARG)"'],
            envFrom=[{"configMapRef": {"name": "settings"}}],
            env=[
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
                {"name": "PORT", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "app.env", "key": "PORT"}}},
                {"name": "ARG", "value": "$(color)-$(PORT)"},
            ],
        ),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    await pod.create_sandbox()
    (pod.directory / "volumes" / "kubernetes.io~empty-dir" / "v" / "app.env").write_text("PORT='8080'\n")
    await pod.start()
    assert await said(pod) == ["blue s3cret 8080 blue-8080"]


async def test_missing_sources_are_reported_and_watched_before_the_start_which_then_succeeds(
    bench: Bench,
) -> None:
    pod = bench.pod(
        container(
            envFrom=[{"configMapRef": {"name": "settings"}}],
            env=[{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}],
        )
    )
    await pod.create_sandbox()
    for message, wanted, put in (
        ('configmap "settings" not found', ObjectRef("ConfigMap", "default", "settings"), config_map("settings")),
        ('secret "keys" not found', ObjectRef("Secret", "default", "keys"), secret("keys", other="x")),
        (
            "couldn't find key token in Secret default/keys",
            ObjectRef("Secret", "default", "keys"),
            secret("keys", token="now"),
        ),
    ):
        fault, error, detail = await fault_of(pod.start())
        assert (fault, error.message) == (Fault.CREATE_CONTAINER_CONFIG_ERROR, message)
        told = [(each.type, each.reason, each.message, each.container) for each in detail.events]
        assert told[-1] == ("Warning", "Failed", f"Error: {message}", "main")
        assert [each[:2] for each in told[:-1]] == [("Normal", "Pulled")]
        assert detail.status.containers == ()
        waiter = (f"pod/default/{pod.pod.metadata.name}", "main")
        assert bench.node.waiting_for.pop(wanted) == {waiter}
        bench.node.objects.put(put)
    assert (await pod.start()).status.containers[0].state == "running"


async def test_a_pod_of_a_cluster_waits_until_it_is_known_whether_the_cluster_has_an_object(bench: Bench) -> None:
    wanted = ObjectRef("Secret", "default", "keys", origin="cluster")
    settings = ObjectRef("ConfigMap", "default", "set", origin="cluster")
    pod = bench.pod(
        container(
            command=["sh", "-c", 'echo "$token/$colour"'],
            envFrom=[{"secretRef": {"name": "keys"}}],
            env=[
                {"name": "colour", "valueFrom": {"configMapKeyRef": {"name": "set", "key": "colour", "optional": True}}}
            ],
        )
    )
    pod.pod.metadata.annotations["kubernetes.io/config.source"] = "kubernetes"
    bench.node.objects.put(secret("keys", token="the-nodes-own"))
    bench.node.objects.keep(config_map("all"), "services")
    await pod.create_sandbox()
    for message, put in (
        ("failed to sync secret cache: timed out waiting for the condition", bench.node.objects.note_absent),
        (
            "failed to sync configmap cache: timed out waiting for the condition",
            lambda _: bench.node.objects.note_absent(settings),
        ),
        ('secret "keys" not found', lambda ref: bench.node.objects.keep(secret("keys", token="the-clusters"))),
    ):
        fault, error, _ = await fault_of(pod.start())
        assert (fault, error.message) == (Fault.CREATE_CONTAINER_CONFIG_ERROR, message)
        assert list(bench.node.waiting_for) == [settings if "configmap" in message else wanted]
        bench.node.waiting_for.clear()
        put(wanted)
    await pod.start()
    assert await said(pod) == ["the-clusters/"]


async def test_an_env_file_outside_its_volume_is_not_read(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "outside.env").write_text("PORT='8080'\n")
    source = {"fileKeyRef": {"volumeName": "v", "path": "app.env", "key": "PORT"}}
    pod = bench.pod(container(env=[{"name": "PORT", "valueFrom": source}]), volumes=[{"name": "v", "emptyDir": {}}])
    await pod.create_sandbox()
    volume = pod.directory / "volumes" / "kubernetes.io~empty-dir" / "v"
    (volume / "app.env").symlink_to(tmp_path / "outside.env")
    fault, error, _ = await fault_of(pod.start())
    assert (fault, error.message) == (
        Fault.CREATE_CONTAINER_CONFIG_ERROR,
        "couldn't parse env file: app.env: it cannot be read",
    )


async def test_files_of_variables_are_limited_together(bench: Bench) -> None:
    """One file under many names: each would be read whole, and a manifest has room for thousands."""
    sources = [{"fileKeyRef": {"volumeName": "v", "path": f"{number}.env", "key": "A"}} for number in range(9)]
    env = [{"name": f"A{number}", "valueFrom": source} for number, source in enumerate(sources)]
    pod = bench.pod(container(env=env), volumes=[{"name": "v", "emptyDir": {}}])
    await pod.create_sandbox()
    volume = pod.directory / "volumes" / "kubernetes.io~empty-dir" / "v"
    (volume / "0.env").write_bytes(b"A='1'\n" + b"#" * 2**16 + b"\n" * (2**20 - 2**16 - 6))
    for number in range(1, 9):
        (volume / f"{number}.env").symlink_to("0.env")
    fault, error, _ = await fault_of(pod.start())
    assert fault == Fault.CREATE_CONTAINER_CONFIG_ERROR
    assert error.message == "the files of variables of container main have more than 8388608 bytes together"


@pytest.mark.parametrize("is_there", [True, False], ids=["there before", "comes after the sandbox"])
async def test_a_secret_quoted_by_the_runtime_is_redacted(bench: Bench, is_there: bool) -> None:
    value = f"no-such-program-{secrets.token_hex(8)}"
    if is_there:
        bench.node.objects.put(secret("keys", command=value))
    pod = bench.pod(
        container(
            command=["$(COMMAND)"],
            env=[{"name": "COMMAND", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "command"}}}],
        )
    )
    await pod.create_sandbox()
    bench.node.objects.put(secret("keys", command=value))
    fault, error, detail = await fault_of(pod.start())
    sent = as_sent(error)
    assert (fault, "***" in sent) == (Fault.RUN_CONTAINER_ERROR, True)
    assert value in error.message and value in detail.status.containers[0].message, "the runtime has quoted it"
    for form in (value, base64.b64encode(value.encode()).decode()):
        assert form not in sent


async def test_a_secret_used_in_a_sub_path_is_redacted(mounting: Bench, caplog: pytest.LogCaptureFixture) -> None:
    value = f"part-{secrets.token_hex(8)}"
    mounting.node.objects.put(secret("keys", where=value))
    env = [{"name": "WHERE", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "where"}}}]
    mounts = [{"name": "v", "mountPath": "/x", "subPathExpr": "$(WHERE)/x"}]
    pod = mounting.pod(container(env=env, volumeMounts=mounts), volumes=[{"name": "v", "emptyDir": {}}])
    await pod.create_sandbox()
    (pod.directory / "volumes" / "kubernetes.io~empty-dir" / "v" / value).symlink_to("/etc")
    _, error, detail = await fault_of(pod.start())
    failure = Failure()
    DATA_CONVERTER.failure_converter.to_failure(error, DATA_CONVERTER.payload_converter, failure)
    assert "leads out of its directory" in caplog.text
    for told in (str(failure), caplog.text, detail.model_dump_json()):
        assert "failed to prepare subPath for volumeMount" in told
        assert value not in told


async def test_a_new_worker_redacts_secrets_that_the_previous_one_used(bench: Bench) -> None:
    bench.node.objects.put(secret("keys", token="s3cret", empty=""))
    bench.node.objects.put(config_map("settings", color="blue"))
    assert known_secret_values(bench.node.objects) == {"s3cret"}


async def test_a_sub_path_is_bound_for_each_instance_and_unmounted_with_the_pod(mounting: Bench) -> None:
    pod = mounting.pod(
        container(
            command=["sh", "-c", "ls /site /data; echo >> /data/$HOSTNAME; cat /one"],
            env=[{"name": "WHO", "value": "me"}],
            volumeMounts=[
                {"name": "v", "mountPath": "/site", "subPath": "site", "readOnly": True},
                {"name": "v", "mountPath": "/data", "subPathExpr": "data/$(WHO)"},
                {"name": "v", "mountPath": "/one", "subPath": "site/one"},
            ],
        ),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    await pod.create_sandbox()
    volume = pod.directory / "volumes" / "kubernetes.io~empty-dir" / "v"
    (volume / "site").mkdir()
    (volume / "site" / "one").write_text("first\n")
    await pod.start()
    assert "first" in await said(pod)
    assert (volume / "data" / "me").is_dir()
    places = [pod.directory / "volume-subpaths" / "v" / "main" / str(index) for index in range(3)]
    assert [is_mount(place) for place in places] == [True, True, True]
    # Replaced, as an editor does it: the next instance sees the new file.
    (volume / "site" / "new").write_text("second\n")
    (volume / "site" / "new").rename(volume / "site" / "one")
    await pod.start(restart=1)
    assert "second" in await said(pod, restart=1)
    await pod.kill(grace=1)
    await pod.remove()
    assert not pod.directory.exists()
    assert not mounts_below(pod.directory)


REFUSED_PARTS = {
    "symlink": ({"subPath": "etc"}, 'failed to prepare subPath for volumeMount "v" of container "symlink"'),
    "below": ({"subPath": "etc/shadow"}, 'failed to prepare subPath for volumeMount "v" of container "below"'),
    "up": ({"subPath": "up/x"}, 'failed to prepare subPath for volumeMount "v" of container "up"'),
    "nowhere": ({"subPath": "gone"}, 'failed to create subPath directory for volumeMount "v" of container "nowhere"'),
    "empty": ({"subPathExpr": "a/$(EMPTY)/$(NONE)"}, "missing value for EMPTY, NONE"),
    "absolute": ({"subPathExpr": "$(ROOT)"}, "error SubPath `$(ROOT)` must not be an absolute path"),
    "climbing": ({"subPathExpr": "a/$(UP)"}, "unable to provision SubPath `a/$(UP)`: must not contain '..'"),
}
"""By the container's name: the mount and the message, which never shows the value of an expression."""


async def test_a_sub_path_out_of_its_volume_fails_the_start_with_the_kubelets_message(mounting: Bench) -> None:
    env = [{"name": "EMPTY", "value": ""}, {"name": "ROOT", "value": "/etc"}, {"name": "UP", "value": "../.."}]
    pod = mounting.pod(
        *(
            container(name, env=env, volumeMounts=[{"name": "v", "mountPath": "/x", **mount}])
            for name, (mount, _) in REFUSED_PARTS.items()
        ),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    await pod.create_sandbox()
    volume = pod.directory / "volumes" / "kubernetes.io~empty-dir" / "v"
    for name, target in (("etc", "/etc"), ("up", "../../.."), ("gone", "nothing")):
        (volume / name).symlink_to(target)
    for name, (_, message) in REFUSED_PARTS.items():
        fault, error, detail = await fault_of(pod.start(name))
        assert (fault, error.message) == (Fault.CREATE_CONTAINER_CONFIG_ERROR, message)
        assert [each.reason for each in detail.events] == ["Pulled", "Failed"]
        assert detail.events[-1].message == f"Error: {message}"
        assert detail.status.containers == ()


async def test_a_sub_path_is_refused_if_the_runtime_could_reach_more_than_the_worker(
    bench: Bench,
) -> None:
    bench.node.context = dataclasses.replace(bench.node.context, may_mount=False, hands_over_paths=False)
    pod = bench.pod(
        container(volumeMounts=[{"name": "v", "mountPath": "/x", "subPath": "a"}]),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    await pod.create_sandbox()
    fault, error, _ = await fault_of(pod.start())
    assert (fault, "cannot be mounted here" in error.message) == (Fault.CREATE_CONTAINER_CONFIG_ERROR, True)
    bench.node.context = dataclasses.replace(bench.node.context, hands_over_paths=True)
    assert (await pod.start()).status.containers[0].state == "running"


async def test_a_host_sub_path_is_refused_if_the_worker_sees_other_files_there(mounting: Bench, tmp_path: Path) -> None:
    mounting.node.context = dataclasses.replace(mounting.node.context, has_own_files=True)
    pod = mounting.pod(
        container("theirs", volumeMounts=[{"name": "h", "mountPath": "/x", "subPath": "a"}]),
        container("ours", volumeMounts=[{"name": "v", "mountPath": "/x", "subPath": "a"}]),
        volumes=[{"name": "h", "hostPath": {"path": str(tmp_path / "only here")}}, {"name": "v", "emptyDir": {}}],
    )
    (tmp_path / "only here").mkdir()
    await pod.create_sandbox()
    _, error, _ = await fault_of(pod.start("theirs"))
    assert error.message == 'failed to prepare subPath for volumeMount "h" of container "theirs"'
    assert (await pod.start("ours")).status.containers[0].state == "running"
