"""``syncpod-kubelet``: the program that kubeadm, k3s, systemd or Kubernetes' tests start in place of a kubelet.

It takes a kubelet's flags and configuration, starts the node's Temporal server if none runs, and becomes the worker.
When it ends, the containers and that server keep running, and the next start uses them.

Exit codes: 0 ended by SIGTERM or SIGINT, 1 failed, 2 the flags, a file or the machine are wrong.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from typing import NoReturn

from syncpod.cli.failure import BAD_INPUT, Failure
from syncpod.kernel.early_listening import listen_first

_USAGE = """usage: syncpod-kubelet [--config FILE] [--kubeconfig FILE] [--FLAG=VALUE ...]

A kubelet's flags, and a KubeletConfiguration in FILE: docs/kubernetes.md says which. These flags are known:
"""


def main() -> NoReturn:
    """Become the node's worker, or print every mistake and end this process."""
    code = run(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Become the node's worker; if that fails, print the reasons and return the exit code."""
    if "--version" in arguments or "--version=true" in arguments:
        from syncpod.kubernetes.node import kubelet_version

        sys.stdout.write(f"Kubernetes {kubelet_version(metadata.version('syncpod'))}\n")
        return 0
    if {"-h", "--help"} & set(arguments):
        from syncpod.cli.kubelet.node_start import flags

        sys.stdout.write(_USAGE + "".join(f"  --{name}\n" for name in flags()))
        return 0

    from syncpod.cli.kubelet.doors import early_ports
    from syncpod.cli.kubelet.reading import KubeletInputInvalid, read

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

    from syncpod.cli.kubelet.worker_start import become_worker

    try:
        become_worker(start)
    except Failure as failure:
        sys.stderr.write(f"syncpod-kubelet: {failure}\n")
        return failure.code


if __name__ == "__main__":
    main()
