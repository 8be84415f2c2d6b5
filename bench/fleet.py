"""``python -m bench.fleet --nodes 200 --pods 20``: the cost of many simulated nodes on one Temporal cluster.

The cluster is PostgreSQL and two Temporal servers. The fleet's worker and its gate are processes as in production. The
nodes share a few processes (:mod:`bench.fleet_nodes`). The load at rest is read from the servers' own counters.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig

from bench import machine
from bench.figures import markdown
from bench.idle import cpu_seconds
from bench.pods import simulated_pod
from bench.simulated_node import each
from bench.stage import compiled
from syncpod.cli.temporal import fleet as fleets
from syncpod.cli.temporal.fleet_answers import Unanswered
from syncpod.fleet_client import access_to, connect_to_fleet
from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.pod import pod_to_wire
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import keep_membership
from tests.runtimes.ports import free_ports
from tests.runtimes.processes import processes, with_descendants
from tests.runtimes.require import Missing
from tests.runtimes.temporal_cluster import Balancer, TemporalCluster

_PROCESSES = 4
_AT_ONCE = 16
_PATIENCE = 900.0
_REQUESTS = re.compile(r"^service_requests(?:_total)?\{([^}]*)\} (\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_POLLS = ("PollActivityTaskQueue", "PollWorkflowTaskQueue", "PollNexusTaskQueue")


@dataclass
class Crowd:
    """A running fleet: its client, and the process ids of each part."""

    client: Client
    nodes: tuple[str, ...]
    cluster: TemporalCluster
    parts: Mapping[str, Sequence[int]]

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds so far of each part, with all its processes."""
        everything = processes()
        return {part: cpu_seconds(with_descendants(pids, everything)) for part, pids in self.parts.items()} | {
            "this program": cpu_seconds([os.getpid()])
        }

    def requests(self) -> Counter[str]:
        """Return how often each operation of the frontends was called so far, by the servers' own counters."""
        found: Counter[str] = Counter()
        for server in self.cluster.servers:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=30) as answer:
                for labels, value in _REQUESTS.findall(answer.read().decode()):
                    named = dict(_LABEL.findall(labels))
                    if named.get("service_name") == "frontend":
                        found[named["operation"]] += int(float(value))
        return found

    def statements(self) -> tuple[int, float]:
        """Return how many statements PostgreSQL has executed so far, and the seconds of their execution."""
        said = self.cluster.database.ask(
            "temporal", "SELECT sum(calls), round(sum(total_exec_time)::numeric / 1000, 3) FROM pg_stat_statements"
        )
        calls, seconds = said.strip().split("|")
        return int(calls), float(seconds)


@dataclass
class Costs:
    """The costs of the phases, as rows of a table."""

    crowd: Crowd
    rows: list[tuple[str, ...]] = field(default_factory=list)

    @contextlib.contextmanager
    def phase(self, what: str, count: int) -> Iterator[None]:
        """Measure the block as one phase, in which one action is done `count` times; 0 = nothing is done."""
        sys.stderr.write(f"bench: {what}, load {machine.load():.0f}\n")
        cpu, statements, requests = self.crowd.cpu(), self.crowd.statements(), self.crowd.requests()
        began = time.monotonic()
        yield
        seconds = time.monotonic() - began
        calls, executing = (after - before for after, before in zip(self.crowd.statements(), statements, strict=True))
        asked = (self.crowd.requests() - requests).total()
        used = {part: after - cpu[part] for part, after in self.crowd.cpu().items()}
        self.rows.append(
            (
                what,
                f"{seconds:.0f}",
                f"{count / seconds:.1f}" if count else "",
                f"{asked / seconds:.0f}",
                f"{calls / seconds:.0f}",
                f"{100 * executing / seconds:.0f} %",
                *(f"{100 * each / seconds:.0f} %" for each in used.values()),
            )
        )

    def __str__(self) -> str:
        parts = (f"CPU {part}" for part in (*self.crowd.parts, "this program"))
        heads = ("", "seconds", "each second", "requests/s", "statements/s", "in statements", *parts)
        return markdown([heads, *self.rows])


