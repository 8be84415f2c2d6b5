"""Variables of Services as in the kubelet, and their way into the node's store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from syncpod.agent.kubernetes import followed_services, given_objects
from syncpod.agent.kubernetes.given_objects import GivenObjects
from syncpod.kubernetes import reflector as reflectors
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from syncpod.kubernetes.service_variables import service_variables
from syncpod.objects import ObjectRef, ObjectStore, ObjectUnknown, references, services_ref
from syncpod.pod import Pod
from syncpod.translation.env import ObjectMissing, Sources, environment
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, Fault, served, write_kubeconfig
from tests.kubernetes.storage_driver import claims
from tests.translation.translation import NODE, make_pod

ALL = ObjectRef("ConfigMap", "shop", "all", "services")
MASTER = ObjectRef("ConfigMap", "shop", "kubernetes", "services")


def service(name: str, namespace: str = "shop", address: str = "10.0.0.7", *ports: Any) -> dict[str, Any]:
    """A Service, as an API server stores it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "ports": list(ports) or [{"port": 80, "protocol": "TCP"}]},
    }


KUBERNETES = service("kubernetes", "default", "10.0.0.1", {"name": "https", "port": 443, "protocol": "TCP"})


def test_each_port_has_the_variables_of_the_kubelet_and_of_docker_links() -> None:
    ports = [{"name": "web-ui", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    assert service_variables([service("my-shop", "shop", "10.0.0.7", *ports)], "shop", links=True) == {
        "MY_SHOP_SERVICE_HOST": "10.0.0.7",
        "MY_SHOP_SERVICE_PORT": "80",
        "MY_SHOP_SERVICE_PORT_WEB_UI": "80",
        "MY_SHOP_SERVICE_PORT_DNS": "53",
        "MY_SHOP_PORT": "tcp://10.0.0.7:80",
        "MY_SHOP_PORT_80_TCP": "tcp://10.0.0.7:80",
        "MY_SHOP_PORT_80_TCP_PROTO": "tcp",
        "MY_SHOP_PORT_80_TCP_PORT": "80",
        "MY_SHOP_PORT_80_TCP_ADDR": "10.0.0.7",
        "MY_SHOP_PORT_53_UDP": "udp://10.0.0.7:53",
        "MY_SHOP_PORT_53_UDP_PROTO": "udp",
        "MY_SHOP_PORT_53_UDP_PORT": "53",
        "MY_SHOP_PORT_53_UDP_ADDR": "10.0.0.7",
    }


def test_an_address_of_version_6_stands_in_brackets_before_a_port() -> None:
    found = service_variables([service("six", "shop", "fd00::7")], "shop", links=True)
    assert (found["SIX_PORT"], found["SIX_PORT_80_TCP_ADDR"]) == ("tcp://[fd00::7]:80", "fd00::7")


def test_the_api_servers_service_is_given_to_all_and_others_to_their_namespace_with_links() -> None:
    services = [KUBERNETES, service("a"), service("b", "other"), service("headless", "shop", "None")]
    services += [service("external", "shop", ""), {"metadata": None}, service("kubernetes", "other", "10.0.0.9")]
    assert _hosts(services, "shop", links=True) == {"A": "10.0.0.7", "KUBERNETES": "10.0.0.1"}
    assert _hosts(services, "shop", links=False) == {"KUBERNETES": "10.0.0.1"}
    # One of that name in the pod's own namespace is meant there, as in the kubelet.
    assert _hosts([service("kubernetes", "shop", "10.0.0.8")], "shop", links=True) == {"KUBERNETES": "10.0.0.8"}
    assert _hosts([], "shop", links=True) == {}


def _hosts(services: list[dict[str, Any]], namespace: str, *, links: bool) -> dict[str, str]:
    found = service_variables(services, namespace, links=links)
    return {name.removesuffix("_SERVICE_HOST"): value for name, value in found.items() if name.endswith("_HOST")}


# --- what a container is given ----------------------------------------------------------------------------------------


def _pod(*env: dict[str, Any], source: str = "kubernetes", **spec: Any) -> Pod:
    container = {"name": "main", "image": "b:1", "env": list(env)}
    annotations = {"kubernetes.io/config.source": source}
    return make_pod({"containers": [container], **spec}, namespace="shop", annotations=annotations)


def _given(made: Pod, values: dict[str, bytes] | None) -> dict[str, str]:
    ref = services_ref(made)
    sources = Sources({ref: values} if ref is not None and values is not None else {})
    return environment(made, made.spec.containers[0], NODE, (), "spec.containers[0]", sources)


def test_variables_of_services_come_last_and_those_of_the_manifest_may_refer_to_them_and_hide_them() -> None:
    env = {"name": "URL", "value": "http://$(A_SERVICE_HOST)/$(B)"}, {"name": "B", "value": "own"}
    values = {"A_SERVICE_HOST": b"10.0.0.7", "B": b"theirs"}
    assert list(_given(_pod(*env), values).items()) == [
        ("URL", "http://10.0.0.7/theirs"),
        ("B", "own"),
        ("A_SERVICE_HOST", "10.0.0.7"),
    ]


def test_a_pod_of_the_node_has_none_and_one_of_the_cluster_waits_for_them() -> None:
    assert _given(_pod(source="file"), None) == {}
    with pytest.raises(ObjectMissing, match="services not found") as missing:
        _given(_pod(), None)
    assert missing.value.ref == ALL
    assert {each.ref for each in references(_pod(enableServiceLinks=False))} == {MASTER}


# --- how they reach the store -----------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    """A server with its own Service; the node's waits after failures are short."""
    monkeypatch.setattr(reflectors, "BACKOFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(given_objects, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(followed_services, "RETRY_SECONDS", 0.02)
    async with served() as server:
        await server.put("/api/v1/namespaces/default/services/kubernetes", KUBERNETES)
        yield server


async def test_the_store_has_the_variables_of_each_namespace_of_pods_by_one_watch(
    api: ApiServer, tmp_path: Path
) -> None:
    store = ObjectStore(tmp_path / "state", tmp_path / "memory")
    config = read_kubeconfig(write_kubeconfig(tmp_path / "node.conf", api))
    api.faults.extend([Fault("GET", "services", "403"), Fault("GET", "services", "cut")])

    def has(ref: ObjectRef, *names: str) -> bool:
        try:
            held = store.get(ref)
        except ObjectUnknown as unknown:
            assert "services have not yet been read at least once" in str(unknown)
            return False
        data: dict[str, str] = getattr(held, "data", {})
        return {name for name in data if name.endswith("_HOST")} == {f"{name}_SERVICE_HOST" for name in names}

    async def none_left() -> list[ObjectRef]:
        return []

    async with ApiClient(config, user_agent="test") as client:
        given = GivenObjects(client, store, none_left, lambda: None, claims(client, store))
        running = asyncio.create_task(given.run())
        given.want([ALL, MASTER], [])
        await until(lambda: has(ALL, "KUBERNETES") and has(MASTER, "KUBERNETES"))
        await api.put("/api/v1/namespaces/shop/services/a", service("a"))
        await until(lambda: has(ALL, "KUBERNETES", "A") and has(MASTER, "KUBERNETES"))
        assert given.is_settled([ALL, MASTER]) and api.watches == 1
        given.want([MASTER], [])
        await until(lambda: store.version(ALL) is None)
        given.want([MASTER, ALL], [])  # another pod of the namespace
        await until(lambda: has(ALL, "KUBERNETES", "A"))
        await api.remove("/api/v1/namespaces/shop/services/a")
        await until(lambda: has(ALL, "KUBERNETES"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert not list((tmp_path / "memory").rglob("*.json"))
