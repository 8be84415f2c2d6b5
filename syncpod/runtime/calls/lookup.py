"""Looks up the sandbox or container of a call, and applies injected faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from syncpod.runtime import listing
from syncpod.runtime.calls.faults import Faults
from syncpod.runtime.port import Process
from syncpod.runtime.refusals import failed
from syncpod.runtime.registry import has_labels
from syncpod.runtime.state import Container, Runtime, Sandbox


class Lookup:
    """Looks up sandboxes and containers by the ids in requests. All methods raise Refusal."""

    def __init__(self, runtime: Runtime, faults: Faults) -> None:
        self._runtime = runtime
        self._faults = faults

    def sandbox(self, id: str) -> Sandbox:
        """Return the sandbox."""
        return self._runtime.sandboxes.get(id, "pod_sandbox_id")

    def container(self, id: str) -> Container:
        """Return the container."""
        return self._runtime.containers.get(id, "container_id")

    def containers(self, id: str, sandbox_id: str, labels: Mapping[str, str]) -> Iterator[Container]:
        """Yield the containers that match a filter's id, sandbox id and labels; an empty one of these matches all."""
        if not sandbox_id:
            yield from self._runtime.containers.select(id, labels)
            return
        chosen = {each.id for each in self._runtime.containers.select(id, labels)} if id else None
        for sandbox in self._runtime.sandboxes.select(sandbox_id, {}):
            for each in tuple(sandbox.containers.values()):
                if has_labels(each.labels, labels) and (chosen is None or each.id in chosen):
                    yield each

    async def before(self, call: str, sandbox: Sandbox, container: str = "") -> None:
        """Wait until a call about the sandbox, or about its container with this name, may proceed.

        Raises CallFailed.
        """
        if self._runtime.host.isolation == "simulated":
            listed = listing.read_sandbox(sandbox.entry)
            subject = f"{listed.metadata.uid}/{container}" if container else listed.metadata.uid
            await self._faults.before(call, listed.annotations, subject)


def running(container: Container) -> Process:
    """Return the process of a running container. Raises Refusal."""
    if container.process is None:
        raise failed(f'container "{container.id}": container is in {container.state_name} state')
    return container.process
