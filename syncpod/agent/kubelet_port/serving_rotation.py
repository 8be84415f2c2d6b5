"""Requests the serving certificate of the kubelet's port from the cluster, and rotates it (serverTLSBootstrap).

Mirrors pkg/kubelet/certificate/kubelet.go, v1.36, NewKubeletServerCertificateManager. Difference: until the first
request is approved, the port has the node's self-signed certificate, while a kubelet refuses every connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path

from syncpod.agent.node_workflow.status import engine_version
from syncpod.kernel.memory_file import memory_file
from syncpod.kubernetes.certificate_files import serving_file
from syncpod.kubernetes.certificate_rotation import Rotation
from syncpod.kubernetes.certificates import SERVING_SIGNER, WantedCertificate
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.kubeconfig import Kubeconfig


class ServingRotation:
    """The certificate of one node's port."""

    def __init__(
        self, config: Kubeconfig, node: str, addresses: Sequence[str], state_dir: Path, context: ssl.SSLContext
    ) -> None:
        """Request a certificate for name and addresses from the cluster of `config`, and put it into `context`."""
        self._config, self._context = config, context
        self._certificate = WantedCertificate(node, SERVING_SIGNER, (node,), tuple(addresses))
        self._file = serving_file(state_dir)

    async def run(self) -> None:
        """Keep the certificate valid until cancelled."""
        async with ApiClient(self._config, user_agent=f"syncpod/{engine_version()}") as client:
            await Rotation(client, self._file, self._wanted, replaced=self._use).run()

    async def _wanted(self) -> WantedCertificate:
        return self._certificate

    async def _use(self) -> None:
        """Use the certificate in the file for new connections."""
        pair = (await asyncio.to_thread(self._file.read)).decode()
        with memory_file(pair) as path:
            self._context.load_cert_chain(path, password=lambda: "")  # else OpenSSL prompts at the terminal
