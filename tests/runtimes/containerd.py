"""A private, real containerd with its own root, state, socket, network and images; tests start, kill and restart it.

As a command, this module starts one, prints its endpoint, and keeps it until the command is interrupted:

    python -m tests.runtimes.containerd start --version 1.6 --dir /tmp/c16
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.patience import PATIENCE
from tests.runtimes import claim, daemons, leftovers, network
from tests.runtimes import images as image_store
from tests.runtimes.gates import Gates, install
from tests.runtimes.interruption import tell_until_interrupted
from tests.runtimes.processes import Daemon, Process
from tests.runtimes.require import Missing, cache_directory

VERSIONS = ("1.6", "2.3", "2.4")
"""The supported series of containerd: the distribution's, the one with long-term support, and the newest."""
_BUILT = {"2.4": "containerd-2.4.2", "2.3": "containerd-2.3.2"}
"""The cached builds by series. An environment variable such as `SYNCPOD_CONTAINERD24` names another build."""
_SOCKET_BYTES = 107 - len(".ttrpc")

_CONFIG_1 = """
version = 2
root = "{directory}/root"
state = "{directory}/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", \
"io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]

[grpc]
  address = "{directory}/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{directory}/bin"
    conf_dir = "{directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{directory}/bin/runc"
"""

_CONFIG_2 = """
version = 3
root = "{directory}/root"
state = "{directory}/state"
imports = []
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.image-verifier.v1.bindir", \
"io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", \
"io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"]

[grpc]
  address = "{directory}/containerd.sock"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"

[plugins."io.containerd.cri.v1.images".registry]
  config_path = "{directory}/registries"

[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{directory}/bin"]
    conf_dir = "{directory}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{directory}/bin/runc"
"""


@dataclass(frozen=True)
class Release:
    """An installed containerd: its version, and the directory with `containerd`, its shim and `ctr`."""

    version: str
    programs: Path


