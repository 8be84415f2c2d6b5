"""The texts of ``syncpod up``: what runs now, what to do next, and how to stop it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import syncpod
from syncpod.api.views.text import columns
from syncpod.cli.console import from_here, paint, program, remark, say
from syncpod.cli.machine.dev_server import HOST, PORT
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import (
    is_marked,
    log_directory,
    running_server,
    running_worker,
    runtime_log,
    server_log,
    worker_log,
)
from syncpod.settings.directories import is_in_memory
from syncpod.settings.process_records import running_runtime

if TYPE_CHECKING:
    from syncpod.cli import local_processes
    from syncpod.pod import Admission
    from syncpod.settings.node import NodeSettings

_NOT_READY: Final = 'PodReady = false AND PodPhase != "Succeeded" AND ExecutionStatus = "Running"'
"""The visibility query that finds the pods which should be ready and are not."""


def print_running(here: NodeSettings, server: local_processes.Server, running: local_processes.LocalNode) -> None:
    """Print what runs now, and where its UI, its logs and its state are."""
    directory, worker, own = here.state_dir, running.worker, running.own
    logs = [server_log(directory)] if server.own else []
    logs += [runtime_log(directory)] if own and own.detached else []
    logs += [worker_log(directory)]
    kind = "" if own is None else " (embedded: simulated)" if own.simulated else " (embedded: no isolation)"
    rows = [("Temporal", f"{worker.address}, namespace {worker.namespace}")]
    no_ui = f"off, since this is root: `{program()} up --ui` turns it on"
    rows += [("UI", server.own.ui or no_ui)] if server.own else []
    rows += [("not ready", not_ready_page(server.own.ui, worker.namespace))] if server.own and server.own.ui else []
    rows += [("runtime", f"{worker.runtime}{kind}"), ("socket", worker.endpoint), ("node", worker.node)]
    rows += [("manifests", worker.manifest_dir)] if worker.manifest_dir else []
    rows += [("cluster", worker.kubeconfig)] if worker.kubeconfig else []
    rows += [("metrics", f"http://{worker.metrics_address}/metrics")] if worker.metrics_address else []
    rows += [("state", str(directory)), ("logs", f"{log_directory(directory)}: {', '.join(log.name for log in logs)}")]
    say("\n".join(columns(rows)))
    if not here.signed:
        remark(
            f"Note: commands to this node are not signed: every client that reaches {worker.address} can "
            f"command it; `{program()} down`, then `{program()} up` makes it require signatures"
        )
    if not is_in_memory(here.memory_dir):
        remark(f"Note: {here.memory_dir} is not on a memory file system: Secrets lie on its disk")
    if not is_marked(directory):
        remark(f"Note: {directory} has other files: `{program()} down --purge` will not remove it")


def not_ready_page(ui: str, namespace: str) -> str:
    """Return the address of the UI's list of pods that are not ready; `ui` is the address of the UI."""
    return f"{ui}/namespaces/{quote(namespace, safe='')}/workflows?query={quote(_NOT_READY, safe='')}"


def not_followed(directory: str) -> str:
    """Return the note that the worker does not follow the manifest directory of the previous worker."""
    us = shlex.quote(program())
    return (
        f"Note: {directory} is no longer followed: its pods stay as they are, whatever happens to their files; "
        f"`{us} down --keep-pods`, then `{us} up --manifests {shlex.quote(directory)}` follows it again"
    )


def print_next_steps(here: NodeSettings, server: local_processes.Server, admissions: list[Admission]) -> None:
    """Print useful next commands, and the commands that end everything."""
    say()
    for line in exports(here, server):
        say(line)
    say("Try next:")
    us = shlex.quote(program())
    if admissions:
        meta, flag = admissions[0].pod.metadata, _namespace_flag(admissions[0])
        commands = [f"{us} logs{flag} -f {meta.name} --all-containers", f"{us} exec{flag} -it {meta.name} -- sh"]
        commands.append(f"{us} history{flag} {meta.name}")
    else:
        commands = [f"{us} apply -f {shlex.quote(_example())} --wait", f"{us} get pods", f"{us} --help"]
    for command in commands:
        say(f"  {paint(command, 'bold')}")
    say(_how_to_stop(admissions))


def _example() -> str:
    """Return the path of the example pod, relative if it is below the working directory.

    An installed program has no examples: then it is the placeholder ``FILE``.
    """
    example = Path(syncpod.__file__).resolve().parents[1] / "examples" / "pod.yaml"
    return from_here(example) if example.is_file() else "FILE"


def exports(here: NodeSettings, server: local_processes.Server | None) -> list[str]:
    """Return the shell exports with which other commands find this server and node."""
    lines = []
    if here.state_dir != settings().state_dir:
        lines.append(f"For other commands: export SYNCPOD_STATE_DIR={shlex.quote(str(here.state_dir))}")
    if server is not None and server.own and server.own.address != f"{HOST}:{PORT}":
        lines.append(f'For the `temporal` CLI: eval "$({shlex.quote(program())} env)"')
    return lines


def how_to_go_on(admissions: list[Admission]) -> str:
    """Return how to find out why pods do not come up, and how to stop."""
    first, us = admissions[0], shlex.quote(program())
    describe = f"`{us} describe{_namespace_flag(first)} pod {first.pod.metadata.name}` says what a pod waits for."
    return f"{describe}\n{_how_to_stop(admissions)}"


def what_runs(here: NodeSettings, admissions: list[Admission]) -> str:
    """Return which processes keep running after a Ctrl-C that came before any pod was applied."""
    directory = here.state_dir
    server, runtime, worker = running_server(directory), running_runtime(directory), running_worker(directory)
    found = [f"Temporal server (pid {server.process.pid})"] if server and server.detached else []
    found += [f"embedded runtime (pid {runtime.process.pid})"] if runtime and runtime.detached else []
    found += [f"worker (pid {worker.pid})"] if worker else []
    pods = "No pod was applied. " if admissions else ""
    if not found:
        return f"{pods}Nothing was left running."
    return f"{pods}Running: {', '.join(found)}; `{shlex.quote(program())} down` ends that."


def _how_to_stop(admissions: list[Admission]) -> str:
    us = shlex.quote(program())
    name, flag = (admissions[0].pod.metadata.name, _namespace_flag(admissions[0])) if admissions else ("NAME", "")
    return (
        f"The pods and all that serves them keep running. `{us} delete{flag} pod {name}` ends a pod,\n"
        f"`{us} down` everything, `{us} down --purge` leaves no file either."
    )


def _namespace_flag(admission: Admission) -> str:
    namespace = admission.pod.metadata.namespace
    return "" if namespace == "default" else f" -n {namespace}"
