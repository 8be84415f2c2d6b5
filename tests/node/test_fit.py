"""A node's capacity, and the pods that fit."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.eviction_settings import EvictionSettings, eviction_policy
from syncpod.node.capacity import CapacityInvalid, parse_capacity, parse_reserved, read_capacity
from syncpod.node.fit import Capacity, Demand, Taken, demand_of, refusal_of_resize
from syncpod.pod import Pod
from syncpod.pod.host_ports import HostPort
from tests.translation.translation import HOST, make_pod

GIB = 1 << 30


def pod_of(requests: dict[str, str] | None = None, *ports: dict[str, Any], **spec: Any) -> Pod:
    """A pod with one container with these requests and ports."""
    resources = {"requests": requests or {}}
    return make_pod({"containers": [{"name": "a", "image": "i", "resources": resources, "ports": list(ports)}], **spec})


NODE: Capacity = {"cpu": 2000, "memory": 8 * GIB, "ephemeral-storage": 10 * GIB, "hugepages-2Mi": 0}

SHORT: dict[str, tuple[Pod, Pod, tuple[str, str] | None]] = {
    "of CPU": (
        pod_of({"cpu": "1500m"}),
        pod_of({"cpu": "2"}),
        ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 2000, used: 1500, capacity: 2000"),
    ),
    "of memory": (
        pod_of({"memory": "7Gi"}),
        pod_of({"memory": "1025Mi"}),
        (
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 1074790400, used: 7516192768, capacity: 8589934592",
        ),
    ),
    "of disk": (
        pod_of(),
        pod_of({"ephemeral-storage": "11Gi"}),
        (
            "OutOfephemeral-storage",
            "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, "
            "capacity: 10737418240",
        ),
    ),
    "of huge pages": (
        pod_of(),
        make_pod({"containers": [{"name": "a", "image": "i", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}]}),
        (
            "OutOfhugepages-2Mi",
            "Node didn't have enough resource: hugepages-2Mi, requested: 4194304, used: 0, capacity: 0",
        ),
    ),
    "of huge pages of a size that it has not got": (
        pod_of(),
        make_pod({"containers": [{"name": "a", "image": "i", "resources": {"limits": {"hugepages-1Gi": "1Gi"}}}]}),
        (
            "OutOfhugepages-1Gi",
            "Node didn't have enough resource: hugepages-1Gi, requested: 1073741824, used: 0, capacity: 0",
        ),
    ),
    "of two, and says the CPU": (
        pod_of(),
        pod_of({"memory": "9Gi", "cpu": "3"}),
        ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000"),
    ),
    "of what the overhead takes": (
        pod_of(overhead={"cpu": "1"}),
        pod_of({"cpu": "1"}, overhead={"cpu": "250m"}),
        ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 1250, used: 1000, capacity: 2000"),
    ),
    "of what the pod wants as a whole": (
        pod_of({"cpu": "100m"}, resources={"requests": {"cpu": "1"}}),
        pod_of(resources={"limits": {"cpu": "1001m"}}),
        ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 1001, used: 1000, capacity: 2000"),
    ),
    "of nothing, to the last bit": (pod_of({"cpu": "1500m"}), pod_of({"cpu": "500m"}), None),
    "of nothing that this one wants": (pod_of({"cpu": "2"}), pod_of({"memory": "1Gi"}), None),
}


@pytest.mark.parametrize(("there", "new", "refused"), SHORT.values(), ids=SHORT)
def test_a_pod_is_refused_exactly_if_a_resource_is_short(there: Pod, new: Pod, refused: tuple[str, str] | None) -> None:
    assert Taken([demand_of(there)]).refusal(demand_of(new), NODE) == refused


def test_a_resize_is_deferred_without_room_and_infeasible_beyond_the_nodes_capacity() -> None:
    """Row 115: deferred, or infeasible."""
    taken = Taken([demand_of(pod_of({"cpu": "1500m"}))])
    assert refusal_of_resize(demand_of(pod_of({"cpu": "500m"})), taken, NODE) is None
    assert refusal_of_resize(demand_of(pod_of({"cpu": "2"})), taken, NODE) == (
        ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 2000, used: 1500, capacity: 2000"),
        False,
    )
    assert refusal_of_resize(demand_of(pod_of({"cpu": "1", "memory": "9Gi"})), taken, NODE) == (
        ("OutOfmemory", "Node didn't have enough capacity: memory, requested: 9663676416, capacity: 8589934592"),
        True,
    )


def test_the_number_of_pods_is_limited_only_if_the_node_sets_a_limit() -> None:
    nothing = demand_of(pod_of())
    taken = Taken([nothing] * 200)
    assert taken.refusal(nothing, NODE) is None
    assert taken.refusal(nothing, {**NODE, "pods": 200}) == (
        "OutOfpods",
        "Node didn't have enough resource: pods, requested: 1, used: 200, capacity: 200",
    )


def port(number: int, ip: str = "", protocol: str = "TCP", container: int = 80) -> dict[str, Any]:
    return {"containerPort": container, "hostPort": number, "hostIP": ip, "protocol": protocol}


PORTS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "the same": (port(8080), port(8080), True),
    "another": (port(8080), port(8081), False),
    "the same of another protocol": (port(8080), port(8080, protocol="UDP"), False),
    "the same on two addresses": (port(8080, "192.0.2.1"), port(8080, "192.0.2.2"), False),
    "the same on one address": (port(8080, "192.0.2.1"), port(8080, "192.0.2.1"), True),
    "on all addresses and then on one": (port(8080), port(8080, "192.0.2.2"), True),
    "on one address and then on all": (port(8080, "192.0.2.1"), port(8080, "0.0.0.0"), True),
    "on all addresses of IPv6 too": (port(8080, "::"), port(8080, "192.0.2.2"), True),
    "none": ({"containerPort": 80}, {"containerPort": 80}, False),
}


@pytest.mark.parametrize(("there", "new", "taken"), PORTS.values(), ids=PORTS)
def test_host_ports_of_two_pods_conflict(there: dict[str, Any], new: dict[str, Any], taken: bool) -> None:
    refusal = Taken([demand_of(pod_of({}, there))]).refusal(demand_of(pod_of({}, new)), NODE)
    expected = (
        "NodePorts",
        "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
    )
    assert refusal == (expected if taken else None)


def test_every_port_of_a_host_network_pod_is_a_host_port() -> None:
    there = demand_of(pod_of({}, {"containerPort": 80}, hostNetwork=True))
    assert there.ports == (HostPort("0.0.0.0", "TCP", 80),)
    refusal = Taken([there]).refusal(demand_of(pod_of({}, port(80, container=8080))), NODE)
    assert refusal is not None and refusal.reason == "NodePorts"


def test_host_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    inits = [
        {"name": "side", "image": "i", "restartPolicy": "Always", "ports": [port(1)]},
        {"name": "init", "image": "i", "ports": [port(2)]},
    ]
    assert [each.port for each in demand_of(pod_of({}, port(3), initContainers=inits)).ports] == [1, 3]


DEMANDS = st.builds(
    Demand,
    amounts=st.dictionaries(st.sampled_from(["cpu", "memory", "hugepages-2Mi"]), st.integers(0, 1000)),
    ports=st.lists(
        st.builds(HostPort, st.sampled_from(["0.0.0.0", "a", "b"]), st.just("TCP"), st.integers(1, 3)), unique=True
    ).map(tuple),
    burstable=st.booleans(),
)


@given(st.lists(DEMANDS), DEMANDS, st.data())
def test_a_removed_pod_frees_its_resources(stay: list[Demand], new: Demand, data: st.DataObject) -> None:
    go = data.draw(st.lists(DEMANDS))
    taken = Taken()
    for demand in data.draw(st.permutations([*stay, *go])):
        taken.add(demand)
    for demand in go:
        taken.remove(demand)
    fresh = Taken(stay)
    capacity = {"cpu": 1500, "memory": 500, "hugepages-2Mi": 100, "pods": 3}
    assert taken.refusal(new, capacity) == fresh.refusal(new, capacity)
    assert (taken.pods, taken.burstable_milli_cpu) == (fresh.pods, fresh.burstable_milli_cpu)


def test_only_burstable_pods_count_for_the_weight_of_their_tier() -> None:
    equal = {"cpu": "1", "memory": "1Gi"}
    guaranteed = make_pod({"containers": [{"name": "a", "image": "i", "resources": {"limits": equal}}]})
    demands = [demand_of(each) for each in (guaranteed, pod_of({"cpu": "300m"}), pod_of({"cpu": "400m"}), pod_of())]
    assert Taken(demands).burstable_milli_cpu == 700


# --- capacity ---------------------------------------------------------------------------------------------------------


def test_capacity_defaults_to_the_machines_without_huge_pages(tmp_path: Path) -> None:
    for name, count in (("hugepages-2048kB", 512), ("hugepages-1048576kB", 0)):
        directory = tmp_path / "sys/kernel/mm/hugepages" / name
        directory.mkdir(parents=True)
        (directory / "nr_hugepages").write_text(f"{count}\n")
    amounts = read_capacity(HOST, tmp_path, root=tmp_path)
    found, whole = dict(amounts.allocatable), dict(amounts.machine)
    assert found.pop("ephemeral-storage") == whole.pop("ephemeral-storage") > 0
    assert found == {"cpu": 4000, "memory": 7 * GIB, "hugepages-2Mi": GIB, "hugepages-1Gi": 0}
    assert whole == {**found, "memory": 8 * GIB}


def test_what_is_reserved_and_what_evictions_keep_free_cannot_be_requested(tmp_path: Path) -> None:
    """Only hard thresholds of memory and of the node's file system count, and what the owner sets stays as it is."""
    policy = eviction_policy(
        EvictionSettings(
            hard="memory.available<1Gi,nodefs.available<10%,imagefs.available<50%",
            soft="memory.available<4Gi",
            soft_grace_period="memory.available=1m",
        )
    )
    amounts = read_capacity(
        HOST,
        tmp_path,
        parse_capacity("pods=110"),
        reserved=parse_reserved("cpu=500m,memory=1Gi,ephemeral-storage=1Mi,pid=1000"),
        thresholds=policy.thresholds,
        root=tmp_path,
    )
    disk = amounts.machine["ephemeral-storage"]
    assert amounts.machine == {"cpu": 4000, "memory": 8 * GIB, "ephemeral-storage": disk, "pods": 110}
    assert amounts.of_pods == {"cpu": 3500, "memory": 7 * GIB, "ephemeral-storage": disk - (1 << 20), "pods": 110}
    assert amounts.allocatable == {
        **amounts.of_pods,
        "memory": 6 * GIB,
        "ephemeral-storage": disk - (1 << 20) - policy.thresholds[1].value.of(disk),
    }
    with pytest.raises(CapacityInvalid, match="more memory is reserved, or kept free by evictions, than this machine"):
        read_capacity(HOST, tmp_path, reserved={"memory": 9 * GIB}, root=tmp_path)
    for wrong in ("pods=1", "cpu", "cpu=-1", "hugepages-2Mi=4Mi"):
        with pytest.raises(CapacityInvalid, match=r"^reserved "):
            parse_reserved(wrong)


def test_configured_capacity_overrides_the_machines(tmp_path: Path) -> None:
    overrides = parse_capacity("cpu=1500m, memory=1Gi,pods=110,")
    assert overrides == {"cpu": 1500, "memory": GIB, "pods": 110}
    reserved = parse_reserved("cpu=1,memory=2Gi")
    found = read_capacity(HOST, tmp_path, overrides, reserved=reserved, root=tmp_path).allocatable
    assert (found["cpu"], found["memory"], found["pods"]) == (1500, GIB, 110)
    assert found["ephemeral-storage"] > 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cpu", "capacity 'cpu': must be one of cpu, memory, ephemeral-storage, pods or hugepages-<size>, each once"),
        ("gpu=1", "capacity 'gpu=1': must be one of"),
        ("cpu=1,cpu=2", "capacity 'cpu=2': must be one of"),
        ("cpu=lots", "capacity 'cpu=lots': 'lots' must be a quantity"),
        ("memory=-1", "capacity 'memory=-1': must not be negative"),
    ],
)
def test_an_invalid_capacity_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(CapacityInvalid) as refused:
        parse_capacity(text)
    assert str(refused.value).startswith(sentence)
