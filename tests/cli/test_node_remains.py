"""`syncpod node` lists remains of deleted pods and processes that the kernel may kill, which no workflow shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from syncpod.kernel.process_priority import NODE
from syncpod.kernel.procfs import identify
from syncpod.node.report import NodeReport, Remains, write_node_report
from syncpod.settings.process_records import RuntimeRecord, write_runtime
from syncpod.settings.worker_record import WorkerRecord, write_worker_record
from tests.cli.conftest import program

RAISED = (
    "from syncpod.kernel.process_priority import raise_oom_score_adj as up; up(300); print('up', flush=True); input()"
)


def test_what_cannot_be_removed_is_named_with_the_reason(tmp_path: Path) -> None:
    environ = {"SYNCPOD_STATE_DIR": str(tmp_path)}
    write_node_report(tmp_path, NodeReport())
    assert "Remains" not in program("node", environ=environ).out
    left = Remains(namespace="default", name="web", uid="u1", why="/a: Device or resource busy")
    write_node_report(tmp_path, NodeReport(remains=(left,)))
    said = program("node", environ=environ).out.splitlines()
    title = said.index("Remains of pods that are gone:")
    assert said[title + 2].split() == ["default/web", "u1", "/a:", "Device", "or", "resource", "busy"]


def test_what_the_kernel_kills_before_guaranteed_pods_is_named_with_its_value(tmp_path: Path) -> None:
    environ = {"SYNCPOD_STATE_DIR": str(tmp_path)}
    worker = WorkerRecord(2**22, "vm/1/1", "vm", "unix:///run/a.sock", "a 1", "127.0.0.1:1", "default", "q", 1)
    write_worker_record(tmp_path, worker)
    assert "oom_score_adj" not in program("node", environ=environ).out
    with subprocess.Popen([sys.executable, "-c", RAISED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as runtime:
        assert runtime.stdout is not None and runtime.stdout.readline() == b"up\n"
        process = identify(runtime.pid)
        assert process is not None
        write_runtime(tmp_path, RuntimeRecord(process, "unix:///run/a.sock", simulated=False, detached=False))
        (line,) = (each for each in program("node", environ=environ).out.splitlines() if "oom_score_adj" in each)
        assert line.split(None, 1)[1].startswith(f"runtime 300, since {NODE} may not be set here")
        assert runtime.stdin is not None
        runtime.stdin.close()
    assert "oom_score_adj" not in program("node", environ=environ).out
