"""Pods made from templates, and the numbers of pods that documents ask for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from syncpod.fleet.daemon_sets import DaemonSet, DaemonSets
from syncpod.fleet.daemons import DaemonRolloutSpec
from syncpod.fleet.deployments import Deployment, Deployments
from syncpod.fleet.rollout import RolloutSpec
from syncpod.fleet.when_lost import WhenLost
from syncpod.fleet.workload_pods import owner_of, revision_of, workload_id, workload_in
from syncpod.fleet.workloads import admit_workload, kind_of
from syncpod.pod import admit
from syncpod.pod.wire import to_wire
from tests.fleet.test_workload_documents import changed


def test_a_pod_is_named_labelled_and_admitted_on_its_node_unchanged() -> None:
    workload = admit_workload(
        changed(
            metadata__namespace="shop",
            metadata__annotations={"syncpod.dev/when-lost": "stop-after=5m"},
            spec__template__spec__nodeSelector={"disk": "ssd"},
            spec__template__spec__tolerations=[{"key": "gpu", "operator": "Exists"}],
        )
    ).workload
    kind = kind_of(workload)
    template = kind.template(workload)
    made = kind.pod(workload, template, 7)
    assert (made.metadata.name, made.metadata.namespace, owner_of(workload)) == (
        "web-7",
        "shop",
        "workload/Deployment/shop/web",
    )
    assert made.metadata.labels == {"app": "web", "pod-template-hash": revision_of(template)}
    assert made.metadata.annotations == {"syncpod.dev/when-lost": "stop-after=5m0s"}
    assert admit(to_wire(made)).pod == made


def test_a_daemon_tolerates_what_daemons_do() -> None:
    workload = admit_workload(changed("DaemonSet")).workload
    made = kind_of(workload).pod(workload, kind_of(workload).template(workload), 1)
    assert "node.kubernetes.io/unschedulable" in {one.key for one in made.spec.tolerations}
    assert admit(to_wire(made)).pod == made


def test_revisions_tell_templates_apart_and_nothing_else() -> None:
    def revision(document: Any) -> str:
        workload = admit_workload(document).workload
        return revision_of(kind_of(workload).template(workload))

    one = revision(changed())
    assert revision(changed(spec__replicas=9, metadata__labels={"a": "b"})) == one
    assert revision(changed(spec__template__spec__hostNetwork=True)) != one
    assert revision(to_wire(admit_workload(changed()).workload)) == one


def test_what_documents_ask_for() -> None:
    deployment = admit_workload(
        changed(
            spec__replicas=10,
            spec__minReadySeconds=5,
            spec__paused=True,
            spec__template__spec__terminationGracePeriodSeconds=7,
            metadata__annotations={"syncpod.dev/when-lost": "replace-after=90s"},
        )
    ).workload
    assert isinstance(deployment, Deployment)
    revision = revision_of(deployment.spec.template)
    rule = WhenLost("replace-after", timedelta(seconds=90))
    five, seven, ten_minutes = timedelta(seconds=5), timedelta(seconds=7), timedelta(minutes=10)
    expected = RolloutSpec(
        revision, 10, 3, 2, paused=True, min_ready=five, deadline=ten_minutes, when_lost=rule, grace=seven
    )
    assert Deployments().rollout_spec(deployment) == expected
    endless = admit_workload(changed(spec__progressDeadlineSeconds=2**31 - 1, spec__strategy={"type": "Recreate"}))
    assert isinstance(endless.workload, Deployment)
    spec = Deployments().rollout_spec(endless.workload)
    assert (spec.deadline, spec.recreate) == (None, True)
    daemons = admit_workload(changed("DaemonSet", spec__updateStrategy={"rollingUpdate": {"maxUnavailable": "10%"}}))
    assert isinstance(daemons.workload, DaemonSet)
    assert DaemonSets().rollout_spec(daemons.workload) == DaemonRolloutSpec(
        revision_of(daemons.workload.spec.template), "10%", 0
    )


def test_a_workload_is_read_from_the_id_of_its_workflow_and_from_no_other() -> None:
    assert workload_in(workload_id("DaemonSet", "ops", "logs")) == ("DaemonSet", "ops", "logs")
    for other in (
        "",
        "pod/ops/logs",
        "workload/DaemonSet/ops",
        "workload/DaemonSet/ops/logs/more",
        "x/DaemonSet/ops/logs",
    ):
        assert workload_in(other) == ("", "", ""), other
