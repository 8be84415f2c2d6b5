"""The work of ``syncpod env``: the environment with which ``temporal`` and ``tctl`` command this machine's node."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import BadInput
from syncpod.cli.machine.state_directory import recorded_worker, running_server

_OF_A_WORKER: Final = (
    "TEMPORAL_CODEC_ENDPOINT", "TEMPORAL_CODEC_AUTH", "TEMPORAL_CLI_AUTH", "TEMPORAL_CLI_CODEC_ENDPOINT",
    "TEMPORAL_CLI_CODEC_AUTH",
)  # fmt: skip
"""Variables with the address and the token of a worker's codec server; useless once the worker has ended."""


def say_server(directory: Path, workflow: str) -> None:
    """Print how to reach the server of a node whose worker has ended. Raises BadInput if none is known to run."""
    ended, own = recorded_worker(directory), running_server(directory)
    start = f"start it with `{program()} up`"
    if workflow or ended is None or (ended.own_server and own is None):
        raise BadInput(f"no worker of {directory} runs: {start}")
    address = own.address if ended.own_server and own is not None else ended.address
    say(f"unset {' '.join(_OF_A_WORKER)}")
    export_lines({
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_NAMESPACE": ended.namespace,
        "TEMPORAL_CLI_ADDRESS": address,
        "TEMPORAL_CLI_NAMESPACE": ended.namespace,
    })  # fmt: skip
    remark(f"Note: no worker of {directory} runs, so nothing is signed or decrypted, and no query is answered: {start}")


def export_lines(lines: Mapping[str, str]) -> None:
    """Print the variables as a shell reads them."""
    for name, value in lines.items():
        say(f"export {name}={shlex.quote(value)}")
