"""``syncpod fleet codec``: a codec server that decrypts a fleet's payloads for the Temporal UI."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import StateDir
from syncpod.settings.values import SettingsInvalid


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
    import asyncio

    from syncpod.cli.machine.fleet_home import open_here
    from syncpod.signing.decoding_page import serve_page
    from syncpod.signing.keys import make_signing_keys

    def serving(endpoint: str) -> None:
        say(endpoint)

    try:
        asyncio.run(serve_page(make_signing_keys(open_here(state_dir).directory), port, serving))
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    except OSError as error:
        raise Failure(f"port {port} cannot be listened at: {error.strerror}") from None
