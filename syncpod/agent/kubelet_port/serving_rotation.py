"""Has the cluster issue the certificate of the kubelet's port, and puts each new one into use (serverTLSBootstrap).

Mirrors pkg/kubelet/certificate/kubelet.go, v1.36, NewKubeletServerCertificateManager. Until somebody has approved the
first request, the port has the certificate that the node has made, where a kubelet refuses every connection.
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
        """Ask the cluster of `config` for one for the node's name and addresses, and serve `context` with it."""
        self._config, self._context = config, context
        self._certificate = WantedCertificate(node, SERVING_SIGNER, (node,), tuple(addresses))
        self._file = serving_file(state_dir)

    async def run(self) -> None:
        """Keep the certificate good until cancelled."""
        async with ApiClient(self._config, user_agent=f"syncpod/{engine_version()}") as client:
            await Rotation(client, self._file, self._wanted, replaced=self._use).run()

    async def _wanted(self) -> WantedCertificate:
        return self._certificate

    async def _use(self) -> None:
        """Have connections from now on be served with the certificate that the file has."""
        pair = (await asyncio.to_thread(self._file.read)).decode()
        with memory_file(pair) as path:
            self._context.load_cert_chain(path, password=lambda: "")  # or it asks the terminal