def installed(version: str) -> Release:
    """The containerd of that series on this machine; raises `Missing` with the missing part.

    1.6 is the distribution's containerd, of any version 1, on PATH. The others are cached builds.
    """
    if os.geteuid() != 0:
        raise Missing("a containerd of one's own needs root")
    for program in ("runc", "ip", "busybox"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")
    if not (network.CNI_PLUGINS / "bridge").exists():
        raise Missing(f"there are no CNI plugins in {network.CNI_PLUGINS}")
    if version in _BUILT:
        variable = f"SYNCPOD_CONTAINERD{version.replace('.', '')}"
        programs = Path(os.environ.get(variable) or cache_directory() / _BUILT[version])
        where = f"{programs} ({variable})"
    else:
        programs = Path(shutil.which("containerd") or "/usr/bin/containerd").parent
        where = str(programs)
    absent = [name for name in ("containerd", "containerd-shim-runc-v2", "ctr") if not (programs / name).exists()]
    if absent:
        raise Missing(f"{', '.join(absent)} not found in {where}")
    text = subprocess.run([programs / "containerd", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", text)
    series = version if version in _BUILT else version.partition(".")[0]
    if found is None or not found[1].startswith(f"{series}."):
        raise Missing(f"the containerd in {where} is not a {version}: {text.strip()}")
    return Release(found[1], programs)


class Containerd(Daemon):
    """One running containerd in a directory of its own. `close` removes every trace of it, as does `with`.

    With `gates`, tests can hold or refuse its calls of CNI and runc. Without `gates` it calls them directly, and costs
    as much as any containerd. `within` is put before its command, to run it in a network namespace.
    """

    def __init__(self, release: Release, owned: claim.Claim, *, gates: bool = True, within: Sequence[str] = ()) -> None:
        self._claim = owned
        self._release = release
        self._within = tuple(within)
        self.directory = owned.directory
        self.version = release.version
        self.series = ".".join(release.version.split(".")[:2])
        self.name = f"containerd{self.series.replace('.', '')}"
        self.kind = "containerd"
        self.socket = self.directory / "containerd.sock"
        if len(bytes(self.socket)) > _SOCKET_BYTES:
            raise ValueError(
                f"{self.socket}: a socket's path has at most {_SOCKET_BYTES} bytes; choose a shorter directory"
            )
        self.endpoint = f"unix://{self.socket}"
        self.log = self.directory / "containerd.log"
        self.images: tuple[str, ...] = ()
        self.names = leftovers.Names.of(self.directory)
        self.cgroup_parent = self.names.cgroup_parent
        leftovers.clear(self.directory)
        self.subnet = network.free_subnet()
        self._lay_out(gates=gates)

    @classmethod
    def launch(
        cls, version: str, directory: Path | None = None, *, gates: bool = True, within: Sequence[str] = ()
    ) -> Self:
        """Start containerd `version` ("1.6", "2.3", "2.4") with its images, in `directory` or a new one of its own.

        Raises `Missing` where the machine lacks a part, `claim.Claimed` where the directory is in use, ValueError where
        its path is too long for a socket.
        """
        release = installed(version)
        for abandoned in claim.abandoned("containerd"):
            leftovers.clear(abandoned.directory)
            abandoned.remove()
        owned = claim.Claim(directory.resolve()) if directory else claim.fresh("containerd")
        runtime = cls(release, owned, gates=gates, within=within)
        try:
            runtime.start()
            runtime._import_images()
        except BaseException:
            runtime.close()
            raise
        return runtime

    @property
    def pid(self) -> int:
        """The daemon's process id; raises RuntimeError while it is down."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    @property
    def gates(self) -> Gates:
        """The gates for calls of CNI and runc; raises RuntimeError if this containerd has no gates."""
        if not (self.directory / "gates").is_dir():
            raise RuntimeError(f"{self.name} was started without gates")
        return Gates(self.directory / "gates")

    @property
    def shims(self) -> tuple[Process, ...]:
        """The shims that live now, one for each pod."""
        return leftovers.shims(self.directory)

    def shims_of(self, *ids: str) -> tuple[Process, ...]:
        """The shims of these sandboxes, each of which has all of its pod's containers."""
        return tuple(shim for shim in self.shims if any(id in shim.argv for id in ids))

    def start(self, *, patience: float = PATIENCE) -> None:
        """Start the daemon and wait until its CRI service reports that runtime and network are ready."""
        program = str(self._release.programs / "containerd")
        command = (*self._within, program, "--config", str(self.directory / "config.toml"))
        environment = {"PATH": f"{self._release.programs}:{os.environ['PATH']}"}
        self._process = daemons.launch(self.name, command, self.endpoint, self.log, environment, patience)

    def ctr(self, *arguments: str | Path) -> str:
        """Run `ctr` in the namespace of Kubernetes and return its output; raises CalledProcessError."""
        command = [self._release.programs / "ctr", "--address", self.socket, "--namespace", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def close(self) -> None:
        """End everything that this containerd runs and remove every trace of it."""
        self.kill()
        leftovers.clear(self.directory)
        self._claim.remove()

    def _lay_out(self, *, gates: bool) -> None:
        """Write the configuration, the network and the programs that containerd calls."""
        config = _CONFIG_2 if self.version.startswith("2.") else _CONFIG_1
        (self.directory / "config.toml").write_text(config.format(directory=self.directory, pause=image_store.PAUSE))
        (self.directory / "cni").mkdir()
        described = network.configuration(self.names, self.subnet, directory=self.directory)
        (self.directory / "cni" / "10-syncpod.conflist").write_text(described)
        programs = self.directory / "bin"
        programs.mkdir()
        runc, busybox = (Path(shutil.which(name) or name) for name in ("runc", "busybox"))
        for program in (*network.CNI_PLUGINS.iterdir(), runc):
            (programs / program.name).symlink_to(program)
        if gates:
            bridge = network.CNI_PLUGINS / "bridge"
            install(self.directory / "gates", programs=programs, bridge=bridge, runc=runc, busybox=busybox)

    def _import_images(self, *, patience: float = PATIENCE) -> None:
        archive = self.directory / "images.tar"
        made = image_store.images()
        image_store.write_archive(archive, made)
        self.ctr("images", "import", archive)
        archive.unlink()
        self.images = tuple(image.name for image in made)
        deadline = time.monotonic() + patience
        # The CRI service learns of an import by an event.
        while absent := [
            name for name in self.images if name.encode() not in daemons.call(self.endpoint, "ImageService/ListImages")
        ]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} imported its images, but CRI does not list {absent}")
            time.sleep(0.02)


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a containerd, print its endpoint, and end it with all its pods on SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.runtimes.containerd")
    commands = parser.add_subparsers(required=True)
    start = commands.add_parser("start", help="start a containerd and keep it until interrupted")
    start.add_argument("--version", choices=VERSIONS, default=VERSIONS[0])
    start.add_argument("--dir", type=Path, help="its directory (a new one below /tmp by default)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Containerd.launch(options.version, options.dir, gates=False) as runtime:
            tell_until_interrupted(runtime.endpoint)
    except (Missing, claim.Claimed, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
