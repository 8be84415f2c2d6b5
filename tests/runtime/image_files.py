"""Image files for tests, valid and invalid: any entries of layers, in layouts and archives of any kind."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runtimes.images import architecture

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def entry(name: str, content: bytes | None = None, **fields: Any) -> tuple[tarfile.TarInfo, bytes | None]:
    """An entry of a layer: a file if it has content, else a directory or the given type."""
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
    info.mode = 0o755 if content is None else 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    info.size = len(content or b"")
    return info, content


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, None]:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)[0], None


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, None]:
    return entry(name, type=tarfile.LNKTYPE, linkname=target)[0], None


def layer(*entries: tuple[tarfile.TarInfo, bytes | None]) -> bytes:
    """A layer's tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content) if content is not None else None)
    return buffer.getvalue()


@dataclass
class Layout:
    """The files of an OCI layout of one image, which a test can change before they are written."""

    layers: tuple[bytes, ...]
    config: Mapping[str, Any] = field(default_factory=dict)
    name: str = "example.test/app:1"
    platform: Mapping[str, str] = field(default_factory=lambda: {"os": "linux", "architecture": architecture()})
    diff_ids: tuple[str, ...] | None = None
    nested: bool = False
    """Whether the index refers to another index, as for an image for several platforms."""
    compress: bool = True

    def files(self) -> dict[str, bytes]:
        files: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}

        def blob(content: bytes, media_type: str) -> dict[str, Any]:
            digest = hashlib.sha256(content).hexdigest()
            files[f"blobs/sha256/{digest}"] = content
            return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

        config = blob(self.configuration(), "application/vnd.oci.image.config.v1+json")
        packed = [gzip.compress(each, 1, mtime=0) if self.compress else each for each in self.layers]
        manifest = {"schemaVersion": 2, "config": config, "layers": [blob(each, LAYER) for each in packed]}
        top = blob(json.dumps(manifest).encode(), MANIFEST)
        if self.nested:
            others = {**top, "digest": f"sha256:{'0' * 64}", "platform": {"os": "linux", "architecture": "other"}}
            top["platform"] = dict(self.platform)
            top = blob(json.dumps({"manifests": [others, top]}).encode(), INDEX)
        if self.name:
            top["annotations"] = {"org.opencontainers.image.ref.name": self.name}
        return {**files, "index.json": json.dumps({"schemaVersion": 2, "manifests": [top]}).encode()}

    def configuration(self) -> bytes:
        diff_ids = self.diff_ids
        if diff_ids is None:
            diff_ids = tuple(f"sha256:{hashlib.sha256(each).hexdigest()}" for each in self.layers)
        rootfs = {"type": "layers", "diff_ids": list(diff_ids)}
        return json.dumps({**self.platform, "config": dict(self.config), "rootfs": rootfs}).encode()

    def docker_files(self) -> dict[str, bytes]:
        """The same image in the format of `docker save` and `podman save`."""
        config = self.configuration()
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        layers = {f"{hashlib.sha256(each).hexdigest()}.tar": each for each in self.layers}
        manifest = [{"Config": name, "RepoTags": [self.name], "Layers": list(layers)}]
        return {name: config, **layers, "manifest.json": json.dumps(manifest).encode()}


def write_directory(directory: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return directory


def write_tar(path: Path, files: Mapping[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, content in _in_order(files.items()):
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def _in_order(files: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    return sorted(files)
