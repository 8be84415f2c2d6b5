"""``python -m bench.fleet_member``: compares a node in a fleet with a node outside of one; they take turns.

Both are simulated nodes on this machine, each with its own Temporal server and worker. The fleet has a dev server, a
worker and a gate. On both nodes, the pods are applied by the node's own commands, not by the fleet.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bench import machine
from bench.figures import markdown
from bench.pods import simulated_pod
from bench.simulated_node import SimulatedNode, each, simulated_node
from bench.stage import NODE, compiled
from syncpod.cli.temporal.fleet import summaries
from syncpod.cli.temporal.pod_apply import apply_pod
from syncpod.fleet_client import access_to, connect_to_fleet
from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import Gate, TemporalFrontend, fleet_directory
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import keep_membership
from syncpod.signing.keys import make_signing_keys
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import ROOT

_SAID = ("start, s", "stop, s", "worker's CPU, s", "Temporal's CPU, s")


@dataclass(frozen=True)
class Round:
    """The cost of a crowd of pods on one node: seconds of starting and stopping, and of CPU of worker and server."""

    start: float
    stop: float
    worker: float
    server: float

    @property
    def figures(self) -> tuple[float, ...]:
        """The figures, in the order of the table's lines."""
        return self.start, self.stop, self.worker, self.server


async def crowd(node: SimulatedNode, names: Sequence[str]) -> Round:
    """Start pods, wait until all of them run, and end them."""
    before, began = node.cpu(), time.monotonic()

    async def apply(name: str) -> None:
        await apply_pod(node.client, simulated_pod(name), node=NODE, has_attributes=True)

    await each(names, apply)
    await node.until_visible("PodReady = true", len(names))
    running = time.monotonic()
    await each(names, node.engine.delete)
    await node.until_visible("ExecutionStatus = 'Running'", 0)
    after = node.cpu()
    worker, server = (after[part] - before[part] for part in ("worker", "Temporal"))
    return Round(running - began, time.monotonic() - running, worker, server)


async def measure(pods: int, rounds: int) -> str:
    """Measure both nodes in turn, and return the table of medians."""
    async with simulated_node() as alone, simulated_node() as joined, _fleet_of(joined):
        taken: dict[str, list[Round]] = {"alone": [], "joined": []}
        for number in range(rounds + 1):
            turns = [("alone", alone), ("joined", joined)]
            for name, node in turns if number % 2 else reversed(turns):
                found = await crowd(node, [f"{name}-{number}-{one}" for one in range(pods)])
                if number:  # the first round warms up
                    taken[name].append(found)
        rows = [(f"{pods} simulated pods, {rounds} rounds, medians", "alone", "joined", "ratio")]
        for index, said in enumerate(_SAID):
            medians = [statistics.median(one.figures[index] for one in taken[name]) for name in ("alone", "joined")]
            ratios = [
                theirs.figures[index] / ours.figures[index]
                for ours, theirs in zip(taken["alone"], taken["joined"], strict=True)
            ]
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
            rows.append((said, f"{medians[0]:.2f}", f"{medians[1]:.2f}", spread))
        return markdown(rows)


@contextlib.asynccontextmanager
async def _fleet_of(node: SimulatedNode) -> AsyncIterator[None]:
    """Have the node join a fleet for the block, and wait until the fleet lists it as Ready."""
    async with contextlib.AsyncExitStack() as last:
        state_dir = Path(last.enter_context(tempfile.TemporaryDirectory(prefix="syncpod-bench-fleet-")))
        server = last.enter_context(await asyncio.to_thread(DevServer.launch))
        environ = {**os.environ, "TEMPORAL_ADDRESS": server.address, "TEMPORAL_CONFIG_FILE": os.devnull}
        environ |= compiled(state_dir / "bytecode")
        last.enter_context(_worker(state_dir, environ))
        fleet = open_fleet(fleet_directory(state_dir), now())
        gate = Gate(
            fleet, make_signing_keys(fleet.directory), TemporalFrontend(server.address, "default"), ["localhost"]
        )
        port = await gate.start("127.0.0.1", 0)
        last.push_async_callback(gate.close)
        pair = fleet.issue(NODE, timedelta(hours=6), now())
        invitation = Invitation(
            fleet=fleet.id,
            node=NODE,
            address=f"127.0.0.1:{port}",
            server_name=fleet.server_name,
            namespace="default",
            authorities=fleet.authorities_pem(),
            certificate=pair.certificate,
            key=pair.key,
            fleet_key=FleetSealingKeys(fleet, now).public_pem(),
        )
        keep_membership(Path(node.environment["SYNCPOD_STATE_DIR"]), invitation)
        settings = {"target_host": server.address, "namespace": "default"}
        client = await connect_to_fleet(settings, access_to(state_dir))  # type: ignore[arg-type]
        async with asyncio.timeout(600):
            while [one.presence for one in await summaries(client)] != ["Ready"]:  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(0.5)
        yield


@contextlib.contextmanager
def _worker(state_dir: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Run the fleet's worker for the block."""
    command = [sys.executable, str(ROOT / "fleet_worker.py"), "--state-dir", str(state_dir)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=dict(environ), stdout=quiet, stderr=quiet) as process:
        try:
            yield
        finally:
            process.terminate()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet_member", description=__doc__)
    parser.add_argument("--pods", type=int, default=40, help="of each crowd (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="of each node (default: %(default)s)")
    chosen, before = parser.parse_args(arguments), machine.load()
    table = asyncio.run(measure(chosen.pods, chosen.rounds))
    print(machine.environment("simulated pods", before), table, sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
