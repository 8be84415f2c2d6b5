"""``syncpod fleet codec``: a codec server that decrypts a fleet's payloads for the Temporal UI."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.options import StateDir


def codec(
    port: Annotated[
        int,
        typer.Option("--port", metavar="PORT", min=0, max=65535, help="Where to listen.", show_default="a free port"),
    ] = 0,
    state_dir: StateDir = "",
) -> None:
    """Decrypt payloads for the Temporal UI with the fleet's keys, until Ctrl-C.

    Set the printed address as the codec endpoint of the UI (the data encoder in its top bar). For `temporal`, set
    `TEMPORAL_CODEC_ENDPOINT` in the environment: any user can read a command line. The address is a secret, and
    different each time. The codec decrypts payloads of the fleet's server, for you and root on this machine alone, and
    changes nothing. Payloads that are sealed for a node, or by it, stay sealed.
    """
    from syncpod.cli.actions.fleet_gate import serve_codec

    serve_codec(port, state_dir)
