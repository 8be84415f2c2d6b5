"""Changes of the resources of a running container."""

from collections.abc import Callable

import pytest

from syncpod.lifecycle.actions import ContainerResources, ContainersToUpdate, ContainerToUpdate, PodActions
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.kubelet_version import KubeletVersion
from tests.lifecycle.situation import Situation, act, kill, three_containers, three_init_containers, three_sidecars

MI = 1024 * 1024
V1_36 = KubeletVersion.V1_36
Mutate = Callable[[Situation], Situation]


def values(
    *, cpu: int = 0, memory: int = 0, cpu_request: int | None = None, memory_request: int | None = None
) -> ContainerResources:
    """Return resources in millicores and MiB, by default with requests equal to the limits."""
    return ContainerResources(
        memory_limit=memory * MI,
        memory_request=(memory if memory_request is None else memory_request) * MI,
        cpu_limit=cpu,
        cpu_request=cpu if cpu_request is None else cpu_request,
    )


def update(name: str, desired: ContainerResources, current: ContainerResources) -> ContainerToUpdate:
    return ContainerToUpdate(name=name, id=f"{name}-id", desired=desired, current=current)


def both(cpu: str, memory: str) -> dict[str, dict[str, str]]:
    """Return limits and equal requests."""
    return {"limits": {"cpu": cpu, "memory": memory}, "requests": {"cpu": cpu, "memory": memory}}


def sized() -> Situation:
    """Return three running containers, each made with 100m and 100Mi."""
    s = three_containers()
    for name in ("foo1", "foo2", "foo3"):
        s.of(name, resources=both("100m", "100Mi")).applied(name, **both("100m", "100Mi"))
    return s


def restart_for(*resources: str) -> list[dict[str, str]]:
    return [{"resourceName": name, "restartPolicy": "RestartContainer"} for name in resources]


SIZE = values(cpu=100, memory=100)

