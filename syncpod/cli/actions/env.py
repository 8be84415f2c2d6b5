"""Prints the variables with which ``temporal`` and ``tctl`` reach this machine's server, and have a worker sign."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import BadInput
from syncpod.cli.machine.settings import kept_settings, settings
from syncpod.cli.machine.state_directory import recorded_worker, running_server
from syncpod.settings.process_records import read_codec_record
from syncpod.settings.worker_record import serving

_OF_A_WORKER: Final = (
    "TEMPORAL_CODEC_ENDPOINT", "TEMPORAL_CODEC_AUTH", "TEMPORAL_CLI_AUTH", "TEMPORAL_CLI_CODEC_ENDPOINT",
    "TEMPORAL_CLI_CODEC_AUTH",
)  # fmt: skip
"""Variables with the address and the token of a worker's codec server; useless once the worker has ended."""


def print_environment(state_dir: str, workflow: str) -> None:
    """Print the shell's exports; payloads are signed for `workflow`, "" = for the one that a command names.

    Without a worker, the exports only name its server. Raises BadInput if no server is known either.
    """
    directory = settings(state_dir=state_dir).state_dir
    worker, codec = serving(directory), read_codec_record(directory)
    if worker is None:
        _print_server(directory, workflow)
        return
    lines = {"TEMPORAL_ADDRESS": worker.address, "TEMPORAL_NAMESPACE": worker.namespace}
    if codec is None:
        lines |= {"TEMPORAL_CLI_ADDRESS": worker.address, "TEMPORAL_CLI_NAMESPACE": worker.namespace}
    else:
        bearer = f"Bearer {codec.token}"
        endpoint = f"{codec.endpoint}/{quote(workflow, safe='')}" if workflow else codec.endpoint
        lines |= {"TEMPORAL_CODEC_ENDPOINT": endpoint, "TEMPORAL_CODEC_AUTH": bearer}
        # tctl sends its own payloads past the codec server, so tctl gets the address of a proxy that signs.
        lines |= {"TEMPORAL_CLI_ADDRESS": codec.proxy, "TEMPORAL_CLI_NAMESPACE": worker.namespace}
        lines["TEMPORAL_CLI_AUTH"] = bearer
        lines |= {"TEMPORAL_CLI_CODEC_ENDPOINT": codec.endpoint, "TEMPORAL_CLI_CODEC_AUTH": bearer}  # to show payloads
    _print_exports(lines)
    if codec is not None and kept_settings(directory).encrypts:
        say(f"# Codec endpoint for the Temporal UI in your browser, until the worker ends: {codec.page}")


def _print_server(directory: Path, workflow: str) -> None:
    """Print how to reach the server of a node whose worker has ended. Raises BadInput if none is known to run."""
    ended, own = recorded_worker(directory), running_server(directory)
    start = f"start it with `{program()} up`"
    if workflow or ended is None or (ended.own_server and own is None):
        raise BadInput(f"no worker of {directory} runs: {start}")
    address = own.address if ended.own_server and own is not None else ended.address
    say(f"unset {' '.join(_OF_A_WORKER)}")
    _print_exports({
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_NAMESPACE": ended.namespace,
        "TEMPORAL_CLI_ADDRESS": address,
        "TEMPORAL_CLI_NAMESPACE": ended.namespace,
    })  # fmt: skip
    remark(f"Note: no worker of {directory} runs, so nothing is signed or decrypted, and no query is answered: {start}")


def _print_exports(lines: Mapping[str, str]) -> None:
    """Print the variables as a shell reads them."""
    for name, value in lines.items():
        say(f"export {name}={shlex.quote(value)}")
