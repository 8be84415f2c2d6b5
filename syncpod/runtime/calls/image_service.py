"""CRI's ImageService: listing, pulling and removing images. A pull only records a name; nothing is fetched."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from typing import Final

from protos.cri.v1 import api_pb2
from syncpod.kernel.os_errors import where_and_why
from syncpod.runtime.calls.faults import Faults
from syncpod.runtime.calls.validation import image_name
from syncpod.runtime.images.inventory import Content, Image, ReferenceInvalid, parse_reference
from syncpod.runtime.refusals import failed, invalid
from syncpod.runtime.state import Runtime, exhausted

_FILES: Final = "syncpod.dev/files"


class ImageService:
    """One method for each call of the service, named as on the wire. All raise Refusal."""

    def __init__(self, runtime: Runtime, faults: Faults) -> None:
        self._runtime = runtime
        self._faults = faults

    async def ListImages(self, request: api_pb2.ListImagesRequest) -> api_pb2.ListImagesResponse:  # noqa: N802
        """List the images that were pulled or loaded; a filter selects one of them."""
        return api_pb2.ListImagesResponse(images=self._listed(request.filter))

    async def StreamImages(  # noqa: N802
        self, request: api_pb2.StreamImagesRequest
    ) -> AsyncIterator[api_pb2.StreamImagesResponse]:
        """List the images, each in a part of its own."""
        for image in self._listed(request.filter):
            yield api_pb2.StreamImagesResponse(images=[image])

    async def ImageStatus(self, request: api_pb2.ImageStatusRequest) -> api_pb2.ImageStatusResponse:  # noqa: N802
        """Return an image's status; an empty answer if it was not pulled."""
        image_name(request.image.image, "image.image")
        image = self._runtime.images.find(request.image.image)
        if image is None:
            return api_pb2.ImageStatusResponse()
        info = {"info": json.dumps({"name": str(image.reference), "pulledAt": image.pulled_at})}
        return api_pb2.ImageStatusResponse(image=self._message(image), info=info if request.verbose else None)

    async def PullImage(self, request: api_pb2.PullImageRequest) -> api_pb2.PullImageResponse:  # noqa: N802
        """Record an image as pulled, unless it was loaded. Nothing is fetched, so credentials are ignored."""
        name = request.image.image
        image_name(name, "image.image")
        pod = request.sandbox_config
        await self._faults.before("PullImage", pod.annotations, pod.metadata.uid)
        try:
            reference = parse_reference(name)
        except ReferenceInvalid as problem:
            raise invalid("image.image", f'failed to parse image reference "{name}": {problem}') from problem
        try:
            image = self._runtime.images.pull(reference)
        except OSError as error:
            if exhausted(error):
                raise
            raise failed(f'failed to pull image "{name}": {where_and_why(error)}') from error
        return api_pb2.PullImageResponse(image_ref=image.id)

    async def RemoveImage(self, request: api_pb2.RemoveImageRequest) -> api_pb2.RemoveImageResponse:  # noqa: N802
        """Forget an image; a missing one is success."""
        image_name(request.image.image, "image.image")
        image = self._runtime.images.find(request.image.image)
        if image is not None:
            self._runtime.images.remove(image)
            if image.content is not None:
                self._runtime.collect_roots()
        return api_pb2.RemoveImageResponse()

    async def ImageFsInfo(self, request: api_pb2.ImageFsInfoRequest) -> api_pb2.ImageFsInfoResponse:  # noqa: N802
        """Return the use of the state directory's file system; there are no others."""
        directory = self._runtime.directory
        found = os.statvfs(directory)
        usage = api_pb2.FilesystemUsage(
            timestamp=time.time_ns(),
            fs_id=api_pb2.FilesystemIdentifier(mountpoint=str(directory)),
            used_bytes=api_pb2.UInt64Value(value=(found.f_blocks - found.f_bfree) * found.f_frsize),
            inodes_used=api_pb2.UInt64Value(value=found.f_files - found.f_ffree),
        )
        return api_pb2.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])

    def _listed(self, wanted: api_pb2.ImageFilter) -> list[api_pb2.Image]:
        name = wanted.image.image
        if not name:
            firsts: dict[str, Image] = {}
            for image in self._runtime.images:
                firsts.setdefault(image.id, image)
            return [self._message(image) for image in firsts.values()]
        image_name(name, "filter.image.image")
        found = self._runtime.images.find(name)
        return [] if found is None else [self._message(found)]

    def _message(self, image: Image) -> api_pb2.Image:
        names = self._runtime.images.names_of(image)
        said = api_pb2.Image(
            id=image.id,
            repo_tags=[tag for each in names for tag in each.repo_tags],
            repo_digests=dict.fromkeys(each.repo_digest for each in names),
            size=image.size,
            spec=api_pb2.ImageSpec(image=str(image.reference), annotations=self._annotations(image)),
        )
        self._name_user(said, image.content)
        return said

    def _annotations(self, image: Image) -> dict[str, str]:
        """Return the annotation of an image without files: its containers have the machine's files."""
        simulated = self._runtime.host.isolation == "simulated"
        return {} if simulated or image.content else {_FILES: "machine"}

    def _name_user(self, said: api_pb2.Image, content: Content | None) -> None:
        """Set the user of an image's programs, as a name or an id, as containerd does.

        The user is the server's if the image names none, or if it names root and the server does not run as root.
        """
        host = self._runtime.host
        name = content.config.user.partition(":")[0] if content else ""
        if not name or (name in ("0", "root") and not host.root):
            said.uid.value = host.uid
        elif name.isdecimal():
            said.uid.value = int(name)
        else:
            said.username = name
