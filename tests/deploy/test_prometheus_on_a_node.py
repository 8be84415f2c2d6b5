"""A real Prometheus scrapes a real node: every panel has data, and alerts fire only for the right pods."""

from __future__ import annotations

import asyncio
import json
import math
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from temporalio.client import Client

from syncpod.messages.identity import node_task_queue, pod_workflow_id
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from tests.agent.waiting import until_asked
from tests.fork_server import start_worker
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX
from tests.runtimes.ports import free_port
from tests.runtimes.prometheus import Prometheus
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.worker.node_process import ROOT, NodeProcess

DEPLOY = ROOT / "deploy"
PATIENCE = 120.0
QUICKLY = {"syncpod.dev/backoff-initial": "1s", "syncpod.dev/backoff-max": "1s"}
RUNS = "trap 'exit 0' TERM; sleep 600 & wait"
READY_IF = {"periodSeconds": 1, "exec": {"command": ["true"]}}
PODS: dict[str, dict[str, Any]] = {
    "ready": {"command": ["sh", "-c", RUNS], "readinessProbe": READY_IF},
    "unready": {"command": ["sh", "-c", RUNS], "readinessProbe": {**READY_IF, "exec": {"command": ["false"]}}},
    "crashes": {"command": ["sh", "-c", "exit 3"], "imagePullPolicy": "Always"},
    "waits": {"image": "registry.invalid/nothing:1"},
    "rejected": {},
}
"""The fields of each pod's container, without name and image."""

EMPTY_ON_A_HEALTHY_NODE = {
    "Sandboxes that could not be made": "the runtime makes each",
    "Evictions": "the node has memory and disk",
    "Removed by garbage collection": "nothing is old enough",
    "Workflows begun anew": "each workflow can be continued",
    "Seconds past the deletion's deadline": "no pod is being deleted",
}
"""Panels without data on this node, with the reason; tests/deploy/rare_metrics.py fills them."""

BEGIN_AT_ZERO = (
    'syncpod_step_attempts_total{step="create_sandbox", outcome="fault"}',
    'kubelet_admission_rejections_total{reason="NodeAffinity"}',
)
"""The counters that increase once for the pod `rejected`, and exist before."""

# The series that kubernetes-mixin's alerts read and join, in our words, so that those alerts can be used on a node.
MIXIN = {
    "KubePodCrashLooping": """
        max by (namespace, pod, container) (max_over_time(
          kube_pod_container_status_waiting_reason{job="syncpod", reason="CrashLoopBackOff"}[5m])) == 1""",
    "KubePodNotReady": """
        max by (namespace, pod) (
          kube_pod_status_phase{job="syncpod", phase=~"Pending|Unknown"}
          or (
            kube_pod_status_phase{job="syncpod", phase="Running"} == 1
            and on (namespace, pod) kube_pod_status_ready{job="syncpod", condition="true"} == 0))
        * on (namespace, pod) group_left ()
        max by (namespace, pod, owner_kind) (kube_pod_owner{job="syncpod", owner_kind!="Job"}) > 0
        unless on (namespace, pod) kube_pod_status_reason{job="syncpod", reason="SchedulingGated"} == 1""",
    "KubeContainerWaiting": """
        max by (namespace, pod, container) (
          kube_pod_container_status_waiting_reason{job="syncpod", reason!="CrashLoopBackOff"}) == 1""",
}
FIRES = {
    ("KubePodCrashLooping", "crashes"),
    ("KubePodNotReady", "waits"),
    ("KubePodNotReady", "unready"),
    ("KubeContainerWaiting", "waits"),
    ("SyncpodContainerCrashLooping", "crashes"),
    ("SyncpodContainerWaiting", "waits"),
    ("SyncpodPodNotReady", "waits"),
    ("SyncpodPodNotReady", "unready"),
    ("SyncpodPodFailed", "rejected"),
}
"""The alerts that must fire if their waiting time (`for`) is removed."""
MAY_FIRE = {
    ("KubePodNotReady", "crashes"),  # not while it runs
    ("SyncpodPodNotReady", "crashes"),  # as above
    ("SyncpodContainerRestartsOften", "crashes"),
    ("SyncpodContainerStartsFail", ""),
    ("SyncpodRuntimeOperationsFail", ""),  # every pull of `waits`
}


