"""``syncpod fleet codec``: has the Temporal UI of a fleet show what the fleet's server keeps encrypted."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import StateDir


def codec(
    port: Annotated[
        int,
        typer.Option("--port", metavar="PORT", min=0, max=65535, help="Where to listen.", show_default="a free port"),
    ] = 0,
    state_dir: StateDir = "",
) -> None:
    """Decode for the Temporal UI with the fleet's keys, until Ctrl-C.

    Set the address that is printed as the codec endpoint in the UI (the data encoder in its top bar), or as
    TEMPORAL_CODEC_ENDPOINT for `temporal`. It is a secret, and another one each time: whoever knows it, and is on this
    machine, reads what the fleet's server keeps, but can change nothing. What is sealed for a node, or by it, stays as
    it is.
    """
    import asyncio

    from syncpod.cli.commands.fleet_certificates import open_here
    from syncpod.settings.errors import SettingsInvalid
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
