"""``syncpod-kubelet``: the program that kubeadm, k3s, systemd or Kubernetes' tests start in place of a kubelet.

It takes a kubelet's flags and configuration, starts the node's Temporal server if none runs, and becomes the worker.
When it ends, the containers and that server keep running, and the next start uses them.

Exit codes: 0 ended by SIGTERM or SIGINT, 1 failed, 2 the flags, a file or the machine are wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from syncpod.cli.failure import BAD_INPUT, Failure

_USAGE = """usage: syncpod-kubelet [--config FILE] [--kubeconfig FILE] [--FLAG=VALUE ...]

A kubelet's flags, and a KubeletConfiguration in FILE: docs/kubernetes.md says which. These flags are known:
"""


def main() -> NoReturn:
    """Become the node's worker, or print each thing that is wrong and end this process."""
    code = run(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Become the node's worker; if that fails, print the reasons and return the exit code."""
    from syncpod.cli.kubelet.doors import early_ports
    from syncpod.cli.kubelet.reading import KubeletInputInvalid, read
    from syncpod.kernel.early_listening import listen_first

    if "--version" in arguments or "--version=true" in arguments:
        from syncpod.kubernetes.node import kubelet_version

        sys.stdout.write(f"Kubernetes {kubelet_version(metadata.version('syncpod'))}\n")
        return 0
    if {"-h", "--help"} & set(arguments):
        from syncpod.cli.kubelet.node_start import flags

        sys.stdout.write(_USAGE + "".join(f"  --{name}\n" for name in flags()))
        return 0
    try:
        given = read(arguments)
        listen_first(early_ports(given))  # before the slow imports
        from syncpod.cli.kubelet.node_start import KubeletMachine, node_start

        start = node_start(given, KubeletMachine.read())
    except KubeletInputInvalid as wrong:
        sys.stderr.writelines(f"syncpod-kubelet: {line}\n" for line in str(wrong).splitlines())
        return BAD_INPUT
    except OSError as error:
        sys.stderr.write(f"syncpod-kubelet: {error.filename}: {error.strerror}\n")
        return BAD_INPUT
    sys.stderr.writelines(f"syncpod-kubelet: warning: {each}\n" for each in start.warnings)
    try:
        _become_the_worker(start.variables, start.log_level, start.bootstrap)
    except Failure as failure:
        sys.stderr.write(f"syncpod-kubelet: {failure}\n")
        return failure.code


def _become_the_worker(variables: Mapping[str, str], log_level: str, bootstrap: str) -> NoReturn:
    """Start the Temporal server if it does not run, and replace this process by the worker. Raises Failure.

    A node that has no certificate of its cluster yet joins it first.
    """
    from syncpod.cli.kubelet.doors import ALWAYS, PODS_API, link_sockets
    from syncpod.cli.local_processes import start_server
    from syncpod.cli.machine.checked_node import require_valid
    from syncpod.cli.machine.cluster_join import joined
    from syncpod.cli.machine.processes import run_in_place
    from syncpod.cli.machine.settings import kept_settings, settings
    from syncpod.cli.machine.worker_process import worker_program
    from syncpod.kernel.early_listening import hand_over
    from syncpod.settings import variables as v
    from syncpod.settings.kept import beneath
    from syncpod.settings.table import as_arguments

    state_dir = variables[v.STATE_DIR]
    Path(state_dir).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    os.environ.update({name: text for name, text in variables.items() if text})
    here = settings(state_dir=state_dir)
    require_valid(here)
    sockets = (*ALWAYS, PODS_API) if variables.get(v.PODS_API) == "true" else ALWAYS
    for warning in link_sockets(Path(state_dir).parent, Path(state_dir), sockets):
        sys.stderr.write(f"syncpod-kubelet: warning: {warning}\n")
    if bootstrap:
        joined(here, Path(bootstrap), at=here.kubeconfig)
    server = start_server(here)
    otherwise = beneath(kept_settings(Path(state_dir)).variables, os.environ)
    arguments = as_arguments(variables, otherwise)
    command = [sys.executable, str(worker_program()), "--state-dir", state_dir, *arguments]
    if server.own is not None:
        command.append("--adopt-cluster")  # the server's database may be new, but the node is the same
    command += ["--log-level", log_level]
    address = {"TEMPORAL_ADDRESS": server.config["target_host"]}
    run_in_place(command, {**os.environ, **address, **hand_over()})


if __name__ == "__main__":
    main()
