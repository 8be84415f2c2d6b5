"""Makes clients of this machine's runtime, and the failure for a runtime that does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.console import program
from syncpod.cli.failure import Failure
from syncpod.cli.machine.runtime_choice import endpoint_of
from syncpod.cli.machine.settings import settings
from syncpod.cri.client import CriClient
from syncpod.cri.errors import Unavailable
from syncpod.settings.process_records import recorded_runtime
from syncpod.settings.worker_record import serving

if TYPE_CHECKING:
    from syncpod.cri.errors import TransportFault
    from syncpod.pod import Pod


def runtime_of(pod: Pod) -> CriClient:
    """Return a client of the runtime in which a pod runs. Raises Failure if the pod is on another node."""
    here = settings()
    worker = serving(here.state_dir)
    nodes = {here.node, *([worker.node] if worker else [])}
    if pod.spec.node_name not in nodes:
        raise Failure(
            f'pod "{pod.metadata.name}" runs on node {pod.spec.node_name}, this is {here.node}: run this command there'
        )
    return CriClient(endpoint_of(here.state_dir))


def unanswered(fault: TransportFault) -> Failure:
    """Return the failure to reach this machine's runtime, with the command that helps."""
    state_dir = settings().state_dir
    endpoint, record = endpoint_of(state_dir), recorded_runtime(state_dir)
    where = f"the runtime at {endpoint} does not answer"
    if not isinstance(fault, Unavailable):
        return Failure(f"{where} in time")
    if record is not None and record.endpoint == endpoint:
        return Failure(f"{where}: `{program()} up` starts it again")
    return Failure(f"{where}: start it again")