SITUATIONS: dict[str, tuple[Mutate, PodActions]] = {
    "resources are as applied, though written otherwise; do nothing": (
        lambda s: s.of("foo1", resources=both("0.1", "102400Ki")),
        act(),
    ),
    "quantities are rounded up to millicores and bytes before they are compared": (
        lambda s: s.applied("foo1", **both("99.1m", "104857599500m")),
        act(),
    ),
    "more cpu is applied in place": (
        lambda s: s.of("foo2", resources=both("200m", "100Mi")),
        act(containers_to_update=ContainersToUpdate(cpu=(update("foo2", values(cpu=200, memory=100), SIZE),))),
    ),
    "a request alone that changes is an update too": (
        lambda s: s.of("foo2", resources={**both("100m", "100Mi"), "requests": {"cpu": "50m", "memory": "100Mi"}}),
        act(
            containers_to_update=ContainersToUpdate(
                cpu=(update("foo2", values(cpu=100, cpu_request=50, memory=100), SIZE),)
            )
        ),
    ),
    "both resources change: each has its list, with the whole of what is wanted": (
        lambda s: s.of("foo2", resources=both("200m", "50Mi")),
        act(
            containers_to_update=ContainersToUpdate(
                memory=(update("foo2", values(cpu=200, memory=50), SIZE),),
                cpu=(update("foo2", values(cpu=200, memory=50), SIZE),),
            )
        ),
    ),
    "decreases come first, the last one decided before the others; increases follow in order": (
        lambda s: (
            s.of("foo1", resources=both("300m", "10Mi"))
            .of("foo2", resources=both("50m", "300Mi"))
            .of("foo3", resources=both("10m", "400Mi"))
        ),
        act(
            containers_to_update=ContainersToUpdate(
                memory=(
                    update("foo1", values(cpu=300, memory=10), SIZE),
                    update("foo2", values(cpu=50, memory=300), SIZE),
                    update("foo3", values(cpu=10, memory=400), SIZE),
                ),
                cpu=(
                    update("foo3", values(cpu=10, memory=400), SIZE),
                    update("foo2", values(cpu=50, memory=300), SIZE),
                    update("foo1", values(cpu=300, memory=10), SIZE),
                ),
            )
        ),
    ),
    "a limit that changes says whether it is a decrease, whatever the request does": (
        lambda s: s.of("foo1", resources=both("200m", "100Mi")).of(
            "foo2",
            resources={"limits": {"cpu": "50m", "memory": "100Mi"}, "requests": {"cpu": "150m", "memory": "100Mi"}},
        ),
        act(
            containers_to_update=ContainersToUpdate(
                cpu=(
                    update("foo2", values(cpu=50, cpu_request=150, memory=100), SIZE),
                    update("foo1", values(cpu=200, memory=100), SIZE),
                )
            )
        ),
    ),
    "a limit that is taken away is a decrease to nothing": (
        lambda s: s.of("foo1", resources={"requests": {"cpu": "100m", "memory": "100Mi"}}),
        act(
            containers_to_update=ContainersToUpdate(
                memory=(update("foo1", values(memory_request=100, cpu_request=100), SIZE),),
                cpu=(update("foo1", values(memory_request=100, cpu_request=100), SIZE),),
            )
        ),
    ),
    "no record of what was applied counts as nothing applied": (
        lambda s: s.applied("foo1"),
        act(
            containers_to_update=ContainersToUpdate(
                memory=(update("foo1", SIZE, values()),), cpu=(update("foo1", SIZE, values()),)
            )
        ),
    ),
    "a resize policy restarts the container": (
        lambda s: s.of("foo2", resources=both("200m", "100Mi"), resizePolicy=restart_for("cpu")),
        act(
            containers_to_start=(1,),
            containers_to_kill=(kill("foo2", "Container foo2 resize requires restart", KillCause.RESIZE),),
            update_pod_resources=True,
        ),
    ),
    "a resize policy for the other resource does not": (
        lambda s: s.of("foo2", resources=both("200m", "100Mi"), resizePolicy=restart_for("memory")),
        act(containers_to_update=ContainersToUpdate(cpu=(update("foo2", values(cpu=200, memory=100), SIZE),))),
    ),
    "one resource that restarts the container takes the other with it": (
        lambda s: s.of("foo2", resources=both("200m", "200Mi"), resizePolicy=restart_for("memory")),
        act(
            containers_to_start=(1,),
            containers_to_kill=(kill("foo2", "Container foo2 resize requires restart", KillCause.RESIZE),),
            update_pod_resources=True,
        ),
    ),
    "a change of the request alone restarts it as well": (
        lambda s: s.of("foo2", resources={"limits": both("100m", "100Mi")["limits"]}, resizePolicy=restart_for("cpu")),
        act(
            containers_to_start=(1,),
            containers_to_kill=(kill("foo2", "Container foo2 resize requires restart", KillCause.RESIZE),),
            update_pod_resources=True,
        ),
    ),
    "it is restarted whatever the pod's policy, and keeps the pod alive": (
        lambda s: (
            s.policy("Never")
            .exited("foo1", "foo3")
            .of("foo2", resources=both("200m", "100Mi"), resizePolicy=restart_for("cpu"))
        ),
        act(
            containers_to_start=(1,),
            containers_to_kill=(kill("foo2", "Container foo2 resize requires restart", KillCause.RESIZE),),
            update_pod_resources=True,
        ),
    ),
    "a resize policy without a change does nothing": (
        lambda s: s.of("foo2", resizePolicy=restart_for("cpu", "memory")),
        act(),
    ),
    "a container that does not run is not resized": (
        lambda s: s.policy("Never").exited("foo1").of("foo1", resources=both("200m", "200Mi")),
        act(),
    ),
    "a container that is killed for its probe is not resized besides": (
        lambda s: s.of("foo1", resources=both("200m", "100Mi")).live("foo1", "failure"),
        act(
            containers_to_start=(0,),
            containers_to_kill=(
                kill("foo1", "Container foo1 failed liveness probe, will be restarted", KillCause.LIVENESS),
            ),
            update_pod_resources=True,
        ),
    ),
    "1.36: nor is its pod": (
        lambda s: s.under(V1_36).of("foo1", resources=both("200m", "100Mi")).live("foo1", "failure"),
        act(
            containers_to_start=(0,),
            containers_to_kill=(
                kill("foo1", "Container foo1 failed liveness probe, will be restarted", KillCause.LIVENESS),
            ),
        ),
    ),
    "a pod is resized before a container starts that has exited, and gets other resources than it had": (
        lambda s: s.exited("foo1", code=1).of("foo1", resources=both("200m", "100Mi")),
        act(containers_to_start=(0,), update_pod_resources=True),
    ),
    "static pods are resized like any other": (
        lambda s: s.from_source("file").of("foo2", resources=both("200m", "100Mi")),
        act(containers_to_update=ContainersToUpdate(cpu=(update("foo2", values(cpu=200, memory=100), SIZE),))),
    ),
    "pod-level resources that were never applied are to be": (
        lambda s: s.with_spec(resources={"requests": {"cpu": "1"}}),
        act(update_pod_level_resources=True),
    ),
    "pod-level resources that were taken away are to be applied anew": (
        lambda s: s.applied_to_pod(requests={"memory": "1Gi"}),
        act(update_pod_level_resources=True),
    ),
    "pod-level resources as applied, though written otherwise; do nothing": (
        lambda s: s.with_spec(resources={"limits": {"cpu": "1"}}).applied_to_pod(limits={"cpu": "1000m"}, requests={}),
        act(),
    ),
    "an empty record of pod-level resources is as good as none": (lambda s: s.applied_to_pod(), act()),
    "pod-level resources are compared even as the pod ends": (
        lambda s: s.policy("Never").exited("foo1", "foo2", "foo3").with_spec(resources={"limits": {"cpu": "1"}}),
        act(kill_pod=True, update_pod_level_resources=True),
    ),
}


