"""A deletion respects the pod's grace period, and then leaves only the result of the workflow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import WorkflowExecutionStatus

from tests.e2e.engine import EngineNode, LivePod, Pods, conditions_of, shell, status_of
from tests.e2e.meanwhile import Told, meanwhile
from tests.e2e.words import say, waits_for

pytestmark = pytest.mark.every_runtime(
    "the runtime keeps the grace period and removes what is dead", one_containerd=True
)

SAYS = f"echo {{name}} begins >> /out/said; trap '{{on_term}}' TERM; echo {{name}} >> /out/said; {waits_for('/word')}"
GRACE = 5
FOR_EVER = 2**63 - 1


def telling(name: str, on_term: str, **more: Any) -> dict[str, Any]:
    """A container that writes its name into a file once it handles SIGTERM, and does `on_term` at that signal."""
    mounts = [{"name": "out", "mountPath": "/out"}]
    return shell(name, SAYS.format(name=name, on_term=on_term), volumeMounts=mounts, **more)


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def slow(engine: EngineNode, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Told]:
    """Runs stories that wait for slow containers, while the other tests run."""
    stories = (
        partial(deletion_keeps_the_grace, place=tmp_path_factory.mktemp("grace")),
        partial(sidecars_stop_last, place=tmp_path_factory.mktemp("sidecars")),
        a_later_deletion_shortens_the_grace,
    )
    async with meanwhile(engine, *stories) as told:
        yield told


async def deletion_keeps_the_grace(pods: Pods, *, place: Path) -> None:
    engine = pods.node
    said = place / "said"
    pod = await pods.apply(
        "grace",
        telling("tidy", "echo tidy is told >> /out/said; sleep 1; echo tidy ends >> /out/said; exit 0"),
        telling("stubborn", ""),  # an empty trap: the signal is ignored
        volumes=[{"name": "out", "hostPath": {"path": str(place)}}, {"name": "scratch", "emptyDir": {}}],
        terminationGracePeriodSeconds=GRACE,
    )
    uid = (await pod.running())["metadata"]["uid"]
    await pod.until(lambda _: said.exists() and {"tidy", "stubborn"} <= set(said.read_text().split("\n")))
    # Now it exists in every cgroup controller (if permitted) and on disk; later it must be gone.
    assert bool(engine.cgroups(uid)) == bool(engine.runtime.cgroup_parent)
    assert {path.parent.name for path in engine.directories(uid)} == {"pods", "logs", "containers"}

    final = await pod.delete()

    assert ends(final) == {"tidy": (0, "Completed"), "stubborn": (137, "Error")}
    lines = said.read_text().splitlines()
    assert lines.index("tidy is told") < lines.index("tidy ends")
    (killed,) = [line for line in await pod.history("step") if line["subject"] == "kill_pod"]
    assert killed["tookMs"] >= GRACE * 1000  # the stubborn container had its whole grace period
    assert killed["reason"] == "deleted"
    assert final["status"]["phase"] == "Failed"
    assert conditions_of(final)["Ready"] == ("False", "PodFailed")
    assert final["metadata"]["deletionGracePeriodSeconds"] == GRACE
    assert (await pod.handle.describe()).status == WorkflowExecutionStatus.COMPLETED
    told = {event["container"]: event["message"] for event in await pod.events("Killing")}
    assert told == {name: f"Stopping container {name}" for name in ("tidy", "stubborn")}


async def sidecars_stop_last(pods: Pods, *, place: Path) -> None:
    """Sidecars stop last, in the order of kuberuntime_termination_order.go."""
    said = place / "said"
    then = "echo {0} is told >> /out/said; sleep 1; echo {0} ends >> /out/said; exit 0"
    pod = await pods.apply(
        "sidecars",
        telling("main", then.format("main")),
        telling("other", then.format("other")),
        initContainers=[telling(name, then.format(name), restartPolicy="Always") for name in ("one", "two")],
        volumes=[{"name": "out", "hostPath": {"path": str(place)}}],
        terminationGracePeriodSeconds=60,
    )
    await pod.running()
    everybody = {"main", "other", "one", "two"}
    await pod.until(lambda _: everybody <= set(said.read_text().split("\n")))
    final = await pod.delete()
    assert ends(final) == dict.fromkeys(("main", "other", "one", "two"), (0, "Completed"))
    assert final["status"]["phase"] == "Succeeded"
    turns = [line for line in said.read_text().splitlines() if line.endswith(("is told", "ends"))]
    assert set(turns[:4]) == {"main is told", "other is told", "main ends", "other ends"}
    assert turns[4:] == ["two is told", "two ends", "one is told", "one ends"]


async def a_later_deletion_shortens_the_grace(pods: Pods) -> None:
    """Row 17, row 77: from the API's longest grace to a second; Killing is reported when the kill begins."""
    stubborn = shell("stubborn", "trap '' TERM; exec sleep 600")
    pod = await pods.apply("shorter", stubborn, terminationGracePeriodSeconds=FOR_EVER)
    await pod.running()
    await pod.armed("stubborn")
    await pod.handle.execute_update("delete", {})
    await pod.until(lambda pod: pod["metadata"].get("deletionGracePeriodSeconds") == FOR_EVER)
    assert (await pod.event("Killing"))["container"] == "stubborn"
    assert (await pod.instance("stubborn")).state == "running"
    # The end itself proves that nothing waits for ever.
    final = await pod.delete(grace=1)
    assert final["metadata"]["deletionGracePeriodSeconds"] == 1
    assert status_of(final, "stubborn")["state"]["terminated"]["exitCode"] == 137


