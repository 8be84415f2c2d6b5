"""Serves a fleet from the foreground: its gate, and the codec server with which the Temporal UI reads its payloads."""

from __future__ import annotations

import asyncio
from typing import Any

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.fleet_home import open_here
from syncpod.cli.machine.settings import settings
from syncpod.cli.temporal.session import connection
from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import TemporalFrontend, fleet_directory
from syncpod.gate.refusals import GoneCalls
from syncpod.gate.serve import serve
from syncpod.kernel.os_errors import sentence_of
from syncpod.kernel.process_log import SentencesInLog, log_printable
from syncpod.settings.directories import note_place
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.decoding_page import serve_page
from syncpod.signing.keys import make_signing_keys
from syncpod.temporal.plugin import NoServer, connection_settings


def serve_gate(host: str, port: int, names: list[str], temporal: str, state_dir: str, *, said: str) -> None:
    """Serve the gate until Ctrl-C, at this address, in front of the server `temporal`; "" = that of other commands.

    A state directory without a fleet gets a new one. `said` is the address as it was typed, for errors. Raises
    BadInput, and Failure if the gate cannot serve.
    """
    behind = _server_behind(temporal, state_dir)
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
        raise Failure(f"the gate cannot serve at {said}: {sentence_of(error)}") from None
    except RuntimeError as error:
        raise Failure(f"the gate cannot serve at {said}: {error}") from None


def _server_behind(temporal: str, state_dir: str) -> TemporalFrontend:
    """Return the fleet's server: the named one, or else the one that other commands use, with TLS if configured.

    Raises BadInput.
    """
    try:
        named = connection_settings(default_address=temporal) if temporal else None
        config = named or connection(state_dir, begun_by="syncpod server")
    except NoServer as error:
        raise BadInput(str(error)) from None
    address = temporal or config["target_host"]
    if config.get("api_key"):
        raise BadInput(
            "TEMPORAL_API_KEY: the gate does not send API keys: use a server that asks for a certificate or for nothing"
        )
    tls: Any = config.get("tls")
    if not tls:
        return TemporalFrontend(address, config["namespace"])
    if tls is True:
        return TemporalFrontend(address, config["namespace"], tls=True)
    return TemporalFrontend(
        address,
        config["namespace"],
        tls=True,
        roots=tls.server_root_ca_cert,
        certificate=tls.client_cert,
        key=tls.client_private_key,
        domain=tls.domain or "",
    )


def serve_codec(port: int, state_dir: str) -> None:
    """Decrypt payloads with the fleet's keys until Ctrl-C, at this port; 0 = a free one.

    Raises BadInput, and Failure if the port cannot be listened at.
    """
    try:
        asyncio.run(serve_page(make_signing_keys(open_here(state_dir).directory), port, say))
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    except OSError as error:
        raise Failure(f"port {port} cannot be listened at: {error.strerror}") from None
