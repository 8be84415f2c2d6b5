"""Short constructors of pods and nodes for the tests of the fleet, and Hypothesis strategies for them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from syncpod.fleet.affinity import own_anti_affinity
from syncpod.fleet.offers import NodeOffer, PodThere, Taint
from syncpod.pod import Pod, admit_pod

GIB = 1 << 30
APPS = ("web", "db")
ZONES = ("east", "west")


def pod(name: str = "web-1", **spec: Any) -> Pod:
    """Return an admitted pod; keywords are its `labels`, `cpu` request and `limits`, and fields of its spec."""
    labels = spec.pop("labels", {"app": "web"})
    resources = {"requests": {"cpu": spec.pop("cpu")}} if "cpu" in spec else {}
    resources |= {"limits": spec.pop("limits")} if "limits" in spec else {}
    container = {
        "name": "main",
        "image": "registry.local/main:1",
        "resources": resources,
        "ports": spec.pop("ports", []),
    }
    return admit_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [container], **spec},
        }
    )


def node(name: str = "n1", **fields: Any) -> NodeOffer:
    """Return a node of 4 CPUs and 8 GiB that has its hostname among its labels."""
    labels = {"kubernetes.io/hostname": name, **fields.pop("labels", {})}
    allocatable = fields.pop("allocatable", {"cpu": 4000, "memory": 8 * GIB, "pods": 110})
    return NodeOffer(name, labels=labels, allocatable=allocatable, **fields)


def there(name: str = "other", app: str = "web", **fields: Any) -> PodThere:
    return PodThere("default", name, labels={"app": app}, **fields)


def selecting(app: str) -> dict[str, Any]:
    return {"matchLabels": {"app": app}}


def anti_affinity(app: str, topology: str = "kubernetes.io/hostname") -> dict[str, Any]:
    term = {"labelSelector": selecting(app), "topologyKey": topology}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spreading(app: str, topology: str, **fields: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": topology,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selecting(app),
        **fields,
    }


TAINTS = st.builds(
    Taint,
    st.sampled_from(("dedicated", "gpu")),
    st.sampled_from(("", "db")),
    st.sampled_from(("NoSchedule", "PreferNoSchedule", "NoExecute")),
)
TOLERATIONS = st.one_of(
    st.fixed_dictionaries({"key": st.sampled_from(("dedicated", "gpu")), "operator": st.just("Exists")}),
    st.fixed_dictionaries({"key": st.just("dedicated"), "value": st.just("db"), "effect": st.just("NoSchedule")}),
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    spec: dict[str, Any] = {"labels": {"app": draw(st.sampled_from(APPS))}}
    if draw(st.booleans()):
        spec["cpu"] = draw(st.sampled_from(("500m", "2", "4")))
    if draw(st.booleans()):
        spec["nodeSelector"] = {"zone": draw(st.sampled_from(ZONES))}
    spec["tolerations"] = draw(st.lists(TOLERATIONS, max_size=2))
    if draw(st.booleans()):
        spec["affinity"] = anti_affinity(
            draw(st.sampled_from(APPS)), draw(st.sampled_from(("zone", "kubernetes.io/hostname")))
        )
    if draw(st.booleans()):
        hard = draw(st.sampled_from(("DoNotSchedule", "ScheduleAnyway")))
        spec["topologySpreadConstraints"] = [spreading(draw(st.sampled_from(APPS)), "zone", whenUnsatisfiable=hard)]
    if draw(st.booleans()):
        spec["ports"] = [{"containerPort": 80, "hostPort": draw(st.sampled_from((80, 81)))}]
    return pod(f"web-{draw(st.integers(1, 9))}", **spec)


@st.composite
def nodes(draw: st.DrawFn) -> NodeOffer:
    name = f"n{draw(st.integers(1, 99))}"
    found = [
        PodThere(
            "default",
            f"{name}-{index}",
            one.metadata.labels,
            draw(st.sampled_from(("", "w"))),
            False,
            own_anti_affinity(one, "default"),
        )
        for index, one in enumerate(draw(st.lists(pods(), max_size=2)))
    ]
    return node(
        name,
        labels={"zone": draw(st.sampled_from(ZONES))} if draw(st.booleans()) else {},
        taints=tuple(draw(st.lists(TAINTS, max_size=2))),
        unschedulable=draw(st.integers(0, 4)) == 0,
        presence=draw(st.sampled_from(("Ready", "Ready", "Ready", "NotReady", "Unknown"))),
        taken={"cpu": draw(st.sampled_from((0, 1500, 3900)))},
        pods=tuple(found),
    )


FLEETS = st.lists(nodes(), max_size=5, unique_by=lambda one: one.name)
