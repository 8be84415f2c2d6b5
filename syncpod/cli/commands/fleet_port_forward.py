"""``syncpod fleet port-forward``: forward local ports to a pod, on whichever node of the fleet it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.commands.port_forward import required
from syncpod.cli.console import remark
from syncpod.cli.input.options import ForwardedPorts, LocalAddresses, Namespace, OfNode, PodName, StateDir
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.streams.forwarded_ports import Connected


def port_forward(
    pod: PodName,
    ports: ForwardedPorts = None,
    namespace: Namespace = "default",
    node: OfNode = "",
    address: LocalAddresses = None,
    state_dir: StateDir = "",
) -> None:
    """Forward local ports to a pod on whichever node of the fleet it is, until Ctrl-C.

    As `syncpod port-forward`, over the node's own endpoint: the node must listen (`join --listen`). Both ports are
    numbers.
    """
    from syncpod.cli.streams.forwarded_ports import Forwarder
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.fleet_pods import find_pod, kind_and_name

    kind_and_name([pod])
    words, addresses = required(ports, address, f"fleet port-forward {pod}")
    from syncpod.cli.actions.fleet_port_forward import port_pair

    wanted = [port_pair(word) for word in words]

    async def work(client: Client) -> None:
        from syncpod.cli.fleet_endpoint import to_endpoint
        from syncpod.messages.endpoint import Forward

        found = await find_pod(client, [pod], namespace, node)

        async def carry(connected: Connected, port: int) -> None:
            async with to_endpoint(state_dir, found.node, "port-forward") as way:
                await way.forward(connected, Forward(namespace=namespace, pod=found.name, port=port))

        async with to_endpoint(state_dir, found.node, "port-forward"):
            remark(f"pod/{found.name} is on node/{found.node.name}, at {found.node.endpoint}")
        await Forwarder(carry).forward(addresses, wanted)

    interrupts.enable()
    fleet.run(work, state_dir=state_dir)
