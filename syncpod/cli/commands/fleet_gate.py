"""``syncpod fleet gate``: the mTLS gate in front of the fleet's Temporal server."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import StateDir
from syncpod.gate.refusals import GoneCalls
from syncpod.kernel.os_errors import sentence_of
from syncpod.kernel.process_log import SentencesInLog, log_printable
from syncpod.settings.values import SettingsInvalid

if TYPE_CHECKING:
    pass


ListenAddress = Annotated[str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Where nodes connect.")]
GateNames = Annotated[
    list[str] | None,
    typer.Option(
        "--name", metavar="HOST", help="A host name or address of this machine. Invitations have the first one."
    ),
]


def gate(
    listen: ListenAddress = "127.0.0.1:7300",
    name: GateNames = None,
    temporal: Annotated[
        str,
        typer.Option(
            "--temporal",
            metavar="ADDRESS",
            help="The fleet's Temporal server.",
            show_default="that of other commands",
        ),
    ] = "",
    state_dir: StateDir = "",
) -> None:
    """Let nodes reach the fleet's Temporal server, until Ctrl-C.

    A node shows the certificate of its invitation. With that it may poll its own task queue and answer its own tasks,
    and nothing else. Certificates that are issued or revoked meanwhile take effect at once.
    """
    import asyncio

    from syncpod.cli.machine.settings import settings
    from syncpod.gate.authority import now, open_fleet
    from syncpod.gate.gate import fleet_directory
    from syncpod.gate.serve import serve
    from syncpod.settings.directories import note_place
    from syncpod.signing.keys import make_signing_keys

    (host, port), names = parse_listen(listen), checked_names(name)
    from syncpod.cli.actions.fleet_gate import server_behind

    behind = server_behind(temporal, state_dir)
    here = settings(state_dir=state_dir)
    log_printable(SentencesInLog(), GoneCalls())

    def serving(address: str) -> None:
        say(f"the fleet's gate listens at {address}, for Temporal at {behind.address}, namespace {behind.namespace}")

    try:
        fleet = open_fleet(fleet_directory(here.state_dir), now())
        keys = make_signing_keys(fleet.directory)
        note_place(here.state_dir)
        asyncio.run(serve(fleet, keys, behind, names, host, port, serving=serving))
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    except OSError as error:
        raise Failure(f"the gate cannot serve at {listen}: {sentence_of(error)}") from None
    except RuntimeError as error:
        raise Failure(f"the gate cannot serve at {listen}: {error}") from None


def checked_names(names: list[str] | None) -> list[str]:
    """Return the names by which nodes reach a gate. Raises BadInput for an invalid host."""
    for each in names or []:
        if not each or any(sign in each for sign in "/ ,") or not each.isascii():
            raise BadInput(f"--name: {each!r} must be the name or the address of a host, without a port")
    return names or []


def parse_listen(text: str) -> tuple[str, int]:
    """Return the address and the port that a gate is to listen at. Raises BadInput."""
    host, _, port = text.strip().rpartition(":")
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]"))
        if not port.isdecimal() or not port.isascii() or int(port) > 65535:
            raise ValueError(port)
    except ValueError:
        raise BadInput(f"--listen: {text!r} must be an address and a port, such as 127.0.0.1:7300") from None
    return str(address), int(port)
