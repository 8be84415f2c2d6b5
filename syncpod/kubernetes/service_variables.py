"""The variables by which a container finds the Services of a cluster. Values in, values out.

Mirrors pkg/kubelet/envvars/envvars.go and kubelet_pods.go, v1.36, getServiceEnvVarMap. Difference: they come in the
order of the Services' names, where the kubelet has the random order of a Go map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from syncpod.kubernetes.json_documents import mapping, mappings

_MASTER: Final = ("default", "kubernetes")
"""The Service of the API server, whose variables each container gets."""


def service_variables(services: Iterable[Mapping[str, Any]], namespace: str, *, links: bool) -> dict[str, str]:
    """Return the variables of a namespace's containers.

    Without `links` (enableServiceLinks), only the API server's Service has variables. A Service without a cluster IP
    has none. If two Services give the same variable, the one with the later name wins.
    """
    by_name: dict[str, Mapping[str, Any]] = {}
    for service in services:
        where, name = _identity(service)
        if not _address(service) or not _ports(service):
            continue
        if (where, name) == _MASTER:
            by_name.setdefault(name, service)
        elif where == namespace and links:
            by_name[name] = service
    return {name: value for each in sorted(by_name) for name, value in _variables(each, by_name[each])}


def _variables(name: str, service: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    prefix, address, ports = _upper(name), _address(service), _ports(service)
    yield f"{prefix}_SERVICE_HOST", address
    yield f"{prefix}_SERVICE_PORT", str(ports[0].get("port"))
    for port in ports:
        if port.get("name"):
            yield f"{prefix}_SERVICE_PORT_{_upper(str(port['name']))}", str(port.get("port"))
    host = f"[{address}]" if ":" in address else address
    for index, port in enumerate(ports):
        number, protocol = str(port.get("port")), str(port.get("protocol") or "TCP")
        url = f"{protocol.lower()}://{host}:{number}"
        if index == 0:
            yield f"{prefix}_PORT", url
        link = f"{prefix}_PORT_{number}_{protocol.upper()}"
        yield link, url
        yield f"{link}_PROTO", protocol.lower()
        yield f"{link}_PORT", number
        yield f"{link}_ADDR", address


def _upper(name: str) -> str:
    return name.replace("-", "_").upper()


def _identity(service: Mapping[str, Any]) -> tuple[str, str]:
    found = mapping(service.get("metadata"))
    return str(found.get("namespace") or ""), str(found.get("name") or "")


def _address(service: Mapping[str, Any]) -> str:
    """Return a Service's address in the cluster; "" if it has none."""
    address = str(mapping(service.get("spec")).get("clusterIP") or "")
    return "" if address == "None" else address


def _ports(service: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return mappings(mapping(service.get("spec")).get("ports"))
