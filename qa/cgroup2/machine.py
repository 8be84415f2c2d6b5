"""Runs the guest: qemu, two directories that the guest shares with this machine, and a scratch disk."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from qa.cgroup2.kernel import Kernel, initramfs
from tests.runtimes.require import Missing

_QEMU: Final = "qemu-system-x86_64"
_SHARER: Final = Path("/usr/lib/qemu/virtiofsd")
_SOCKET_SECONDS: Final = 10.0
ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Size:
    """The size of the guest."""

    processors: int = 2
    memory_mib: int = 6144
    scratch_gib: int = 24


def run(kernel: Kernel, argv: Sequence[str], environment: Mapping[str, str], out: Path, size: Size) -> int:
    """Boot a guest, run the command in it, in this project's directory, and return its exit code.

    The command's output is printed here. `out` gets the kernel's messages (`kernel.log`), and is /mnt/out in the guest.
    Raises `Missing` if a program is not installed, RuntimeError if the guest ends without an exit code.
    """
    if os.geteuid() != 0:
        raise Missing("the guest has this machine's files as root sees them: it needs root")
    if shutil.which(_QEMU) is None or not _SHARER.exists():
        raise Missing("qemu is not installed (qemu-system-x86, qemu-system-common)")
    (out / "exit").unlink(missing_ok=True)
    (out / "command.json").write_text(
        json.dumps({"argv": list(argv), "environment": dict(environment), "directory": str(ROOT)})
    )
    initramfs(kernel, out / "initramfs")
    _scratch(out / "scratch.img", size.scratch_gib)
    try:
        with _shared(Path("/"), out / "machine.sock", "always"), _shared(out, out / "out.sock", "none"):
            subprocess.run(_command(kernel, out, size), check=True)
    finally:
        for name in ("scratch.img", "initramfs"):
            (out / name).unlink(missing_ok=True)
    if not (out / "exit").exists():
        raise RuntimeError(f"the guest has ended without an exit code: see {out / 'kernel.log'}")
    return int((out / "exit").read_text())


def _command(kernel: Kernel, out: Path, size: Size) -> list[str]:
    """Return qemu's command line. It does not use /dev/kvm: docs/runtimes.md says why."""
    words = {"console": "ttyS0", "panic": "-1", "ROOM": Path(__file__).parent, "PYTHON": sys.executable}
    words |= {"MODULES": kernel.modules}
    shares = [("machine", out / "machine.sock"), ("out", out / "out.sock")]
    return [
        *(_QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max", "-smp", str(size.processors)),
        *("-m", f"{size.memory_mib}M", "-object", f"memory-backend-memfd,id=ram,size={size.memory_mib}M,share=on"),
        *("-machine", "q35,memory-backend=ram"),
        *("-kernel", str(kernel.image), "-initrd", str(out / "initramfs")),
        *("-append", "quiet " + " ".join(f"{name}={value}" for name, value in words.items())),
        *("-drive", f"file={out / 'scratch.img'},format=raw,if=virtio,cache=unsafe,discard=unmap"),
        *("-serial", f"file:{out / 'kernel.log'}"),
        *("-chardev", "stdio,id=console,signal=off", "-device", "virtio-serial-pci"),
        *("-device", "virtconsole,chardev=console", "-device", "virtio-rng-pci"),
        *(
            word
            for tag, socket in shares
            for word in (
                *("-chardev", f"socket,id={tag},path={socket}"),
                *("-device", f"vhost-user-fs-pci,chardev={tag},tag={tag}"),
            )
        ),
    ]


def _scratch(file: Path, gib: int) -> None:
    with file.open("wb") as disk:
        disk.truncate(gib << 30)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", file], check=True)


@contextlib.contextmanager
def _shared(directory: Path, socket: Path, cached: str) -> Iterator[None]:
    """Share a directory with the guest during the block. `cached` is the guest's cache mode: `always` or `none`."""
    options = f"source={directory},cache={cached},xattr,sandbox=chroot,log_level=err"
    command = [str(_SHARER), f"--socket-path={socket}", "-f", "-o", options]
    with (socket.with_suffix(".log")).open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until = time.monotonic() + _SOCKET_SECONDS
        while not socket.exists():
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{directory} cannot be shared: see {socket.with_suffix('.log')}")
            time.sleep(0.01)
        yield
    finally:
        server.kill()
        server.wait()
        for left in (socket, socket.with_name(f"{socket.name}.pid")):
            left.unlink(missing_ok=True)