async def measure(nodes: int, pods: int, rest: float) -> str:
    """Start a fleet of `nodes` nodes with `pods` pods each, watch it idle for `rest` seconds, and return the tables."""
    async with _crowd(nodes) as (crowd, start_nodes):
        costs = Costs(crowd)
        with costs.phase(f"{nodes} nodes join", nodes):
            start_nodes()
            await _until(crowd, "ready", nodes)
        latencies: list[float] = []
        late: list[str] = []
        placed = [(node, number) for number in range(pods) for node in crowd.nodes]

        async def place(one: tuple[str, int]) -> None:
            began = time.monotonic()
            pod = pod_to_wire(simulated_pod(f"crowd-{one[1]}-{one[0]}"))
            while True:  # a repeated call changes nothing
                try:
                    await fleets.update(crowd.client, one[0], "place", {"pods": [pod]})
                    break
                except Unanswered:
                    late.append(one[0])
            latencies.append(time.monotonic() - began)

        with costs.phase(f"{len(placed)} pods placed, until all run", len(placed)):
            await each(placed, place, at_once=_AT_ONCE)
            answered = time.monotonic()
            await _until(crowd, "running", len(placed))
            behind = time.monotonic() - answered
        await asyncio.sleep(20)
        before = crowd.requests()
        with costs.phase(f"at rest for {rest:.0f} s", 0):
            await asyncio.sleep(rest)
        asked = crowd.requests() - before
        centiles = [round(1000 * each) for each in statistics.quantiles(latencies, n=100)]
        return "\n\n".join(
            (
                str(costs),
                f"an update `place` was answered in {centiles[49]} ms (median), {centiles[98]} ms (p99), "
                f"{_AT_ONCE} at once, "
                f"{len(late)} of them only when asked again; "
                f"the last pod was known to run {behind:.1f} s after the last answer",
                _at_rest(asked, nodes, rest),
                _database(crowd),
            )
        )


def _at_rest(asked: Counter[str], nodes: int, seconds: float) -> str:
    """Return the calls to the frontends at rest, by node and minute."""
    rows = [("at rest, by the frontends' counters", "in all", "each node and minute")]
    for operation, number in (*asked.most_common(8), ("all", asked.total())):
        rows.append((operation, str(number), f"{number * 60 / seconds / nodes:.2f}"))
    return markdown(rows)


def _database(crowd: Crowd) -> str:
    """Return the rows and sizes of the largest tables, and the distribution of workflows among the shards."""
    ask = crowd.cluster.database.ask
    tables = ask(
        "temporal",
        "SELECT relname, n_live_tup, pg_size_pretty(pg_total_relation_size(relid)) FROM pg_stat_user_tables "
        "WHERE n_live_tup > 0 ORDER BY pg_total_relation_size(relid) DESC LIMIT 8",
    )
    shards = ask("temporal", "SELECT shard_id, count(*) FROM executions GROUP BY 1 ORDER BY 1")
    busiest = ask(
        "temporal",
        "SELECT calls, round(total_exec_time), left(regexp_replace(query, '\\s+', ' ', 'g'), 70) "
        "FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 6",
    )
    held = crowd.cluster.database.ask("temporal", "SELECT count(*) FROM pg_stat_activity WHERE usename = 'temporal'")
    return "\n\n".join(
        (
            markdown([("table", "rows", "size"), *(tuple(line.split("|")) for line in tables.split("\n") if line)]),
            "workflows in each shard: " + ", ".join(line.partition("|")[2] for line in shards.split()),
            f"connections to PostgreSQL: {held.strip()}",
            markdown(
                [
                    ("calls", "ms in all", "statement"),
                    *(tuple(line.split("|", 2)) for line in busiest.split("\n") if line),
                ]
            ),
        )
    )


async def _until(crowd: Crowd, what: str, count: int) -> None:
    """Wait until the fleet's workflows list `count` nodes as ready, or `count` pods as ready. Raises TimeoutError."""
    seen = -1
    async with asyncio.timeout(_PATIENCE):
        while seen != count:
            if what == "ready":
                seen = sum(one.presence == "Ready" for one in await fleets.summaries(crowd.client))
            else:
                views = await fleets.views(crowd.client, crowd.nodes)
                seen = sum(pod.report is not None and pod.report.ready for view in views for pod in view.placed)
            await asyncio.sleep(1)


