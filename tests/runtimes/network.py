"""The CNI network of one private runtime: its own bridge, with addresses that nothing else has."""

import ipaddress
import json
import secrets
import subprocess
from pathlib import Path

from tests.runtimes.leftovers import Names
from tests.runtimes.require import Missing

CNI_PLUGINS = Path("/usr/lib/cni")
"""The directory of the distribution's plugins."""


def configuration(names: Names, subnet: ipaddress.IPv4Network, *, directory: Path) -> str:
    """The list of plugins of the runtime in `directory`, as JSON: bridge, addresses of `subnet`, ports of the host."""
    ipam = {
        "type": "host-local",
        "dataDir": str(directory / "ipam"),
        "ranges": [[{"subnet": str(subnet)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": names.bridge, "isGateway": True, "hairpinMode": True, "ipam": ipam}
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": names.network, "plugins": [bridge, portmap]}, indent=2)


def free_subnet() -> ipaddress.IPv4Network:
    """A /24 of 10.64.0.0/10 without an interface of this machine.

    It is drawn at random: a bridge appears only with an instance's first pod, so the lowest free one may be another's.
    Raises `Missing` where none is free.
    """
    listing = subprocess.run(["ip", "-4", "-json", "address"], capture_output=True, text=True, check=True).stdout
    taken = [
        ipaddress.IPv4Network(f"{address['local']}/{address['prefixlen']}", strict=False)
        for interface in json.loads(listing)
        for address in interface.get("addr_info", ())
    ]
    for _ in range(100):
        number = secrets.randbelow(1 << 14)
        subnet = ipaddress.IPv4Network((f"10.{64 + (number >> 8)}.{number & 255}.0", 24))
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise Missing("no /24 of 10.64.0.0/10 is free on this machine")
