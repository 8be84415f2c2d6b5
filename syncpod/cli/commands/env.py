"""``syncpod env``: the environment with which ``temporal`` and ``tctl`` command this machine's node."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from syncpod.cli.console import say
from syncpod.cli.input.options import StateDir


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
    from syncpod.cli.actions.env import export_lines, say_server

    if worker is None:
        say_server(directory, workflow)
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
    export_lines(lines)
    if codec is not None and kept_settings(directory).encrypts:
        say(f"# Codec endpoint for the Temporal UI in your browser, until the worker ends: {codec.page}")
