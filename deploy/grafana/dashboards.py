"""Writes the two dashboards beside it, ``node.json`` and ``pods.json``, which Grafana imports.

``python deploy/grafana/dashboards.py``. A panel is one line here, and thirty in the JSON: change it here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

HERE: Final = Path(__file__).parent
SCHEMA: Final = 39
"""The version of Grafana's dashboard model: Grafana 11 and later read it, and turn it into their own."""
_WIDTH, _HEIGHT = 12, 8
"""Of a panel, in cells of a grid that is 24 wide."""
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_NODE: Final = 'instance=~"$instance"'
_POD: Final = f'{_NODE}, namespace=~"$namespace", pod=~"$pod"'
_RANGE: Final = "[$__rate_interval]"

Unit = Literal["short", "s", "bytes", "percentunit", "ops"]
Kind = Literal["timeseries", "stat", "table"]

_OPTIONS: Final[dict[Kind, dict[str, Any]]] = {
    "timeseries": {
        "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "colorMode": "value",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "percentChangeColorMode": "standard",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showPercentChange": False,
        "textMode": "auto",
        "wideLayout": True,
    },
    "table": {"frameIndex": 0, "showHeader": True},
}
"""What Grafana's schema requires of each kind of panel."""


@dataclass(frozen=True)
class Panel:
    """What one panel shows: its queries by legend."""

    title: str
    unit: Unit
    queries: dict[str, str]
    kind: Kind = "timeseries"
    says: str = ""
    """What a reader may not know of it."""


def _quantiles(metric: str, by: str = "") -> dict[str, str]:
    """Return the median and the 99th percentile of a histogram, for each value of the label `by`."""
    labels, legend = (f"le, {by}", f" {{{{{by}}}}}") if by else ("le", "")
    rate = f"sum by ({labels}) (rate({metric}_bucket{{{_NODE}}}{_RANGE}))"
    return {f"p{q:g}{legend}": f"histogram_quantile({q / 100:g}, {rate})" for q in (50, 99)}


