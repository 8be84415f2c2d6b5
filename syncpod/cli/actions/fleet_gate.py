"""The work of ``syncpod fleet gate``: the mTLS gate in front of the fleet's Temporal server."""

from __future__ import annotations

from typing import Any

from syncpod.cli.failure import BadInput
from syncpod.cli.temporal.session import connection
from syncpod.gate.gate import TemporalFrontend
from syncpod.temporal.plugin import NoServer, connection_settings


def server_behind(temporal: str, state_dir: str) -> TemporalFrontend:
    """Return the fleet's server: the named one, or else the one that other commands use, with TLS if configured."""
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
