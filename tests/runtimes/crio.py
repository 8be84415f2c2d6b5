"""A private, real CRI-O with its own storage, state, socket, network and images; tests start, kill and restart it.

As a command, this module starts one, prints its endpoint, and keeps it until the command is interrupted:

    python -m tests.runtimes.crio start --dir /tmp/crio
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.patience import PATIENCE
from tests.runtimes import claim, crio_leftovers, daemons, leftovers, network
from tests.runtimes import images as image_store
from tests.runtimes.gates import Gates, install
from tests.runtimes.interruption import tell_until_interrupted
from tests.runtimes.processes import Daemon, Process
from tests.runtimes.require import Missing, cache_directory

VERSION = "1.34.0"
_SOCKET_BYTES = 107
# The path of the socket to attach to a container has the container's id, and must be short: so its directory is called
# `a`.

_CONFIG = """
[crio]
root = "{directory}/root"
runroot = "{directory}/run"
storage_driver = "overlay"
log_dir = "{directory}/logs"
version_file = "{directory}/version"
version_file_persist = ""
clean_shutdown_file = "{directory}/clean.shutdown"

[crio.api]
listen = "{directory}/crio.sock"
stream_address = "127.0.0.1"
stream_port = "0"

[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
pinns_path = "{programs}/pinns"
namespaces_dir = "{directory}/namespaces"
container_exits_dir = "{directory}/exits"
container_attach_socket_dir = "{directory}/a"
hooks_dir = []
cdi_spec_dirs = ["{directory}/cdi"]
apparmor_profile = "unconfined"
irqbalance_config_file = "{directory}/irqbalance"
irqbalance_config_restore_file = "disable"
decryption_keys_path = "{directory}/keys"

[crio.runtime.runtimes.runc]
runtime_path = "{directory}/bin/runc"
runtime_type = "oci"
runtime_root = "{directory}/runc"
monitor_path = "{conmon}"
monitor_cgroup = "pod"

[crio.image]
pause_image = "{pause}"
pause_command = ""
pinned_images = ["{pause}"]
signature_policy = "{directory}/policy.json"
signature_policy_dir = "{directory}/policies"

[crio.network]
network_dir = "{directory}/cni"
plugin_dirs = ["{directory}/bin"]

[crio.nri]
enable_nri = false
"""
# An image name without a registry is Docker's, as it is for containerd. Registries of tests speak plain HTTP.
_REGISTRIES = """
unqualified-search-registries = ["docker.io"]
short-name-mode = "permissive"

[[registry]]
location = "127.0.0.1"
insecure = true
"""
_STORAGE = """
[storage]
driver = "overlay"
graphroot = "{directory}/root"
runroot = "{directory}/run"
"""
_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'


# As for containerd: pods run even if this user may not lower the OOM scores of processes.
_RUNC = """#!{busybox} sh
for argument in "$@"; do
  if [ "$previous" = --bundle ]; then
    {busybox} sed -i 's/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":{least}/' "$argument/config.json"
  fi
  previous=$argument
done
exec {runc} "$@"
"""


@dataclass(frozen=True)
class Release:
    """An installed CRI-O: its version, the directory with `crio` and `pinns`, and the conmon that it is to use."""

    version: str
    programs: Path
    conmon: Path


def installed() -> Release:
    """The CRI-O in `$SYNCPOD_CRIO`, else the cached build; raises `Missing` with the missing part."""
    if os.geteuid() != 0:
        raise Missing("a CRI-O of one's own needs root")
    for program in ("conmon", "runc", "skopeo", "ip", "nft", "busybox"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")
    if not (network.CNI_PLUGINS / "bridge").exists():
        raise Missing(f"there are no CNI plugins in {network.CNI_PLUGINS}")
    programs = Path(os.environ.get("SYNCPOD_CRIO") or cache_directory() / f"crio-{VERSION}")
    absent = [name for name in ("crio", "pinns") if not (programs / name).exists()]
    if absent:
        raise Missing(f"{', '.join(absent)} not found in {programs} (SYNCPOD_CRIO)")
    text = subprocess.run([programs / "crio", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", text)
    if found is None:
        raise Missing(f"the crio in {programs} does not tell its version: {text.strip()}")
    return Release(found[1], programs, Path(shutil.which("conmon") or "conmon"))


class Crio(Daemon):
    """One running CRI-O in a directory of its own. `close` removes every trace of it, as does `with`.

    With `gates`, tests can hold or refuse its calls of CNI and runc.
    """

    name = "crio"
    kind = "cri-o"

    def __init__(self, release: Release, owned: claim.Claim, *, gates: bool = True) -> None:
        self._claim = owned
        self._release = release
        self.directory = owned.directory
        self.version = release.version
        self.series = ".".join(release.version.split(".")[:2])
        self.socket = self.directory / "crio.sock"
        if len(bytes(self.socket)) > _SOCKET_BYTES:
            raise ValueError(
                f"{self.socket}: a socket's path has at most {_SOCKET_BYTES} bytes; choose a shorter directory"
            )
        self.endpoint = f"unix://{self.socket}"
        self.log = self.directory / "crio.log"
        self.images: tuple[str, ...] = ()
        self.names = leftovers.Names.of(self.directory)
        self.cgroup_parent = self.names.cgroup_parent
        crio_leftovers.clear(self.directory)
        self.subnet = network.free_subnet()
        self._lay_out(gates=gates)

    @classmethod
    def launch(cls, directory: Path | None = None, *, gates: bool = True) -> Self:
        """Start CRI-O with its images, in `directory` or a new one of its own.

        Raises `Missing` where the machine lacks a part, `claim.Claimed` where the directory is in use, ValueError where
        its path is too long for a socket.
        """
        release = installed()
        for abandoned in claim.abandoned("crio"):
            crio_leftovers.clear(abandoned.directory)
            abandoned.remove()
        owned = claim.Claim(directory.resolve()) if directory else claim.fresh("crio")
        runtime = cls(release, owned, gates=gates)
        try:
            runtime._store_images()
            runtime.start()
        except BaseException:
            runtime.close()
            raise
        return runtime

    @property
    def pid(self) -> int:
        """The daemon's process id; raises RuntimeError while it is down."""
        if self._process is None:
            raise RuntimeError("CRI-O is not running")
        return self._process.pid

    @property
    def gates(self) -> Gates:
        """The gates for calls of CNI and runc; raises RuntimeError if this CRI-O has no gates."""
        if not (self.directory / "gates").is_dir():
            raise RuntimeError("CRI-O was started without gates")
        return Gates(self.directory / "gates")

    @property
    def shims(self) -> tuple[Process, ...]:
        """The conmons that live now, one for each container."""
        return crio_leftovers.monitors(self.directory)

    def shims_of(self, *ids: str) -> tuple[Process, ...]:
        """The conmons of these containers; a sandbox that shares no PID namespace has none."""
        return tuple(conmon for conmon in self.shims if any(id in conmon.argv for id in ids))

    def start(self, *, patience: float = PATIENCE) -> None:
        """Start the daemon and wait until it reports that runtime and network are ready."""
        command: list[str | Path] = [
            *(self._release.programs / "crio", "--config", self.directory / "crio.conf", "--config-dir", ""),
            *("--registries-conf", self.directory / "registries.conf"),
            *("--registries-conf-dir", self.directory / "registries.conf.d"),
        ]
        environment = _storage_environment(self.directory)
        self._process = daemons.launch("CRI-O", command, self.endpoint, self.log, environment, patience)

    def close(self) -> None:
        """End everything that this CRI-O runs and remove every trace of it."""
        self.kill()
        crio_leftovers.clear(self.directory)
        self._claim.remove()

    def _lay_out(self, *, gates: bool) -> None:
        """Write the configuration, the network and the programs that CRI-O calls."""
        config = _CONFIG.format(
            directory=self.directory,
            programs=self._release.programs,
            conmon=self._release.conmon,
            pause=image_store.PAUSE,
        )
        for name, text in (
            ("crio.conf", config),
            ("registries.conf", _REGISTRIES),
            ("policy.json", _POLICY),
            ("storage.conf", _STORAGE.format(directory=self.directory)),
        ):
            (self.directory / name).write_text(text)
        (self.directory / "cni").mkdir()
        described = network.configuration(self.names, self.subnet, directory=self.directory)
        (self.directory / "cni" / "10-syncpod.conflist").write_text(described)
        programs = self.directory / "bin"
        programs.mkdir()
        for program in network.CNI_PLUGINS.iterdir():
            (programs / program.name).symlink_to(program)
        runc, busybox = (Path(shutil.which(name) or name) for name in ("runc", "busybox"))
        least = Path("/proc/self/oom_score_adj").read_text().strip()
        restricted = programs / "runc-restricted"
        restricted.write_text(_RUNC.format(busybox=busybox, runc=runc, least=least))
        restricted.chmod(0o755)
        (programs / "runc").symlink_to(restricted)
        if gates:
            bridge = network.CNI_PLUGINS / "bridge"
            install(self.directory / "gates", programs=programs, bridge=bridge, runc=restricted, busybox=busybox)

    def _store_images(self) -> None:
        """Put the tests' images into CRI-O's storage before its start."""
        archive = self.directory / "image.tar"
        made = image_store.images()
        storage = f"overlay@{self.directory}/root+{self.directory}/run"
        for image in made:
            image_store.write_archive(archive, [image])
            command: list[str | Path] = [
                *("skopeo", "--policy", self.directory / "policy.json", "--tmpdir", self.directory, "copy", "--quiet"),
                *(f"oci-archive:{archive}", f"containers-storage:[{storage}]{image.name}"),
            ]
            environment = os.environ | _storage_environment(self.directory)
            subprocess.run(command, env=environment, capture_output=True, check=True)
        archive.unlink()
        self.images = tuple(image.name for image in made)


def _storage_environment(directory: Path) -> dict[str, str]:
    """The environment in which the storage library does not use the machine's own configuration."""
    return {"CONTAINERS_STORAGE_CONF": str(directory / "storage.conf")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a CRI-O, print its endpoint, and end it with all its pods on SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.runtimes.crio")
    commands = parser.add_subparsers(required=True)
    start = commands.add_parser("start", help="start a CRI-O and keep it until interrupted")
    start.add_argument("--dir", type=Path, help="its directory (a new one below /tmp by default)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Crio.launch(options.dir, gates=False) as runtime:
            tell_until_interrupted(runtime.endpoint)
    except (Missing, claim.Claimed, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