async def test_every_panel_shows_something_and_the_right_alerts_fire(
    embedded: Embedded, temporal_server: DevServer, tmp_path: Path
) -> None:
    node, address, worst = f"n-{uuid.uuid4()}", f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    client = await connect(temporal_server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
    with (
        Prometheus(tmp_path / "prometheus", _configuration(tmp_path, address, worst)) as prometheus,
        _at_its_worst(worst),
        NodeProcess.of(
            embedded, temporal_server, tmp_path, "--metrics-address", address, node=node, start=start_worker
        ) as worker,
    ):
        await asyncio.gather(prometheus.ready(), worker.ready())
        try:
            await _apply(client, node, "ready")
            seen = f'kubelet_pod_start_sli_duration_seconds_count{{instance="{address}"}}'
            await _until_shown(prometheus, seen)  # a rate needs a value before it grows
            await asyncio.gather(*(_apply(client, node, name) for name in PODS if name != "ready"))
            panels = list(_panels())
            assert set(EMPTY_ON_A_HEALTHY_NODE) <= {title for title, _ in panels}
            for title, expression in panels:
                instance = worst if title in EMPTY_ON_A_HEALTHY_NODE else address
                await _until_shown(prometheus, _substituted(expression, instance))
            for series, label in _variables():
                await _until_shown(prometheus, f'count by ({label}) ({series}{{{label}!=""}})')
            await _until_firing(prometheus)
            for series in BEGIN_AT_ZERO:
                await _until_shown(prometheus, _increased_from_zero(series, address))
            await _restart_once(client, prometheus, "ready")
        finally:
            await asyncio.gather(*(_delete(client, name) for name in PODS))
        assert await worker.stop() == 0


def _configuration(directory: Path, *targets: str) -> dict[str, Any]:
    """deploy/prometheus and the mixin's rules for these nodes, but evaluated each second and without `for`."""
    configuration: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    for job in configuration["scrape_configs"]:
        job["static_configs"] = [{"targets": list(targets)}]
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
    rules["groups"].append({"name": "mixin", "rules": [{"alert": name, "expr": it} for name, it in MIXIN.items()]})
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
    (directory / "rules.yml").write_text(yaml.safe_dump(rules))
    configuration["rule_files"] = [str(directory / "rules.yml")]
    return configuration


@contextmanager
def _at_its_worst(address: str) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.deploy.rare_metrics", address.rpartition(":")[2]]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def _apply(client: Client, node: str, name: str) -> None:
    selector = {"nodeSelector": {"there": "is-none"}} if name == "rejected" else {}
    pod = {
        "metadata": {"name": name, "namespace": "default", "annotations": QUICKLY},
        "spec": {"hostNetwork": True, "containers": [{"name": "main", "image": BUSYBOX, **PODS[name]}], **selector},
    }
    await client.start_workflow(
        "PodWorkflow",
        {"pod": pod},
        id=pod_workflow_id("default", name),
        task_queue=node_task_queue(node),
        task_timeout=timedelta(seconds=3),
    )


def _increased_from_zero(series: str, instance: str = "") -> str:
    """Return a query for a counter whose whole increase `increase` sees; without an initial 0, it would miss 1."""
    series = series.replace("{", f'{{instance="{instance}", ') if instance else series
    return f"increase({series}[10m]) >= 0.9 * {series} and {series} > 0"


async def _restart_once(client: Client, prometheus: Prometheus, name: str) -> None:
    """Restart a pod's container once, and wait until `increase` shows that."""
    series = f'kube_pod_container_status_restarts_total{{pod="{name}"}}'
    await _until_shown(prometheus, f"{series} == 0")
    await client.get_workflow_handle(pod_workflow_id("default", name)).signal("restart", {"container": "main"})
    await _until_shown(prometheus, _increased_from_zero(series))


async def _delete(client: Client, name: str) -> None:
    handle = client.get_workflow_handle(pod_workflow_id("default", name))
    await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
    await handle.result()


def _panels() -> Iterator[tuple[str, str]]:
    """The title and each query of all panels."""
    for file in (DEPLOY / "grafana").glob("*.json"):
        for panel in json.loads(file.read_text())["panels"]:
            yield from ((panel["title"], target["expr"]) for target in panel["targets"])


def _variables() -> Iterator[tuple[str, str]]:
    """The series and the label from which each variable of a dashboard takes its values."""
    for file in (DEPLOY / "grafana").glob("*.json"):
        for variable in json.loads(file.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["query"])
                assert found is not None, variable["query"]
                yield found[1], found[2]


def _substituted(expression: str, instance: str) -> str:
    """A query with its variables replaced as by Grafana."""
    values = {"$instance": instance, "$namespace": "default", "$pod": ".*", "$__rate_interval": "5m"}
    for variable, value in values.items():
        expression = expression.replace(variable, value)
    return expression


async def _until_shown(prometheus: Prometheus, expression: str) -> None:
    """Wait until a query has a value that is a number."""

    async def shows() -> bool:
        return any(math.isfinite(float(each["value"][1])) for each in prometheus.query(expression))

    try:
        await until_asked(shows, patience=PATIENCE)
    except TimeoutError:
        raise AssertionError(f"{expression} shows nothing; there is {_parts(prometheus, expression)}") from None


def _parts(prometheus: Prometheus, expression: str) -> dict[str, list[dict[str, Any]]]:
    """For each series in an expression, its current values."""
    selectors = set(re.findall(r"[a-z_]+(?:\{[^}]*\})", expression))
    return {each: prometheus.query(each) for each in selectors}


async def _until_firing(prometheus: Prometheus) -> None:
    firing: set[tuple[str, str]] = set()

    async def are_right() -> bool:
        nonlocal firing
        firing = {each for each in prometheus.firing() if each[1] != "stuck"} - MAY_FIRE
        return firing == FIRES

    try:
        await until_asked(are_right, patience=PATIENCE)
    except TimeoutError:
        raise AssertionError(f"missing: {FIRES - firing}, too many: {firing - FIRES}") from None
