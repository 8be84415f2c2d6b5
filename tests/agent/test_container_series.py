"""The series of `/metrics/cadvisor`, under cAdvisor's names and labels."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.scraping.terminations import Terminations
from tests.agent.node_endpoint import Measuring, node_of, node_readings
from tests.agent.test_node_readers import AT, LISTING, WEB

NODE = {"container": "", "image": "", "name": "", "namespace": "", "pod": ""}
POD = {**NODE, "namespace": "default", "pod": "web"}
APP = {**POD, "container": "app", "image": "busybox:1", "name": "c2"}


async def series(directory: Path, runtime: Measuring) -> list[tuple[str, dict[str, str], float, float | None]]:
    """Name, labels, value and time of each series."""
    image = {"image": "busybox:1"}
    listing = LISTING.model_copy(update={"containers": [each.model_copy(update=image) for each in LISTING.containers]})
    readings = node_readings(
        directory,
        PublishedPods(node_of(directory)),
        terminations=Terminations(lambda *_: None),
        runtime=runtime,
        listings=lambda: (listing,),
    )
    text = (await readings.container_metrics()).decode()
    return [
        (each.name, dict(each.labels), each.value, float(str(each.timestamp)) if each.timestamp else None)
        for family in text_string_to_metric_families(text)
        for each in family.samples
    ]


async def test_what_a_runtime_measures_is_told_of_node_pods_and_containers(tmp_path: Path) -> None:
    runtime = Measuring()
    runtime.stats = (WEB,)
    found = await series(tmp_path, runtime)
    at = AT.timestamp()
    for expected in (
        ("container_cpu_usage_seconds_total", {**APP, "cpu": "total"}, 3.0, at),
        ("container_cpu_usage_seconds_total", {**POD, "cpu": "total"}, 4.0, at),
        ("container_memory_usage_bytes", APP, 300.0, at),
        ("container_memory_working_set_bytes", APP, 200.0, at),
        ("container_memory_rss", APP, 100.0, at),
        ("container_fs_usage_bytes", {**APP, "device": "/"}, 4096.0, None),
        ("container_start_time_seconds", APP, at, None),
        ("container_processes", POD, 2.0, None),
        ("container_scrape_error", {}, 0.0, None),
    ):
        assert expected in found
    traffic = {name: value for name, labels, value, _ in found if labels.get("interface") == "eth0" and labels["pod"]}
    assert traffic == {
        "container_network_receive_bytes_total": 7.0,
        "container_network_receive_errors_total": 0.0,
        "container_network_transmit_bytes_total": 8.0,
    }, "the runtime does not tell the errors while sending"
    names = [name for name, labels, *_ in found if labels == {**NODE, "cpu": "total"}]
    assert names == ["container_cpu_usage_seconds_total"] and "machine_cpu_cores" in [name for name, *_ in found]
    assert "c1" not in {labels.get("name") for _, labels, *_ in found}, "it has ended"


async def test_a_runtime_that_does_not_answer_is_told_by_one_series(tmp_path: Path) -> None:
    runtime = Measuring()
    runtime.stats = None
    found = await series(tmp_path, runtime)
    assert ("container_scrape_error", {}, 1.0, None) in found
    assert not any(labels.get("pod") for _, labels, *_ in found)
