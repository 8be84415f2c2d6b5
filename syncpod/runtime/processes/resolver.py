"""A sandbox's resolv.conf: the requested one if containers have their own mounts, else the machine's."""

from __future__ import annotations

from protos.cri.v1 import api_pb2

PATH = "/etc/resolv.conf"
RESOLV_CONF = "resolv.conf"
"""The file's name in a sandbox's directory."""
_SERVERS_LIMIT = 3
"""Resolvers read no more than these, and clients pass on no more."""


def resolv_conf(config: api_pb2.DNSConfig) -> str:
    """Return the text of a resolv.conf for the config."""
    lines = [f"search {' '.join(config.searches)}"] if config.searches else []
    lines += [f"nameserver {server}" for server in config.servers]
    lines += [f"options {' '.join(config.options)}"] if config.options else []
    return "".join(f"{line}\n" for line in lines)


def is_machines_own(config: api_pb2.DNSConfig, machines: str) -> bool:
    """Say whether a config equals the machine's resolv.conf, truncated as clients do."""
    servers: list[str] = []
    searches: set[str] = set()
    options: set[str] = set()
    for line in machines.splitlines():
        keyword, *values = line.split() or [""]
        if keyword == "nameserver":
            servers += values[:1]
        elif keyword == "search":
            searches = {value.rstrip(".") for value in values}
        elif keyword == "options":
            options |= set(values)
    wanted = list(config.servers)
    return (
        wanted == servers[: max(len(wanted), min(len(servers), _SERVERS_LIMIT))]
        and {value.rstrip(".") for value in config.searches} <= searches
        and set(config.options) <= options
    )
