"""The ports of a pod that runs on this machine, for ``port-forward``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from syncpod.cli.failure import Failure
from syncpod.cli.machine.runtime_client import unanswered
from syncpod.cli.streams.forwarded_ports import Connected, ForwardingOver
from syncpod.cri.errors import TransportFault
from syncpod.handlers.port_forwarding import NotForwarded, PodGone, PodPorts, Runtime
from syncpod.pod import Pod
from syncpod.translation import names


class OurPodPorts:
    """Carries connections to the ports of one pod. Raises the failures of commands."""

    def __init__(self, runtime: Runtime, pod: Pod) -> None:
        meta = pod.metadata
        self._ports = PodPorts(runtime, meta.name, {names.POD_UID_LABEL: meta.uid})

    async def require(self) -> None:
        """Raise Failure unless the pod has a sandbox that is ready."""
        with _failures():
            await self._ports.sandbox()

    async def carry(self, connected: Connected, port: int) -> None:
        """Carry one connection to a port; implements `syncpod.cli.streams.forwarded_ports.Carry`."""
        with _failures():
            await self._ports.carry(connected, port)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except PodGone as gone:
        raise ForwardingOver(str(gone)) from None
    except NotForwarded as why:
        raise Failure(str(why)) from None
    except TransportFault as fault:
        raise unanswered(fault) from None
