"""Forwards local ports to a pod on any node of a fleet, over the node's own endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from syncpod.cli.console import remark
from syncpod.cli.fleet_endpoint import to_endpoint
from syncpod.cli.streams import interrupts
from syncpod.cli.streams.forwarded_ports import ForwardedPort, Forwarder
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_pods import find_pod
from syncpod.messages.endpoint import Forward

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.streams.forwarded_ports import Connected


def forward_ports(
    pod: str, namespace: str, node: str, ports: Iterable[tuple[int, int]], addresses: Sequence[str], state_dir: str
) -> None:
    """Listen at these addresses, and forward the ports, each a local one (0 = any) and the pod's, until Ctrl-C.

    `pod` may be a workload, one of whose pods is meant; `node` is where it is, "" = anywhere. Raises BadInput, Failure.
    """
    wanted = [ForwardedPort(*pair) for pair in ports]

    async def work(client: Client) -> None:
        found = await find_pod(client, [pod], namespace, node)

        async def carry(connected: Connected, port: int) -> None:
            async with to_endpoint(state_dir, found.node, "port-forward") as way:
                await way.forward(connected, Forward(namespace=namespace, pod=found.name, port=port))

        async with to_endpoint(state_dir, found.node, "port-forward"):
            remark(f"pod/{found.name} is on node/{found.node.name}, at {found.node.endpoint}")
        await Forwarder(carry).forward(addresses, wanted)

    interrupts.enable()
    fleet.run(work, state_dir=state_dir)
