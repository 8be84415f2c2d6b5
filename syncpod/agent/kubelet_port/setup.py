"""Adds the kubelet's port to a node's agent, from its settings and its kubeconfig."""

from __future__ import annotations

import logging
import os
import ssl
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from temporalio.client import Client

from syncpod.agent.agent import Agent
from syncpod.agent.kubelet_port.access import Guard
from syncpod.agent.kubelet_port.configuration import kubelet_configuration
from syncpod.agent.kubelet_port.port import KubeletPort, PortPlace
from syncpod.agent.kubelet_port.serving_certificate import ServingRotation, own_pair, tls
from syncpod.agent.node_workflow.status import engine_version
from syncpod.agent.own_commands import command_environment
from syncpod.agent.pod_source import NodePods
from syncpod.agent.scraping.readings import NodeReadings
from syncpod.cri.port import CriRuntime
from syncpod.housekeeping_settings import housekeeping_settings
from syncpod.kubernetes.certificate_files import serving_file
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.client_certificates import issuer_of_node
from syncpod.kubernetes.kubeconfig import Kubeconfig
from syncpod.node.pod_threads import PodThreads
from syncpod.settings.node import NodeSettings, PortAccess
from syncpod.settings.setting import Setting
from syncpod.settings.table import (
    ANONYMOUS_AUTH,
    AUTHORIZATION_MODE,
    CLIENT_CA_FILE,
    READ_ONLY_PORT,
    SERVER_TLS_BOOTSTRAP,
    TLS_CERT_FILE,
    TLS_PRIVATE_KEY_FILE,
)
from syncpod.settings.values import SettingsInvalid
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
_LARGEST = 1 << 20
"""The most bytes of a file of certificates."""


def add_kubelet_port(
    agent: Agent,
    settings: NodeSettings,
    config: Kubeconfig | None,
    node: NodeContext,
    cri: CriRuntime,
    readings: NodeReadings,
    pods: NodePods,
    threads: PodThreads,
    server: Client,
) -> int:
    """Serve the port as long as the agent runs, and return its number; 0 = it is not served.

    Without a cluster it is served only if the settings permit requests without an API server. The port has its own API
    client, so that failures of other parts do not end its streams. `server` is the client of the node's Temporal
    server. Blocks. Raises SettingsInvalid, OSError.
    """
    access = settings.port_access
    addresses = (access.address,) if access.address else node.host.addresses
    is_served = settings.serves_kubelet_port and bool(addresses)
    if settings.serves_kubelet_port and not is_served:
        log.warning("the node has no address, so the cluster cannot reach the kubelet's port: no logs, exec or metrics")
    _log_open_access(access, settings.kubelet_port if is_served else 0)
    authorities, whence = _client_authorities(settings, config)
    context = _tls(settings, node, authorities)
    door = PortPlace(addresses, settings.kubelet_port, context)
    configuration = kubelet_configuration(settings, node, whence, housekeeping_settings(settings.given).eviction)
    environment = command_environment(
        os.environ,
        address=server.service_client.config.target_host,
        namespace=server.namespace,
        state_dir=settings.state_dir,
        log_dir=settings.log_dir,
    )
    port = KubeletPort(door, readings, pods, cri, threads, configuration, environment)
    if is_served:
        agent.add_background_task("the kubelet's port", partial(_run, port, config, node.name, access))
    if access.read_only:
        where = (access.address,) if access.address else (_LOOPBACK,)
        agent.add_background_task("the kubelet's port for reading", partial(port.run_readable, where, access.read_only))
    if settings.server_tls_bootstrap and config is not None and is_served:
        serving = ServingRotation(config, node.name, node.host.addresses, settings.state_dir, context)
        agent.add_background_task("the certificate of the kubelet's port", serving.run)
    return settings.kubelet_port if is_served else 0


async def _run(port: KubeletPort, config: Kubeconfig | None, node: str, access: PortAccess) -> None:
    """Serve the port until cancelled; without a kubeconfig, no API server authorizes requests."""
    if config is None:
        await port.run(Guard(None, node, access))
        return
    async with ApiClient(config, user_agent=f"syncpod/{engine_version()}") as client:
        await port.run(Guard(client, node, access))


