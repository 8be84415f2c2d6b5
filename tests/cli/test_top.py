"""`top`: the usage between two samples of a runtime, and the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.actions import top
from syncpod.cli.machine import usage
from syncpod.cli.machine.usage import Meter, TopContainer, TopUsage, between, measure
from syncpod.cli.main import run
from syncpod.cri.errors import DeadlineExceeded
from syncpod.cri.port import ContainerStats, ContainerSummary, CpuUsage, CriRuntime, MemoryUsage, SandboxSummary
from syncpod.translation.names import CONTAINER_NAME_LABEL, NODE_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL

SECOND = 1_000_000_000
MI = 2**20


def stats(at: int, used: int, memory: int | None = MI, id: str = "c") -> ContainerStats:
    """A measurement at this time, with CPU usage, in seconds."""
    memory_usage = MemoryUsage(0, working_set_bytes=memory)
    return ContainerStats(id, "app", None, CpuUsage(at * SECOND, used * SECOND, None), memory_usage)


def test_cpu_usage_is_measured_between_two_samples() -> None:
    assert between(stats(10, 4), stats(12, 5, memory=7 * MI)) == TopUsage(SECOND // 2, 7 * MI)
    assert between(stats(10, 4), stats(11, 3)) == TopUsage(0, MI), "a process that has ended takes its time with it"


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (None, stats(1, 1)),
        (stats(1, 1), None),
        (stats(1, 1), stats(1, 1)),
        (stats(1, 1), stats(2, 1, memory=None)),
        (ContainerStats("c", "app", None), stats(2, 1)),
    ],
)
def test_a_single_sample_gives_no_cpu_usage(first: ContainerStats | None, last: ContainerStats | None) -> None:
    assert between(first, last) is None


class Measuring(CriRuntime):
    """A runtime with two pods: one is measured only sometimes, and the measurement of the other hangs."""

    def __init__(self) -> None:
        self.asked = 0

    async def list_pod_sandboxes(self, *, labels: Mapping[str, str] = {}, id: str = "") -> tuple[SandboxSummary, ...]:
        assert labels == {NODE_LABEL: "vm"}
        return tuple(
            SandboxSummary(f"s-{pod}", 0, pod, pod, "default", "SANDBOX_READY", None, {"app": pod}, {}, "")
            for pod in ("calm", "hung")
        )

    async def list_containers(
        self, *, labels: Mapping[str, str] = {}, id: str = "", sandbox_id: str = ""
    ) -> tuple[ContainerSummary, ...]:
        return tuple(
            ContainerSummary(
                id=f"{pod}-{name}",
                sandbox_id=f"s-{pod}",
                name=name,
                attempt=0,
                state="running" if name == "app" else "exited",
                created_at=None,
                image="",
                image_ref="",
                labels={POD_NAME_LABEL: pod, POD_NAMESPACE_LABEL: "default", CONTAINER_NAME_LABEL: name},
                annotations={},
            )
            for pod in ("calm", "hung")
            for name in ("app", "done")
        )

    async def list_container_stats(self, *, sandbox_id: str, timeout_seconds: float) -> tuple[ContainerStats, ...]:
        if sandbox_id == "s-hung":
            raise DeadlineExceeded("list_container_stats", "DEADLINE_EXCEEDED", "")
        self.asked += 1
        moment = 2 if self.asked > 3 else 1
        return (stats(moment, moment, id="calm-app"), ContainerStats("calm-done", "done", None))


async def test_a_repeated_sample_is_requested_again_and_a_hung_pod_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usage, "WINDOW_SECONDS", 0.0)
    monkeypatch.setattr(usage, "_PAUSE_SECONDS", 0.0)
    runtime = Measuring()  # type: ignore[abstract]  # what else a runtime can do is not asked of it
    measured = await measure(runtime, "vm")
    assert measured.containers == (TopContainer("default", "calm", "app", {"app": "calm"}, TopUsage(SECOND, MI)),)
    assert measured.unmeasured == (("default", "hung", "the runtime does not report it within 3 s"),)
    assert runtime.asked == 4


class Ticking(Measuring):
    """A runtime with one pod, which uses one core; its measurement changes at every second read."""

    async def list_container_stats(self, *, sandbox_id: str, timeout_seconds: float) -> tuple[ContainerStats, ...]:
        if sandbox_id == "s-hung":
            return ()
        self.asked += 1
        moment = 1 + self.asked // 2
        return (stats(moment, moment, id="calm-app"),)


async def test_each_look_of_a_watch_measures_since_the_last_and_a_repeated_sample_changes_nothing() -> None:
    meter = Meter(Ticking(), "vm")  # type: ignore[abstract]
    seen = [await meter.next() for _ in range(5)]
    used = (TopContainer("default", "calm", "app", {"app": "calm"}, TopUsage(SECOND, MI)),)
    assert [each.containers for each in seen] == [(), used, used, used, used]


USED = [
    TopContainer("default", "web", "app", {}, TopUsage(250 * 1_000_000, 20 * MI)),
    TopContainer("default", "web", "proxy", {}, TopUsage(1, 5 * MI)),
    TopContainer("team", "db", "postgres", {}, TopUsage(100 * 1_000_000, 300 * MI)),
]


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        ({}, ["NAME   CPU(cores)   MEMORY(bytes)", "web    251m         25Mi", "db     100m         300Mi"]),
        (
            {"namespaces": True, "sort_by": "memory", "headers": False},
            ["team      db    100m   300Mi", "default   web   251m   25Mi"],
        ),
        (
            {"by_container": True, "sort_by": "cpu", "with_sum": True},
            [
                "POD   NAME       CPU(cores)   MEMORY(bytes)",
                "web   app        250m         20Mi",
                "db    postgres   100m         300Mi",
                "web   proxy      1m           5Mi",
                "                 ________     ________",
                "                 351m         325Mi",
            ],
        ),
    ],
)
def test_the_top_table_is_that_of_kubectl(how: dict[str, Any], lines: list[str]) -> None:
    assert top.Table(**how).lines(USED) == lines


def test_of_more_pods_than_there_is_room_for_the_busiest_are_shown_in_their_order() -> None:
    used = [
        TopContainer("default", f"p{each}", "app", {}, TopUsage(cpu * 1_000_000, MI))
        for each, cpu in enumerate((5, 90, 1, 70, 3))
    ]
    drawn = top.Table(with_sum=True, headers=False).lines(used, 3)
    assert [line.split() for line in drawn] == [
        ["p1", "90m", "1Mi"],
        ["p3", "70m", "1Mi"],
        ["________", "________"],
        ["169m", "5Mi"],
        ["…", "3", "more,", "which", "use", "no", "more", "CPU"],
    ]
    assert len(top.Table().lines(used, 5)) == 6, "all of them, and the header"


def test_amounts_are_rounded_as_kubectl_does() -> None:
    assert [top.cores(each) for each in (0, 1, 1_000_000, 1_000_001)] == ["0m", "1m", "1m", "2m"]
    assert [top.mebibytes(each) for each in (0, MI - 1, MI)] == ["0Mi", "0Mi", "1Mi"]


def test_node_usage_is_measured_from_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 300 kB\nInactive(file): 200 kB\nHugePages_Total: 3\n")
    (proc / "stat").write_text(
        "cpu  10 0 10 900 50 0 0 0 0 0\ncpu0 5 0 5 450 25 0 0 0\ncpu1 5 0 5 450 25 0 0 0\nintr 1\n"
    )

    def work(_seconds: float) -> None:
        (proc / "stat").write_text("cpu  60 0 60 900 99 0 0 7 0 0\ncpu0 1 0\ncpu1 1 0\nintr 1\n")

    ticks = iter((100.0, 102.0))
    monkeypatch.setattr("syncpod.cli.machine.usage.time.sleep", work)
    monkeypatch.setattr("syncpod.cli.machine.usage.time.monotonic", lambda: next(ticks))
    found = usage.measure_node(tmp_path)
    assert found == usage.TopNode(SECOND // 2, cpus=2, memory_bytes=500 * 1024, total_memory_bytes=1000 * 1024)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("top", "pod", "--sort-by", "disk"), 2, "--sort-by: must be cpu or memory, not disk"),
        (("top", "pod", "web", "-A"), 2, "name pods, or choose them with --selector or --all-namespaces, not both"),
        (("top", "node", "elsewhere"), 1, 'node "elsewhere" is not this machine, '),
    ],
)
def test_top_reports_in_one_line_what_it_cannot_show(
    arguments: tuple[str, ...], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    told = capsys.readouterr()
    assert told.out == "" and sentence in told.err and told.err.count("\n") == 1