def _increase(metric: str, by: str, selector: str = _NODE) -> dict[str, str]:
    """Return by how much a counter has grown, for each value of the labels `by`."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return {legend: f"sum by ({by}) (increase({metric}{{{selector}}}{_RANGE}))"}


NODE_PANELS: Final = (
    Panel("Ready", "short", {"{{instance}}": f"syncpod_node_ready{{{_NODE}}}"}, "stat", "1 = it can run pods."),
    Panel("Pods by phase", "short", {"{{phase}}": f"sum by (phase) (kube_pod_status_phase{{{_NODE}}})"}),
    Panel(
        "Seconds since PLEG saw the runtime",
        "s",
        {"{{instance}}": f"time() - kubelet_pleg_last_seen_seconds{{{_NODE}}}"},
    ),
    Panel(
        "Ends of containers by reason and exit code",
        "short",
        _increase("kubelet_terminated_containers_total", "container_type, reason, exit_code"),
    ),
    Panel(
        "Started",
        "short",
        {"pods": f"sum(increase(kubelet_started_pods_total{{{_NODE}}}{_RANGE}))"}
        | _increase("kubelet_started_containers_total", "container_type"),
    ),
    Panel(
        "Containers that could not be started", "short", _increase("kubelet_started_containers_errors_total", "code")
    ),
    Panel(
        "Sandboxes that could not be made",
        "short",
        {"pods": f"sum(increase(kubelet_started_pods_errors_total{{{_NODE}}}{_RANGE}))"},
    ),
    Panel("Rejected pods", "short", _increase("kubelet_admission_rejections_total", "reason")),
    Panel(
        "Attempts of steps that failed",
        "short",
        _increase("syncpod_step_attempts_total", "step, outcome", f'{_NODE}, outcome=~"fault|retry"'),
        says="fault: the pod is at fault, and backs off; retry: something else is, and Temporal tries again.",
    ),
    Panel("Time until a pod runs", "s", _quantiles("kubelet_pod_start_total_duration_seconds")),
    Panel(
        "Time until a pod runs, without pulls and init containers",
        "s",
        _quantiles("kubelet_pod_start_sli_duration_seconds"),
        says="Of stateless pods: the service level of Kubernetes.",
    ),
    Panel("Duration of making a sandbox", "s", _quantiles("kubelet_run_podsandbox_duration_seconds")),
    Panel("Duration of pulls", "s", _quantiles("kubelet_image_pull_duration_seconds")),
    Panel(
        "Runtime operations",
        "ops",
        {"{{operation_type}}": f"sum by (operation_type) (rate(kubelet_runtime_operations_total{{{_NODE}}}{_RANGE}))"},
    ),
    Panel(
        "Runtime operations that failed",
        "ops",
        {
            "{{operation_type}}": "sum by (operation_type) "
            f"(rate(kubelet_runtime_operations_errors_total{{{_NODE}}}{_RANGE}))"
        },
    ),
    Panel(
        "Duration of runtime operations",
        "s",
        _quantiles("kubelet_runtime_operations_duration_seconds", "operation_type"),
    ),
    Panel("Duration of a relist", "s", _quantiles("kubelet_pleg_relist_duration_seconds")),
    Panel("Time between relists", "s", _quantiles("kubelet_pleg_relist_interval_seconds")),
    Panel("Evictions", "short", _increase("kubelet_evictions", "eviction_signal")),
    Panel("Removed by garbage collection", "short", _increase("syncpod_garbage_collected_total", "kind")),
    Panel(
        "Workflows begun anew",
        "short",
        {"workflows": f"sum(increase(syncpod_workflow_restarts_total{{{_NODE}}}{_RANGE}))"},
        says="Their tasks failed again and again; no container was touched.",
    ),
    Panel(
        "Journal",
        "short",
        {
            "records": f"sum(increase(syncpod_journal_records_total{{{_NODE}}}{_RANGE}))",
            "failed writes": f"sum(increase(syncpod_journal_write_failures_total{{{_NODE}}}{_RANGE}))",
        },
    ),
    Panel("Size of the journal", "bytes", {"{{instance}}": f"syncpod_journal_bytes{{{_NODE}}}"}),
    Panel(
        "CPU of the worker",
        "percentunit",
        {"{{instance}}": f"rate(process_cpu_seconds_total{{{_NODE}}}{_RANGE})"},
    ),
    Panel("Memory of the worker", "bytes", {"{{instance}}": f"process_resident_memory_bytes{{{_NODE}}}"}),
)

POD_PANELS: Final = (
    Panel("Pods by phase", "short", {"{{phase}}": f"sum by (phase) (kube_pod_status_phase{{{_POD}}})"}, "stat"),
    Panel(
        "Pods that are not ready",
        "short",
        {"{{namespace}}/{{pod}}": f'max by (namespace, pod) (kube_pod_status_ready{{condition="false", {_POD}}}) == 1'},
        "table",
        "A pod that has finished is not ready either.",
    ),
    Panel(
        "Waiting containers by reason",
        "short",
        {
            "{{reason}}": f"sum by (reason) (kube_pod_container_status_waiting_reason{{{_POD}}}"
            f" or kube_pod_init_container_status_waiting_reason{{{_POD}}})"
        },
    ),
    Panel(
        "Containers in a back-off",
        "short",
        {
            "{{namespace}}/{{pod}} {{container}}: {{reason}}": "max by (namespace, pod, container, reason) "
            f'(kube_pod_container_status_waiting_reason{{reason=~".*BackOff", {_POD}}})'
        },
        "table",
    ),
    Panel(
        "Restarts",
        "short",
        _increase("kube_pod_container_status_restarts_total", "namespace, pod, container", _POD),
    ),
    Panel(
        "Restarts so far",
        "short",
        {
            "{{namespace}}/{{pod}} {{container}}": "max by (namespace, pod, container) "
            f"(kube_pod_container_status_restarts_total{{{_POD}}}) > 0"
        },
        "table",
    ),
    Panel(
        "Last end by reason",
        "short",
        {
            "{{reason}}": f"sum by (reason) (kube_pod_container_status_last_terminated_reason{{{_POD}}})",
        },
    ),
    Panel(
        "Exit code of the last end",
        "short",
        {
            "{{namespace}}/{{pod}} {{container}}": "max by (namespace, pod, container) "
            f"(kube_pod_container_status_last_terminated_exitcode{{{_POD}}})"
        },
        "table",
    ),
    Panel(
        "Time since the container started",
        "s",
        {
            "{{namespace}}/{{pod}} {{container}}": "time() - max by (namespace, pod, container) "
            f"(kube_pod_container_state_started{{{_POD}}})"
        },
    ),
    Panel(
        "CPU",
        "short",
        {
            "{{namespace}}/{{pod}} {{container}}": "sum by (namespace, pod, container) "
            f"(rate(container_cpu_usage_seconds_total{{{_POD}}}{_RANGE}))"
        },
        says="In cores.",
    ),
    Panel(
        "Memory",
        "bytes",
        {
            "{{namespace}}/{{pod}} {{container}}": "sum by (namespace, pod, container) "
            f"(container_memory_working_set_bytes{{{_POD}}})"
        },
        says="The working set, which cannot be reclaimed without harm.",
    ),
    Panel("Probes by result", "short", _increase("prober_probe_total", "probe_type, result", _POD)),
    Panel(
        "Seconds past the deletion's deadline",
        "s",
        {"{{namespace}}/{{pod}}": f"time() - max by (namespace, pod) (kube_pod_deletion_timestamp{{{_POD}}})"},
    ),
    Panel(
        "Pods with a reason",
        "short",
        {"{{reason}}": f"sum by (reason) (kube_pod_status_reason{{{_POD}}}) > 0"},
        "table",
        "Evicted, NodeAffinity and the like.",
    ),
)

DASHBOARDS: Final = {
    "node": ("syncpod: node", NODE_PANELS, {"instance": "label_values(syncpod_node_ready, instance)"}),
    "pods": (
        "syncpod: pods",
        POD_PANELS,
        {
            "instance": "label_values(syncpod_node_ready, instance)",
            "namespace": f"label_values(kube_pod_info{{{_NODE}}}, namespace)",
            "pod": f'label_values(kube_pod_info{{{_NODE}, namespace=~"$namespace"}}, pod)',
        },
    ),
}
"""By file: title, panels, and the query of each variable."""


def dashboard(name: str) -> dict[str, Any]:
    """Return one dashboard as Grafana's JSON."""
    title, panels, variables = DASHBOARDS[name]
    return {
        "uid": f"syncpod-{name}",
        "title": title,
        "tags": ["syncpod"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "templating": {"list": [_datasource(), *(_variable(*each) for each in variables.items())]},
        "panels": list(_panels(panels)),
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": query,
        "definition": query,
        "refresh": 2,  # whenever the time range changes
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _panels(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    for place, panel in enumerate(panels):
        row, column = divmod(place, 2)
        is_table = panel.kind == "table"
        yield {
            "id": place + 1,
            "type": panel.kind,
            "title": panel.title,
            "description": panel.says,
            "datasource": _SOURCE,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "options": _OPTIONS[panel.kind],
            "targets": [
                {
                    "refId": chr(ord("A") + number),
                    "datasource": _SOURCE,
                    "expr": expression,
                    "legendFormat": legend,
                    "instant": is_table,
                    "range": not is_table,
                    "format": "table" if is_table else "time_series",
                }
                for number, (legend, expression) in enumerate(panel.queries.items())
            ],
        }


def text(name: str) -> str:
    """Return one dashboard's file."""
    return json.dumps(dashboard(name), indent=1) + "\n"


def main() -> None:
    """Write all dashboards."""
    for name in DASHBOARDS:
        (HERE / f"{name}.json").write_text(text(name))


if __name__ == "__main__":
    main()
