"""``syncpod env``: the environment with which ``temporal`` and ``tctl`` command this machine's node."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import typer

from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import StateDir

_OF_A_WORKER: Final = (
    "TEMPORAL_CODEC_ENDPOINT", "TEMPORAL_CODEC_AUTH", "TEMPORAL_CLI_AUTH", "TEMPORAL_CLI_CODEC_ENDPOINT",
    "TEMPORAL_CLI_CODEC_AUTH",
)  # fmt: skip
"""Variables with the address and the token of a worker's codec server; useless once the worker has ended."""


def env(
    state_dir: StateDir = "",
    workflow: Annotated[
        str,
        typer.Option(
            "--workflow",
            metavar="ID",
            help="Sign for this workflow, even if the command names another.",
            show_default="the one that the command names",
        ),
    ] = "",
) -> None:
    """Print the environment for `temporal` and `tctl`.

    `eval "$(syncpod env)"` sets it. With it, both reach this machine's server, and the node's worker signs what they
    send: signals, updates and starts in plain JSON, for the workflow that the command names. Its token is worth as much
    as the key in the state directory, and is valid until the worker ends. With `up --encrypt`, the last line, a
    comment, is the codec endpoint to set in the Temporal UI: it decrypts there, and signs nothing. If the worker has
    ended and the server runs, the command prints only the server's address: lists and histories can be read, and
    nothing is signed or decrypted until the worker runs again.
    """
    from syncpod.cli.machine.settings import kept_settings, settings
    from syncpod.settings.process_records import read_codec_record
    from syncpod.settings.worker_record import serving

    directory = settings(state_dir=state_dir).state_dir
    worker, codec = serving(directory), read_codec_record(directory)
    if worker is None:
        _say_server(directory, workflow)
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
    _export(lines)
    if codec is not None and kept_settings(directory).encrypts:
        say(f"# Codec endpoint for the Temporal UI in your browser, until the worker ends: {codec.page}")


def _say_server(directory: Path, workflow: str) -> None:
    """Print how to reach the server of a node whose worker has ended. Raises BadInput if none is known to run."""
    from syncpod.cli.machine.state_directory import recorded_worker, running_server

    ended, own = recorded_worker(directory), running_server(directory)
    start = f"start it with `{program()} up`"
    if workflow or ended is None or (ended.own_server and own is None):
        raise BadInput(f"no worker of {directory} runs: {start}")
    address = own.address if ended.own_server and own is not None else ended.address
    say(f"unset {' '.join(_OF_A_WORKER)}")
    _export({
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_NAMESPACE": ended.namespace,
        "TEMPORAL_CLI_ADDRESS": address,
        "TEMPORAL_CLI_NAMESPACE": ended.namespace,
    })  # fmt: skip
    remark(f"Note: no worker of {directory} runs, so nothing is signed or decrypted, and no query is answered: {start}")


def _export(lines: Mapping[str, str]) -> None:
    for name, value in lines.items():
        say(f"export {name}={shlex.quote(value)}")
