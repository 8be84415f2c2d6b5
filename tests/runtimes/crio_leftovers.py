"""Removes everything that one CRI-O left on the machine, alive or dead, found by its directory only.

CRI-O's daemon, each conmon and each call of runc have the directory in their arguments; a container's processes are
descendants of its conmon.
"""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.runtimes.leftovers import Names, empty, remove_cgroup, unmount_below
from tests.runtimes.processes import Process, kill, processes, with_descendants

_CNI_RESULTS = Path("/var/lib/cni/results")
_HOST_PORTS = ("ip", "crio-hostports")
"""The nftables table that all CRI-Os of a machine share; its maps forward ports of the host to pods."""


def clear(directory: Path) -> None:
    """End the processes, mounts, bridge, ports and cgroups of the CRI-O in `directory`, and empty it."""
    names = Names.of(directory)
    end_processes(directory)
    cgroups = [names.cgroup_parent, *_containers_cgroups(directory)]
    unmount_below(directory)
    # Without a pod that had a network there is no bridge.
    subprocess.run(["ip", "link", "delete", names.bridge], capture_output=True, check=False)
    _close_host_ports(directory)
    for result in _CNI_RESULTS.glob(f"{names.network}-*"):
        result.unlink(missing_ok=True)
    for cgroup in cgroups:
        remove_cgroup(cgroup)
    empty(directory)


def end_processes(directory: Path) -> None:
    """Kill the daemon, each conmon with its container, and the programs for which they were waiting."""
    while True:
        everything = processes()
        roots = [process.pid for process in everything if _belongs(process, directory)]
        if not roots:
            return
        kill(with_descendants(roots, everything))


def monitors(directory: Path) -> tuple[Process, ...]:
    """The live conmons of the CRI-O in `directory`, one for each container."""
    return tuple(each for each in processes() if each.program == "conmon" and _belongs(each, directory))


def _belongs(process: Process, directory: Path) -> bool:
    programs = ("crio", "conmon", "runc", "sh", "busybox", "bridge", "pinns")
    return process.program in programs and any(f"{directory}/" in argument for argument in process.argv)


def _containers_cgroups(directory: Path) -> Iterator[str]:
    """The cgroups of CRI-O's last containers and of their conmons, from their OCI bundles."""
    for config in directory.glob("*/overlay-containers/*/userdata/config.json"):
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            path = Path(json.loads(config.read_text())["linux"].get("cgroupsPath", ""))
            yield str(path)
            yield str(path.with_name(path.name.replace("crio-", "crio-conmon-", 1)))


def _close_host_ports(directory: Path) -> None:
    """Remove the ports of this CRI-O's pods from the table, and the table with its last port."""
    listing = subprocess.run(["nft", "--json", "list", "table", *_HOST_PORTS], capture_output=True, check=False)
    if listing.returncode:
        return  # there never was a port
    ours = f"{_subnet(directory)}."
    remaining = 0
    for entry in json.loads(listing.stdout)["nftables"]:
        for kind in ("map", "set"):
            if kind not in entry:
                continue
            for element in entry[kind].get("elem", ()):
                if ours in json.dumps(element):
                    key = _written(element[0] if kind == "map" else element)
                    delete = ["nft", "delete", "element", *_HOST_PORTS, entry[kind]["name"], f"{{ {key} }}"]
                    subprocess.run(delete, capture_output=True, check=True)
                else:
                    remaining += 1
    if not remaining:
        subprocess.run(["nft", "delete", "table", *_HOST_PORTS], capture_output=True, check=False)


def _written(key: Any) -> str:
    """A key of nft's JSON as nft reads it: concatenated parts, with a comment around them or without."""
    if "elem" in key:
        key = key["elem"]["val"]
    return " . ".join(str(part) for part in key["concat"])


def _subnet(directory: Path) -> str:
    """The first three numbers of the network's addresses, from its configuration."""
    for path in directory.glob("cni/*.conflist"):
        plugins = json.loads(path.read_text())["plugins"]
        return str(plugins[0]["ipam"]["ranges"][0][0]["subnet"]).rpartition(".")[0]
    return "no network"