async def test_a_pod_whose_containers_exit_0_has_succeeded(pods: Pods) -> None:
    pod = await pods.apply("well", shell("main"))
    await pod.running()
    await pod.armed("main")
    final = await pod.delete()
    assert final["status"]["phase"] == "Succeeded"
    assert conditions_of(final)["Ready"] == ("False", "PodCompleted")


async def test_a_finished_pod_keeps_its_workflow_until_it_is_deleted(pods: Pods) -> None:
    """Row 16: a finished pod is terminated, and its record stays."""
    pod = await pods.apply("finished", shell("main", "exit 0"), restartPolicy="Never")
    await pod.phase("Succeeded")
    assert (await pod.handle.describe()).status == WorkflowExecutionStatus.RUNNING
    final = await pod.delete()
    assert final["status"]["phase"] == "Succeeded"
    assert status_of(final, "main")["state"]["terminated"]["exitCode"] == 0


async def test_a_pod_is_deleted_while_it_crashes(pods: Pods) -> None:
    pod = await pods.apply("crashing", shell("main", "exit 1"))
    await pod.until(lambda pod: "CrashLoopBackOff" in str(status_of(pod, "main").get("state")))
    final = await pod.delete()
    assert status_of(final, "main")["state"]["terminated"]["exitCode"] == 1


async def test_a_deleted_pods_name_can_be_used_again_at_once(pods: Pods) -> None:
    pod = await pods.apply("again", shell("main"))
    first = (await pod.running())["metadata"]["uid"]
    await pod.delete()
    await pod.apply()
    again = await pod.running()
    assert again["metadata"]["uid"] != first
    assert (await pod.sandbox()).attempt == 0
    assert status_of(again, "main")["restartCount"] == 0


async def test_a_pod_applied_during_deletion_starts_afterwards(pods: Pods, engine: EngineNode, tmp_path: Path) -> None:
    on_term = f"{waits_for('/out/end')}; exit 0"
    volumes = [{"name": "out", "hostPath": {"path": str(tmp_path)}}]
    pod = await pods.apply("next", telling("main", on_term), volumes=volumes)
    first = (await pod.running())["metadata"]["uid"]
    await pod.armed("main")
    old = await pod.sandbox()
    await pod.handle.execute_update("delete", {"gracePeriodSeconds": 600})
    # Fields that cannot change in a running pod may differ in the next pod.
    await pod.apply(containers=[shell("other")], restartPolicy="Never")
    assert await names(pod) == {"main"}
    await say(tmp_path / "end")

    await pod.until(lambda pod: pod["metadata"]["uid"] != first)
    following = await pod.running()
    assert await names(pod) == {"other"}
    assert [each.id != old.id for each in await pod.sandboxes()] == [True]
    assert "deletionTimestamp" not in following["metadata"]
    engine.assert_nothing_left(first)


async def test_deletion_keeps_the_grace_and_leaves_nothing(slow: Told) -> None:
    """Row 22, row 77: the grace is kept, and then nothing is left."""
    await slow["deletion_keeps_the_grace"]


async def test_sidecars_stop_after_the_main_containers_in_reverse_order(slow: Told) -> None:
    """Row 80: on real runtimes."""
    await slow["sidecars_stop_last"]


async def test_a_later_deletion_may_shorten_the_grace(slow: Told) -> None:
    """Row 17: the grace only shrinks."""
    await slow["a_later_deletion_shortens_the_grace"]


def ends(final: dict[str, Any]) -> dict[str, tuple[int, str]]:
    """How each container ended."""
    status = final["status"]
    terminated = {
        each["name"]: each["state"]["terminated"]
        for each in (*status["containerStatuses"], *status.get("initContainerStatuses", []))
    }
    return {name: (end["exitCode"], end["reason"]) for name, end in terminated.items()}


async def names(pod: LivePod) -> set[str]:
    return {each.name for each in await pod.containers()}
