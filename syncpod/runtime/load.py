"""`python -m syncpod.runtime.load --state-dir DIR [--name NAME] FILE...`: give the embedded runtime images from files.

A running server sees loaded images at once. An image's files are unpacked beside their final directory and then
renamed, so a load that is killed leaves nothing that counts; the next load, or the next server, removes the rest.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from syncpod.kernel.tree_removal import remove_tree
from syncpod.runtime.images.archive import ArchiveInvalid, FoundImage, Source, images_in, opened
from syncpod.runtime.images.inventory import ROOTS, Content, ImageStore, Reference, ReferenceInvalid, parse_reference
from syncpod.runtime.images.layers import layer_tar
from syncpod.runtime.images.roots import UNFINISHED, held, remove_unfinished
from syncpod.runtime.images.unpacking import EntryInvalid, Unpacking


class CannotLoad(Exception):
    """An image cannot be loaded; the text is one sentence."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def load(directory: Path, file: Path, name: str = "") -> Iterator[str]:
    """Load the images of a file into the state directory of a runtime, and yield a line about each. Raises CannotLoad.

    `name` replaces the name of the file's only image.
    """
    try:
        with opened(file) as source:
            found = images_in(source)
            named = [(image, _references(image, name, file, alone=len(found) == 1)) for image in found]
            images = directory / "images"
            images.mkdir(mode=0o700, parents=True, exist_ok=True)
            with held(images / ROOTS, wait=True):
                remove_unfinished(images / ROOTS)
                for image, references in named:
                    yield from _load(images, source, image, references)
    except (ArchiveInvalid, EntryInvalid) as problem:
        raise CannotLoad(f"{file}: {problem}") from problem
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else file
        raise CannotLoad(f"{place}: {error.strerror or error}", 1) from error


def _load(images: Path, source: Source, image: FoundImage, references: Sequence[Reference]) -> Iterator[str]:
    roots = images / ROOTS
    root = hashlib.sha256("\n".join(image.diff_ids).encode()).hexdigest()
    if not (roots / root).is_dir():
        making = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=roots))
        try:
            making.chmod(0o755)
            unpacking = Unpacking(making, privileged=os.geteuid() == 0)
            for layer, diff_id in zip(image.layers, image.diff_ids, strict=True):
                with layer_tar(source, layer, diff_id) as tar:
                    unpacking.lay(tar)
            unpacking.finish()
            making.rename(roots / root)
        except BaseException:
            remove_tree(making)
            raise
        if unpacking.left_out:
            yield f"{image.id}: {unpacking.left_out} devices are left out: without root none can be made"
    content = Content(image.id, image.manifest_digest, root, _size(roots / root), image.config)
    store = ImageStore(images)
    for reference in references:
        store.load(reference, content)
        yield f"Loaded image: {reference}"


def _references(image: FoundImage, name: str, file: Path, *, alone: bool) -> list[Reference]:
    """Return an image's names. Raises CannotLoad."""
    if name and not alone:
        raise CannotLoad(f"--name: {file} has several images: it would name them all")
    names = (name,) if name else image.names
    if not names:
        raise CannotLoad(f"{file}: its image {image.id} has no name: give it one with --name")
    references = []
    for each in names:
        if not name and not re.search(r"[:/]", each):  # `skopeo copy … oci:DIR:TAG` makes such images.
            raise CannotLoad(f'{file}: its image is called by a tag alone, "{each}": name it with --name NAME:{each}')
        try:
            references.append(parse_reference(each))
        except ReferenceInvalid as problem:
            raise CannotLoad(f'{"--name" if name else file}: "{each}": {problem}') from problem
    return references


def _size(root: Path) -> int:
    """Return the size of all files below a directory, in bytes; hard links count once."""
    seen: dict[int, int] = {}
    for directory, _, files in os.walk(root):
        for file in files:
            found = os.lstat(os.path.join(directory, file))  # noqa: PTH118 - there may be many
            seen[found.st_ino] = found.st_blocks * 512
    return sum(seen.values())


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print the error as one sentence, and exit with 2."""
        self.exit(2, f"{message}\n")


def main(arguments: Sequence[str]) -> int:
    """Load the files, and return the exit code: 2 if one cannot be loaded, 1 after an error of the machine."""
    parser = _Arguments(prog="python -m syncpod.runtime.load", description=__doc__, allow_abbrev=False)
    parser.add_argument("--state-dir", type=Path, required=True, metavar="DIR", help="of the runtime")
    parser.add_argument("--name", default="", metavar="NAME", help="what the file's only image is to be called")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="an OCI layout, or an archive of one")
    given = parser.parse_args(arguments)
    os.umask(0o022)
    try:
        if given.name and len(given.files) > 1:
            raise CannotLoad("--name: names one image, and there are several files")
        given.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in given.files:
            for line in load(given.state_dir, file, given.name):
                _say(line)
    except CannotLoad as problem:
        print(printable(str(problem)), file=sys.stderr)  # noqa: T201
        return problem.exit_code
    return 0


def printable(text: str) -> str:
    """Return a text on one line, with control and invisible characters escaped: names in an archive may have them."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def _say(line: str) -> None:
    """Print a line. If the pipe is closed, loading continues without output."""
    try:
        print(printable(line), flush=True)  # noqa: T201
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