def _log_open_access(access: PortAccess, number: int) -> None:
    """Log the rights of unknown clients at the kubelet's port `number` (0 = none), and at the read-only port."""
    everything = "do everything in every container" if access.always_allow else "do what the API server lets them"
    if number and access.anonymous:
        log.warning(
            "%s: a client of port %d that does not identify itself is system:anonymous there, and may %s",
            ANONYMOUS_AUTH,
            number,
            everything,
        )
    elif number and access.always_allow:
        log.warning("%s=AlwaysAllow: every known client of port %d may %s", AUTHORIZATION_MODE, number, everything)
    if access.read_only:
        log.warning(
            "%s: anybody at port %d can read the node's pods, with their specs, their usage and metrics, without TLS",
            READ_ONLY_PORT,
            access.read_only,
        )


def _client_authorities(settings: NodeSettings, config: Kubeconfig | None) -> tuple[str, str]:
    """Return the authorities of clients' certificates in PEM, and the file that has them. Raises SettingsInvalid."""
    if settings.client_ca_file is not None:
        return _read(CLIENT_CA_FILE, settings.client_ca_file), str(settings.client_ca_file)
    if config is None:
        return "", ""
    try:
        found = issuer_of_node(config)
    except (OSError, ValueError) as error:
        log.warning("cannot read the authority of this cluster's certificates from %s: %s", config.path, error)
        found = ""
    if not found:
        log.warning(
            "the authority of %s has not issued the node's own certificate, so it is not taken for one of clients: the "
            "API server cannot identify itself at the kubelet's port unless %s names the cluster's client CA",
            config.path,
            CLIENT_CA_FILE,
        )
    return found, str(config.path) if found else ""


def _tls(settings: NodeSettings, node: NodeContext, authorities: str) -> ssl.SSLContext:
    """Return the TLS context of the port. Raises SettingsInvalid, OSError."""
    cert, key = settings.tls_cert_file, settings.tls_private_key_file
    if settings.server_tls_bootstrap and (cert or key):
        raise SettingsInvalid(f"{SERVER_TLS_BOOTSTRAP}: {TLS_CERT_FILE} names the port's certificate already")
    if (cert is None) != (key is None):
        given, missing = (TLS_CERT_FILE, TLS_PRIVATE_KEY_FILE) if cert else (TLS_PRIVATE_KEY_FILE, TLS_CERT_FILE)
        raise SettingsInvalid(f"{given}={cert or key}: needs {missing} beside it")
    if cert is None or key is None:
        pair = _issued(settings) or own_pair(settings.state_dir, settings.node, node.host.addresses, datetime.now(UTC))
        source = settings.state_dir
    else:
        pair = f"{_read(TLS_CERT_FILE, cert)}\n{_read(TLS_PRIVATE_KEY_FILE, key)}"
        source = cert
    try:
        tls(pair, "")
    except (ssl.SSLError, ValueError):
        raise SettingsInvalid(
            f"{TLS_CERT_FILE}={source}: must be a certificate in PEM, with its key, unencrypted, in "
            f"{TLS_PRIVATE_KEY_FILE}"
        ) from None
    try:
        return tls(pair, authorities)
    except (ssl.SSLError, ValueError):
        raise SettingsInvalid(f"{CLIENT_CA_FILE}={settings.client_ca_file}: must be certificates in PEM") from None


def _issued(settings: NodeSettings) -> str:
    """Return the certificate that the cluster has issued for the port, with its key; "" if there is none. Blocks."""
    if not settings.server_tls_bootstrap:
        return ""
    pair = serving_file(settings.state_dir).read().decode(errors="replace")
    try:
        tls(pair, "")
    except (ssl.SSLError, ValueError):
        return ""
    return pair


def _read(setting: Setting[Path | None], path: Path) -> str:
    """Return the text of a file of certificates. Raises SettingsInvalid."""
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise SettingsInvalid(f"{setting}={path}: larger than {_LARGEST >> 20} MiB: no certificates")
        return text.decode()
    except OSError as error:
        raise SettingsInvalid(f"{setting}={path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsInvalid(f"{setting}={path}: must be certificates in PEM") from None
