"""Placement of pods: each filter with the scheduler's message, scores, and properties for every fleet.

Holds: A pod is placed only on a node that passes every filter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from syncpod.fleet.affinity import own_anti_affinity
from syncpod.fleet.offers import NodeOffer, PodThere, Taint
from syncpod.fleet.placement import place, refusal
from syncpod.lifecycle.node_affinity import matches_node
from syncpod.pod import Pod
from syncpod.pod.amounts import requested_amounts
from syncpod.pod.host_ports import HostPort, host_ports
from tests.fleet.fleets import FLEETS, GIB, anti_affinity, node, pod, pods, selecting, spreading, there

PORTS = [{"containerPort": 80, "hostPort": 8080}]
ZONED: dict[str, Any] = {"labels": {"zone": "east"}}


def preferred(key: str, value: str, weight: int = 10) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": term}]}
    }


def near(app: str, topology: str) -> dict[str, Any]:
    term = {"labelSelector": selecting(app), "topologyKey": topology}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(
    ("asking", "offer", "reasons", "detail"),
    [
        (pod(), node(unschedulable=True), ("node(s) were unschedulable",), "it is cordoned"),
        (
            pod(tolerations=[{"operator": "Exists"}]),
            node(doubled=True),
            ("node(s) had two machines answering",),
            "two machines answer as n1",
        ),
        (pod(nodeName="n9"), node(), ("node(s) didn't match the requested node name",), "spec.nodeName: n9"),
        (
            pod(),
            node(taints=(Taint("dedicated", "db", "NoSchedule"),)),
            ("node(s) had untolerated taint(s)",),
            "taint dedicated=db:NoSchedule",
        ),
        (
            pod(),
            node(presence="NotReady"),
            ("node(s) had untolerated taint(s)",),
            "taint node.kubernetes.io/not-ready:NoSchedule",
        ),
        (
            pod(tolerations=[{"operator": "Exists"}]),
            node(presence="Unknown"),
            ("node(s) had untolerated taint(s)",),
            "the fleet receives no reports from the node",
        ),
        (pod(nodeSelector={"disk": "ssd"}), node(), ("node(s) didn't match Pod's node affinity/selector",), ""),
        (
            pod(ports=PORTS),
            node(ports=(HostPort("0.0.0.0", "TCP", 8080),)),
            ("node(s) didn't have free ports for the requested pod ports",),
            "",
        ),
        (
            pod(limits={"memory": "64Mi", "hugepages-2Mi": "2Mi"}),
            node(unenforced_limits=frozenset({"cpu", "memory", "hugepages"})),
            ("node(s) couldn't enforce limits",),
            "limits of hugepages, memory",
        ),
        (
            pod(cpu="2"),
            node(taken={"cpu": 2500}, allocatable={"cpu": 4000, "pods": 0}),
            ("Too many pods", "Insufficient cpu"),
            "pods: has 0, may have 0; cpu: requested 2000, taken 2500, allocatable 4000",
        ),
        (
            pod(topologySpreadConstraints=[spreading("web", "zone")]),
            node(),
            ("node(s) didn't match pod topology spread constraints (missing required label)",),
            "",
        ),
        (pod(affinity=near("db", "zone")), node(**ZONED), ("node(s) didn't match pod affinity rules",), ""),
        (
            pod(affinity=anti_affinity("web")),
            node(pods=(there(),)),
            ("node(s) didn't match pod anti-affinity rules",),
            "",
        ),
        (
            pod(),
            node(
                pods=(there("db", "db", apart_from=own_anti_affinity(pod(affinity=anti_affinity("web")), "default")),)
            ),
            ("node(s) didn't satisfy existing pods anti-affinity rules",),
            "",
        ),
    ],
)
def test_each_filter_speaks_as_the_scheduler_does(
    asking: Pod, offer: NodeOffer, reasons: tuple[str, ...], detail: str
) -> None:
    found = place(asking, [offer])
    assert (found.node, found.nodes[0].reasons, found.nodes[0].detail) == ("", reasons, detail)


def test_the_summary_counts_reasons_as_a_scheduler_does() -> None:
    offers = [
        node("n1", taken={"cpu": 3000}),
        node("n2", taken={"cpu": 3500}),
        node("n3", unschedulable=True),
        node("n4", taints=(Taint("dedicated", "db"),)),
    ]
    assert place(pod(cpu="2"), offers).summary == (
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu."
    )
    assert place(pod(), []).summary == "no nodes available to schedule pods"


def test_a_pod_with_gates_goes_nowhere() -> None:
    found = place(pod(schedulingGates=[{"name": "example.com/quota"}]), [node()])
    assert (found.node, found.summary) == (
        "",
        "Scheduling is blocked due to non-empty scheduling gates: example.com/quota",
    )


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerated"),
    [
        ({"operator": "Exists"}, Taint("a", "b", "NoExecute"), True),
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, Taint("a", "b", "NoExecute"), False),
        ({"key": "a", "value": "b"}, Taint("a", "b"), True),
        ({"key": "a", "value": "c"}, Taint("a", "b"), False),
        ({"key": "sla", "operator": "Gt", "value": "950"}, Taint("sla", "999"), True),
        ({"key": "sla", "operator": "Gt", "value": "950"}, Taint("sla", "950"), False),
        ({"key": "sla", "operator": "Lt", "value": "5"}, Taint("sla", "-7"), True),
        ({"key": "sla", "operator": "Lt", "value": "5"}, Taint("sla", "low"), False),
    ],
)
def test_tolerations(toleration: dict[str, Any], taint: Taint, tolerated: bool) -> None:
    assert bool(place(pod(tolerations=[toleration]), [node(taints=(taint,))]).node) is tolerated


def test_a_spread_counts_domains_and_not_nodes() -> None:
    asking = pod(topologySpreadConstraints=[spreading("web", "zone")])
    east = [node(name, labels={"zone": "east"}, pods=(there(name),)) for name in ("n1", "n2")]
    west = node("n3", labels={"zone": "west"}, pods=(there("a"),))
    found = place(asking, [*east, west])
    assert found.node == "n3"
    assert found.nodes[0].reasons == ("node(s) didn't match pod topology spread constraints",)
    assert place(asking, [*east, west, node("n4", labels={"zone": "north"}, unschedulable=True)]).node == ""


@pytest.mark.parametrize("closed", [{"unschedulable": True}, {"doubled": True}])
@pytest.mark.parametrize(("honors", "goes_to"), [("Honor", "n1"), ("Ignore", "")])
def test_a_spread_that_honors_taints_does_not_wait_for_a_node_that_takes_no_pods(
    closed: dict[str, bool], honors: str, goes_to: str
) -> None:
    asking = pod(topologySpreadConstraints=[spreading("web", "kubernetes.io/hostname", nodeTaintsPolicy=honors)])
    assert place(asking, [node("n1", pods=(there(),)), node("n2", **closed)]).node == goes_to


def test_a_node_has_one_pod_of_a_name() -> None:
    found = place(pod("web-1"), [node("n1", namesakes=("web-1",)), node("n2", pods=(there(),))])
    assert (found.node, found.nodes[0].reasons) == ("n2", ("node(s) had a pod of that name",))


def test_too_few_domains_count_as_an_empty_one() -> None:
    asking = pod(topologySpreadConstraints=[spreading("web", "zone", minDomains=2)])
    assert place(asking, [node(labels={"zone": "east"})]).node == "n1"
    assert place(asking, [node(labels={"zone": "east"}, pods=(there(),))]).node == ""


def test_match_label_keys_compare_pods_of_one_template() -> None:
    asking = pod(
        labels={"app": "web", "pod-template-hash": "new"},
        topologySpreadConstraints=[spreading("web", "kubernetes.io/hostname", matchLabelKeys=["pod-template-hash"])],
    )
    old = PodThere("default", "old", {"app": "web", "pod-template-hash": "old"})
    assert place(asking, [node("n1", pods=(old, old)), node("n2", unschedulable=True)]).node == "n1"


def test_the_first_of_a_group_may_be_anywhere() -> None:
    asking = pod(affinity=near("web", "zone"))
    assert place(asking, [node(**ZONED)]).node == "n1"
    assert place(asking, [node()]).node == ""
    assert place(asking, [node(**ZONED), node("n2", labels={"zone": "west"}, pods=(there(),))]).node == "n2"


@pytest.mark.parametrize(
    ("asking", "worse", "better"),
    [
        (pod(affinity=preferred("disk", "ssd")), {}, {"labels": {"disk": "ssd"}}),
        (pod(), {"taints": (Taint("busy", effect="PreferNoSchedule"),)}, {}),
        (pod(), {"taken": {"cpu": 2000}}, {"taken": {"cpu": 1000}}),
        (pod(), {"pods": (there(), there("b"))}, {"pods": (there(),)}),
        (
            pod(topologySpreadConstraints=[spreading("web", "zone", whenUnsatisfiable="ScheduleAnyway")]),
            {"labels": {"zone": "east"}, "pods": (there(),)},
            {"labels": {"zone": "west"}},
        ),
    ],
)
def test_scores(asking: Pod, worse: dict[str, Any], better: dict[str, Any]) -> None:
    assert place(asking, [node("n1", **worse), node("n2", **better)]).node == "n2"
    assert place(asking, [node("n1", **better), node("n2", **worse)]).node == "n1"


def test_pods_of_one_workload_keep_apart_without_being_asked() -> None:
    first = node("n1", taken={}, pods=(there("web-1", owner="w"),))
    second = node("n2", taken={"cpu": 1000, "memory": 2 * GIB}, pods=(there("x", "db"), there("y", "db")))
    assert place(pod("web-2"), [first, second], owner="w").node == "n2"
    assert place(pod("web-2"), [first, second]).node == "n1"


def test_pods_of_an_earlier_template_do_not_count_for_the_spread_since_the_rollout_ends_them() -> None:
    def of(template: str, name: str) -> PodThere:
        return replace(there(name, owner="w"), labels={"app": "web", "pod-template-hash": template})

    leaves, has_one = node("n1", pods=(of("old", "web-1"), of("old", "web-2"))), node("n2", pods=(of("new", "web-3"),))
    asking = pod("web-4", labels=of("new", "web-4").labels)
    assert place(asking, [leaves, has_one], owner="w").node == "n1"


def test_equal_nodes_are_not_all_passed_by() -> None:
    chosen = {place(pod(f"web-{number}"), [node("n1"), node("n2"), node("n3")]).node for number in range(30)}
    assert chosen == {"n1", "n2", "n3"}


@settings(max_examples=50)
@given(pods(), FLEETS)
def test_a_pod_only_goes_where_nothing_speaks_against_it(asking: Pod, fleet: list[NodeOffer]) -> None:
    found = place(asking, fleet, owner="w")
    assert [each.node for each in found.nodes] == sorted(one.name for one in fleet)
    assert bool(found.node) == any(verdict.fits for verdict in found.nodes)
    if not found.node:
        return
    chosen = next(one for one in fleet if one.name == found.node)
    assert next(verdict for verdict in found.nodes if verdict.node == found.node).fits
    assert chosen.presence != "Unknown" and not chosen.unschedulable
    assert matches_node(asking, chosen.name, chosen.labels)
    assert not set(host_ports(asking)) & set(chosen.ports)
    for name, wanted in requested_amounts(asking).items():
        assert wanted + chosen.taken.get(name, 0) <= chosen.allocatable.get(name, wanted + chosen.taken.get(name, 0))
    assert refusal(asking, chosen, fleet) is None


@settings(max_examples=50)
@given(pods(), FLEETS, st.data())
def test_the_order_of_the_nodes_does_not_matter(asking: Pod, fleet: list[NodeOffer], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(fleet))
    assert place(asking, fleet, owner="w") == place(asking, shuffled, owner="w")


@settings(max_examples=50)
@given(pods(), FLEETS)
def test_a_node_that_gets_worse_is_not_taken_for_it(asking: Pod, fleet: list[NodeOffer]) -> None:
    found = place(asking, fleet)
    lost = [replace(one, presence="Unknown") if one.name == found.node else one for one in fleet]
    assert not found.node or place(asking, lost).node != found.node


@settings(max_examples=20)
@given(FLEETS)
def test_offers_cross_as_json(fleet: list[NodeOffer]) -> None:
    wire = TypeAdapter(list[NodeOffer])
    assert wire.validate_json(wire.dump_json(fleet)) == fleet
