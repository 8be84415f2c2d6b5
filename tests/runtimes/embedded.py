"""A private embedded runtime, with a server started as by `syncpod up`; tests kill and restart it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import grpc

from tests.patience import PATIENCE
from tests.runtimes import claim, embedded_leftovers, images, leftovers
from tests.runtimes.embedded_gates import SpawnerGates
from tests.runtimes.processes import Daemon, Process
from tests.runtimes.require import Missing

ROOT = Path(__file__).resolve().parents[2]
IMAGES = (images.BUSYBOX, images.BUSYBOX_2, images.HTTPD, images.NOBODY, images.USER_1000)
"""The names of the images that the tests' containerds have; here, each stands for the host's own programs."""


class Embedded(Daemon):
    """One running server of the embedded runtime. `close` removes every trace of it, as does `with`.

    It needs neither root nor anything installed. `options` are further arguments of `python -m syncpod.runtime`;
    `programs` is a directory that its containers find on their PATH before the machine's; `within` is put before its
    command, to run it in other circumstances.
    """

    name = "embedded"
    kind = "syncpod-embedded"

    def __init__(
        self, owned: claim.Claim, *options: str, programs: Path | None = None, within: tuple[str, ...] = ()
    ) -> None:
        self._claim = owned
        self._environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"} if programs else dict(os.environ)
        self._options = options
        self._within = within
        self.directory = owned.directory
        self.state_dir = self.directory / "state"
        self.socket = self.directory / "cri.sock"
        self.endpoint = f"unix://{self.socket}"
        self.log = self.directory / "runtime.log"
        self.images: tuple[str, ...] = ()
        # Root can make cgroups. Whether other users can is known only by trying, and no test needs it.
        self.cgroup_parent = leftovers.Names.of(self.directory).cgroup_parent if os.geteuid() == 0 else ""
        embedded_leftovers.clear(self.directory)

    @classmethod
    def launch(cls, *options: str, programs: Path | None = None, within: tuple[str, ...] = ()) -> Self:
        """Remove the leftovers of interrupted runs, then start a server with the tests' images in a new directory.

        Raises `Missing` where the machine is not Linux.
        """
        if sys.platform != "linux":
            raise Missing("the embedded runtime needs Linux")
        for abandoned in claim.abandoned("embedded"):
            embedded_leftovers.clear(abandoned.directory)
            abandoned.remove()
        runtime = cls(claim.fresh("embedded"), *options, programs=programs, within=within)
        try:
            runtime.start()
            for image in IMAGES:
                runtime._pull(image)
            runtime.images = IMAGES
        except BaseException:
            runtime.close()
            raise
        return runtime

    @property
    def version(self) -> str:
        """Its version, as it reports it."""
        # VersionResponse: field 3 is the runtime's version.
        return _field(self._call("RuntimeService/Version"), 3).decode()

    @property
    def series(self) -> str:
        """The first two numbers of its version."""
        return ".".join(self.version.split(".")[:2])

    @property
    def pid(self) -> int:
        """The server's process id; raises RuntimeError while it is down."""
        if self._process is None:
            raise RuntimeError("the embedded runtime is not running")
        return self._process.pid

    @property
    def gates(self) -> SpawnerGates:
        """The gate for starts of processes; raises RuntimeError while the server is down."""
        return SpawnerGates(self.state_dir, self.pid)

    @property
    def shims(self) -> tuple[Process, ...]:
        """The supervisors that live now, one for each container and each sandbox."""
        return embedded_leftovers.supervisors(self.directory)

    def shims_of(self, *ids: str) -> tuple[Process, ...]:
        """The supervisors of these containers and sandboxes."""
        return tuple(found for id in ids for found in embedded_leftovers.supervisors(self.directory, f"*/{id}"))

    def start(self, *, patience: float = PATIENCE) -> None:
        """Start the server and wait until it reports that it is ready."""
        command = [*self._within, sys.executable, "-m", "syncpod.runtime", "--state-dir", str(self.state_dir)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--socket", str(self.socket), *self._options],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the test run only
            )
        deadline = time.monotonic() + patience
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the embedded runtime did not become ready; its log:\n{self._log_end()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL the server; supervisors and containers live on."""
        self._end(signal.SIGKILL)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int | None:
        """Signal the server and return its exit code (None if it was down); supervisors and containers live on."""
        return self._end(by)

    def close(self) -> None:
        """End everything that this server runs and remove every trace of it."""
        self.kill()
        embedded_leftovers.clear(self.directory)
        self._claim.remove()

    def _end(self, number: int) -> int | None:
        server, self._process = self._process, None
        if server is None:
            return None
        server.send_signal(number)
        return server.wait()

    def _pull(self, image: str) -> None:
        # PullImageRequest: field 1 an ImageSpec, whose field 1 is the name.
        spec = b"\x0a" + bytes([len(image)]) + image.encode()
        self._call("ImageService/PullImage", b"\x0a" + bytes([len(spec)]) + spec)

    def _ready(self) -> bool:
        with contextlib.suppress(grpc.RpcError):
            status = self._call("RuntimeService/Status")
            # RuntimeCondition: field 1 the type, a string; field 2 the status, a bool, left out where false.
            return all(condition + b"\x10\x01" in status for condition in (b"RuntimeReady", b"NetworkReady"))
        return False

    def _call(self, method: str, request: bytes = b"") -> bytes:
        """Make a CRI call with raw bytes, without the code under test."""
        with grpc.insecure_channel(self.endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary(f"/runtime.v1.{method}", request_serializer=bytes, response_deserializer=bytes)
            answer: bytes = call(request, timeout=30)
            return answer

    def _log_end(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


def _field(message: bytes, wanted: int) -> bytes:
    """One field of a message that has only strings shorter than 128 bytes."""
    while message:
        number, length, message = message[0] >> 3, message[1], message[2:]
        if number == wanted:
            return message[:length]
        message = message[length:]
    return b""
