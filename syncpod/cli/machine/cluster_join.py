"""Joins this machine to a Kubernetes cluster by a bootstrap kubeconfig: requests a certificate, and waits for it.

Mirrors the kubelet's pkg/kubelet/certificate/bootstrap (v1.36), LoadClientConfig.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.state_directory import prepare
from syncpod.kubernetes.certificate_files import client_file, kubeconfig_path, write_kubeconfig
from syncpod.kubernetes.certificate_requests import CertificateRefused, obtain
from syncpod.kubernetes.certificates import CLIENT_SIGNER, WantedCertificate, life_of
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.kubeconfig import KubeconfigInvalid, read_credentials, read_kubeconfig, require_usable

if TYPE_CHECKING:
    from syncpod.kubernetes.kubeconfig import Kubeconfig
    from syncpod.settings.node import NodeSettings

_OPTION = "--bootstrap-kubeconfig"


def joined(here: NodeSettings, bootstrap: Path, *, at: Path | None = None) -> Path:
    """Return the path of the node's own kubeconfig, after joining the cluster that `bootstrap` names, if necessary.

    The path is `at`; None = in the state directory. If that kubeconfig's credentials are still valid, nothing is
    requested, and `bootstrap` need not exist. Otherwise a certificate is requested from the cluster, and a person may
    have to approve the request. Raises BadInput and Failure.
    """
    path = at or kubeconfig_path(here.state_dir)
    if _is_valid(path, here.node):
        return path
    config = _read(bootstrap)
    prepare(here.state_dir)
    try:
        return asyncio.run(_join(here, config, path))
    except CertificateRefused as refused:
        raise Failure(f"{_OPTION}: the cluster gives the node no certificate: {refused}") from None
    except (ClusterError, Unreachable) as error:
        raise Failure(f"{_OPTION}: {config.server}: {error}") from None
    except OSError as error:
        raise Failure(f"{here.state_dir}: {error.strerror}") from None


def _read(bootstrap: Path) -> Kubeconfig:
    try:
        config = read_kubeconfig(bootstrap.absolute())
        read_credentials(config)
    except KubeconfigInvalid as wrong:
        raise BadInput(f"{_OPTION}: {wrong}") from None
    return config


def _is_valid(path: Path, node: str) -> bool:
    """Return whether a kubeconfig identifies the node: by a token, or by a certificate that has not expired."""
    try:
        config = read_kubeconfig(path)
        require_usable(config, node)
        return not config.certificate or datetime.now(UTC) < life_of(config.certificate.read())[1]
    except (KubeconfigInvalid, ValueError, OSError):
        return False


async def _join(here: NodeSettings, config: Kubeconfig, path: Path) -> Path:
    """Obtain a certificate, and write the node's kubeconfig.

    Raises CertificateRefused, ClusterError, Unreachable, OSError.
    """

    def asked(name: str) -> None:
        say(f"waiting for the certificate request to be approved: `kubectl certificate approve {name}`")

    authorities = config.authorities.read() if config.authorities else b""
    async with ApiClient(config, user_agent="syncpod") as client:
        await obtain(client, WantedCertificate(here.node, CLIENT_SIGNER), client_file(here.state_dir), asked=asked)
    write_kubeconfig(here.state_dir, path, config, authorities)
    say(f"node/{here.node} has joined the cluster at {config.server}")
    return path