@pytest.mark.parametrize(("mutate", "expected"), SITUATIONS.values(), ids=SITUATIONS)
def test_main_containers(mutate: Mutate, expected: PodActions) -> None:
    assert mutate(sized()).decide() == expected


def test_a_container_without_a_limit_is_bounded_by_the_pod_limit_but_requests_only_its_own() -> None:
    s = three_containers().with_spec(resources=both("300m", "300Mi")).applied_to_pod(**both("300m", "300Mi"))
    assert s.decide() == act()
    s.applied_to_pod(**both("200m", "300Mi"))
    desired, current = (values(cpu=cpu, memory=300, cpu_request=0, memory_request=0) for cpu in (300, 200))
    assert s.decide() == act(
        containers_to_update=ContainersToUpdate(
            cpu=tuple(update(name, desired, current) for name in ("foo1", "foo2", "foo3"))
        ),
        update_pod_level_resources=True,
    )


def test_a_limit_of_zero_is_no_limit() -> None:
    s = sized().with_spec(resources=both("100m", "100Mi")).applied_to_pod(**both("100m", "100Mi"))
    s.of("foo1", resources={"limits": {"cpu": "0", "memory": "0"}, "requests": {"cpu": "100m", "memory": "100Mi"}})
    assert s.decide() == act()


def test_pod_level_resources_are_resized_only_after_initialization() -> None:
    s = three_init_containers().with_spec(resources={"limits": {"cpu": "1"}}).running("init3")
    assert not s.decide().update_pod_level_resources
    assert s.exited("init3").decide().update_pod_level_resources
    assert not s.sandbox(ip="").decide().update_pod_level_resources


def test_a_running_init_container_is_resized_while_the_pod_waits_for_it() -> None:
    s = three_init_containers().gone("init3").running("init2").of("init2", resources=both("1", "1Mi"))
    change = update("init2", values(cpu=1000, memory=1), values())
    assert s.decide() == act(containers_to_update=ContainersToUpdate(memory=(change,), cpu=(change,)))
    s.of("init2", resizePolicy=restart_for("memory"))
    assert s.decide() == act(
        init_containers_to_start=(1,),
        containers_to_kill=(kill("init2", "Container init2 resize requires restart", KillCause.RESIZE),),
        update_pod_resources=True,
    )


def test_sidecars_are_resized_before_main_containers_and_the_last_one_first() -> None:
    s = three_sidecars()
    for name in ("init1", "init3", "foo1"):
        s.of(name, resources={"limits": {"cpu": "1"}})
    more = values(cpu=1000, cpu_request=0)
    assert s.decide() == act(
        containers_to_update=ContainersToUpdate(
            cpu=tuple(update(name, more, values()) for name in ("init3", "init1", "foo1"))
        )
    )


def test_a_sidecar_is_resized_only_after_its_startup_and_liveness_results_are_known() -> None:
    s = three_sidecars().of("init1", resources={"limits": {"cpu": "1"}}, startupProbe={}, livenessProbe={})
    assert s.decide() == act()
    assert s.started("init1").decide() == act()
    assert s.live("init1", "unknown").decide().containers_to_update.cpu


def test_a_sidecar_restarted_for_its_resize_lets_the_next_one_start() -> None:
    s = three_sidecars().gone("init2", "init3", "foo1", "foo2", "foo3")
    s.of("init1", resources={"limits": {"cpu": "1"}}, resizePolicy=restart_for("cpu"))
    assert s.decide() == act(
        init_containers_to_start=(0, 1),
        containers_to_kill=(kill("init1", "Container init1 resize requires restart", KillCause.RESIZE),),
        update_pod_resources=True,
    )
