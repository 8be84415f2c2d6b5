"""The container images of the tests, made from this machine's static busybox, without a registry.

`write_archive` writes them as one OCI image layout in a tar file, which `ctr images import` reads.
"""

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runtimes.require import Missing

PAUSE = "docker.io/syncpod/pause:1"
"""The sandbox image."""

BUSYBOX = "docker.io/library/busybox:1"
BUSYBOX_2 = "docker.io/library/busybox:2"
"""The same content as `BUSYBOX` under another tag, so that only the name and the container's hash change."""

HTTPD = "docker.io/library/nginx:1"
"""An image that serves a page on port 80, like nginx."""

NOBODY = "docker.io/library/busybox:nobody"
"""Busybox with `USER nobody`, a name, which `runAsNonRoot` cannot verify."""

USER_1000 = "docker.io/library/busybox:1000"
"""Busybox with `USER 1000`, which `runAsNonRoot` accepts."""

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nsyncpod:x:1000:1000::/:/bin/sh\n"
_GROUP = "root:x:0:\nnobody:x:65534:\nsyncpod:x:1000:\nextra:x:2000:syncpod\n"
_PAGE = "<!doctype html>\n<title>nginx</title>\n<h1>It works</h1>\n"


@dataclass(frozen=True)
class File:
    """A file of a layer whose mode is not 0755."""

    content: bytes
    mode: int


Files = Mapping[str, bytes | str | File | None]
"""A layer's content by path: bytes are a file's content, a string is a symbolic link's target, None is a directory."""


@dataclass(frozen=True)
class Image:
    """An image of one layer: its name, the layer (an uncompressed tar) and the `config` of its OCI configuration."""

    name: str
    layer: bytes
    config: Mapping[str, Any] = field(default_factory=dict)


def images() -> tuple[Image, ...]:
    """All images of this module. Raises `Missing` if there is no static busybox to make them from."""
    system = busybox_system() | {"etc/passwd": _PASSWD.encode(), "etc/group": _GROUP.encode()}
    layer = layer_of(system)
    shell = {"Env": [_PATH], "Cmd": ["sh"]}
    return (
        _pause(layer),
        Image(BUSYBOX, layer, shell),
        Image(BUSYBOX_2, layer, shell),
        Image(NOBODY, layer, shell | {"User": "nobody"}),
        Image(USER_1000, layer, shell | {"User": "1000"}),
        Image(
            HTTPD,
            layer_of(system | {"var/www/index.html": _PAGE.encode()}),
            {"Env": [_PATH], "Cmd": ["httpd", "-f", "-p", "80", "-h", "/var/www"], "ExposedPorts": {"80/tcp": {}}},
        ),
    )


def busybox_system() -> dict[str, bytes | str | File | None]:
    """The files of a system with only busybox and without users. Raises `Missing` if busybox is not static."""
    busybox = _static_busybox()
    applets = subprocess.run([busybox, "--list-full"], capture_output=True, text=True, check=True).stdout.split()
    return {
        "bin/busybox": busybox.read_bytes(),
        **{applet: "/bin/busybox" for applet in applets if applet != "bin/busybox"},
        **dict.fromkeys(("dev", "proc", "root", "sys", "tmp", "var/log"), None),
    }


def write_archive(path: Path, contents: Iterable[Image], *, compressed: bool = True) -> None:
    """Write the images to `path` as a tar of one OCI image layout, each under its full name.

    Without compression it is larger, and made and read much sooner.
    """
    blobs: dict[str, bytes] = {}
    layers: dict[str, dict[str, Any]] = {}

    def blob(content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    manifests = []
    for image in contents:
        diff_id = f"sha256:{hashlib.sha256(image.layer).hexdigest()}"
        if diff_id not in layers:
            content = gzip.compress(image.layer, 1, mtime=0) if compressed else image.layer
            layers[diff_id] = blob(content, f"application/vnd.oci.image.layer.v1.tar{'+gzip' * compressed}")
        platform = {"os": "linux", "architecture": architecture()}
        config = platform | {"config": dict(image.config), "rootfs": {"type": "layers", "diff_ids": [diff_id]}}
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
            "layers": [layers[diff_id]],
        }
        descriptor = blob(json.dumps(manifest).encode(), manifest["mediaType"])  # type: ignore[arg-type]
        manifests.append(descriptor | {"platform": platform, "annotations": {"io.containerd.image.name": image.name}})

    layout: dict[str, bytes | str | File | None] = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": manifests}).encode(),
    }
    path.write_bytes(layer_of(layout | {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}))


def _pause(busybox_layer: bytes) -> Image:
    """The sandbox image: the ten lines of pause.c, or busybox with the same behaviour if there is no C compiler."""
    program = static_program(Path(__file__).with_name("pause.c"))
    if program is None:
        wait = "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait; done"
        return Image(PAUSE, busybox_layer, {"Entrypoint": ["/bin/busybox", "sh", "-c", wait]})
    return Image(PAUSE, layer_of({"pause": program}), {"Entrypoint": ["/pause"]})


def static_program(source: Path) -> bytes | None:
    """Compile a C source to a static program; None if there is no C compiler. Raises CalledProcessError."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        binary = Path(directory, "program")
        subprocess.run([compiler, "-static", "-Os", "-s", "-o", binary, source], check=True)
        return binary.read_bytes()


def layer_of(files: Files) -> bytes:
    """A tar of `files`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        parents = {str(parent) for name in files for parent in Path(name).parents} - {"."}
        for name in sorted(parents | set(files)):
            content = files.get(name)
            entry = tarfile.TarInfo(name)
            entry.mode = 0o1777 if name == "tmp" else 0o755
            if content is None:
                entry.type = tarfile.DIRTYPE
                tar.addfile(entry)
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
            else:
                data = content
                if isinstance(content, File):
                    data, entry.mode = content.content, content.mode
                assert isinstance(data, bytes)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _static_busybox() -> Path:
    path = shutil.which("busybox")
    if path is None:
        raise Missing("busybox is not installed")
    binary = Path(path)
    if b"/ld-linux" in binary.read_bytes()[:4096]:
        raise Missing(f"{binary} is not static (Debian's busybox-static is)")
    return binary


def architecture() -> str:
    """This machine's architecture as OCI names it."""
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    return names.get(machine, machine)
