"""Steps on the embedded runtime, which cannot pull images, and their messages about that."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio

from syncpod.agent.node_setup import node_context
from syncpod.messages.steps import Fault, Outcome
from syncpod.settings.node import node_settings
from tests.activities.bench import Bench, bench_of, container, fault_of
from tests.runtimes.containerd import Containerd
from tests.runtimes.embedded import Embedded

MACHINES = (
    "the embedded runtime has no registry, so the container runs programs of this machine. "
    "`syncpod load` gives the image files of its own"
)


@pytest.fixture(scope="session")
def runtime(embedded: Embedded) -> Embedded:
    return embedded


@pytest_asyncio.fixture
async def bench(runtime: Embedded, tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench_of(cast(Containerd, runtime), tmp_path) as bench:  # nothing here asks it for `ctr`
        yield bench


async def test_a_pull_on_the_embedded_runtime_says_that_nothing_was_pulled_and_what_to_do(bench: Bench) -> None:
    image = "registry.example.com/team/app:1"
    pod = bench.pod(container(image=image))
    await pod.create_sandbox()
    for result in (await pod.pull(), await pod.pull(), await pod.start()):
        assert result.outcome == Outcome.DONE
        [said] = [event.message for event in result.events if event.reason == "Pulled"]
        assert said == f'Nothing was pulled for image "{image}": {MACHINES}'


async def test_an_unapplied_seccomp_profile_is_reported_once_by_field(bench: Bench) -> None:
    default = {"seccompProfile": {"type": "RuntimeDefault"}}
    context = bench.node.context
    context.state_dir.mkdir(exist_ok=True)
    settings = node_settings({}, state_dir=str(context.state_dir), memory_dir=str(context.memory_dir))
    read = await node_context(settings, bench.cri, bench.runtime.endpoint, cluster="test/default")
    assert not read.applies_seccomp
    bench.node.context = dataclasses.replace(context, applies_seccomp=read.applies_seccomp)
    pod = bench.pod(container(securityContext=default), container("open"), securityContext=default)
    told = [await pod.create_sandbox(), await pod.pull(), await pod.start(), await pod.start("open")]
    assert [event.message for result in told for event in result.events if event.reason == "FieldNotApplied"] == [
        f"{path}.securityContext.seccompProfile: has no effect here: the embedded runtime applies no seccomp profile"
        for path in ("spec", "spec.containers[0]")
    ]


async def test_a_host_port_is_refused_by_field_before_the_runtime_is_asked_for_a_sandbox(bench: Bench) -> None:
    pod = bench.pod(container(ports=[{"containerPort": 80, "hostPort": 18080}]), hostNetwork=False)
    fault, error, detail = await fault_of(pod.create_sandbox())
    assert (fault, detail.status.sandboxes) == (Fault.UNSUPPORTED_BY_RUNTIME, ())
    assert str(error).startswith("UnsupportedByRuntime: spec.containers[0].ports[0].hostPort: host ports need")
    beside = bench.pod(container(ports=[{"containerPort": 18080, "hostPort": 18080}]), hostNetwork=True)
    assert (await beside.create_sandbox()).outcome == Outcome.DONE, "what cannot run takes no port from what can"