@contextlib.asynccontextmanager
async def _crowd(count: int) -> AsyncIterator[tuple[Crowd, Callable[[], None]]]:
    """Start cluster, worker and gate; yield the fleet and a function that starts the nodes."""
    async with contextlib.AsyncExitStack() as last:
        directory = Path(last.enter_context(tempfile.TemporaryDirectory(prefix="syncpod-bench-")))
        cluster = last.enter_context(await asyncio.to_thread(TemporalCluster.launch))
        await asyncio.to_thread(_count_statements, cluster)
        front = await last.enter_async_context(Balancer([server.port for server in cluster.servers]))
        environ = {**os.environ, "TEMPORAL_ADDRESS": front.address, "SYNCPOD_STATE_DIR": str(directory / "fleet")}
        environ |= {"TEMPORAL_CONFIG_FILE": os.devnull, "PYTHONUNBUFFERED": "1", **compiled(directory / "bytecode")}
        (port,) = free_ports(1)
        syncpod = (sys.executable, "-m", "syncpod.cli.main", "fleet")
        worker = last.enter_context(_process([*syncpod, "serve"], environ, directory / "worker.log"))
        await asyncio.to_thread(_wait_for, directory / "worker.log", "fleet worker ready")
        gate_command = [*syncpod, "gate", "--listen", f"127.0.0.1:{port}", "--name", "localhost"]
        gate = last.enter_context(_process(gate_command, environ, directory / "gate.log"))
        await asyncio.to_thread(_wait_for, directory / "gate.log", "the fleet's gate listens at")
        nodes = tuple(f"n{number:03}" for number in range(count))
        places = await asyncio.to_thread(_invite, directory, nodes, f"127.0.0.1:{port}")
        hosts: list[int] = []

        def start_nodes() -> None:
            for number in range(_PROCESSES):
                command = [sys.executable, "-m", "bench.fleet_nodes", *map(str, places[number::_PROCESSES])]
                log = directory / f"nodes-{number}.log"
                hosts.append(last.enter_context(_process(command, environ, log)).pid)

        settings = ClientConnectConfig(target_host=front.address, namespace="default")
        client = await connect_to_fleet(settings, access_to(directory / "fleet"))
        parts = {
            "PostgreSQL": [cluster.database.pid],
            "Temporal servers": [server.pid for server in cluster.servers],
            "fleet's worker": [worker.pid],
            "gate": [gate.pid],
            "nodes": hosts,
        }
        yield Crowd(client, nodes, cluster, parts), start_nodes


def _invite(directory: Path, nodes: Sequence[str], address: str) -> list[Path]:
    """Invite nodes to the fleet; return their state directories."""
    fleet = open_fleet(fleet_directory(directory / "fleet"), now())
    key, places = FleetSealingKeys(fleet, now).public_pem(), []
    for node in nodes:
        pair = fleet.issue(node, timedelta(hours=6), now())
        places.append(directory / "nodes" / node)
        places[-1].mkdir(parents=True, mode=0o700)
        keep_membership(
            places[-1],
            Invitation(
                fleet=fleet.id,
                node=node,
                address=address,
                server_name=fleet.server_name,
                namespace="default",
                authorities=fleet.authorities_pem(),
                certificate=pair.certificate,
                key=pair.key,
                fleet_key=key,
            ),
        )
    return places


def _count_statements(cluster: TemporalCluster) -> None:
    """Turn on PostgreSQL's statistics of executed statements; this restarts it."""
    cluster.database.ask("temporal", "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
    cluster.database.restart()
    cluster.database.ask("temporal", "CREATE EXTENSION pg_stat_statements")
    for server in cluster.servers:
        server.until_serving()


@contextlib.contextmanager
def _process(command: Sequence[str], environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(log: Path, sign: str) -> None:
    deadline = time.monotonic() + 180
    while sign not in log.read_text():
        if time.monotonic() > deadline:
            raise RuntimeError(log.read_text())
        time.sleep(0.2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--nodes", type=int, default=200, help="simulated nodes (default: %(default)s)")
    parser.add_argument("--pods", type=int, default=20, help="of each node (default: %(default)s)")
    parser.add_argument("--rest", type=float, default=180, help="seconds to watch at rest (default: %(default)s)")
    chosen, before = parser.parse_args(arguments), machine.load()
    try:
        tables = asyncio.run(measure(chosen.nodes, chosen.pods, chosen.rest))
    except Missing as missing:
        sys.stderr.write(f"bench: {missing}\n")
        return 2
    print(machine.environment("simulated nodes", before), tables, sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
