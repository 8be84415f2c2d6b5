"""Reads manifests from files, directories and standard input, up to the size limit of a manifest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from syncpod.api.views.text import printable
from syncpod.cli.failure import BadInput, why_of
from syncpod.cli.input.kubectl_words import MANIFEST_SUFFIXES
from syncpod.cli.standard_streams import STDIN, standard_input
from syncpod.pod import LARGEST_MANIFEST


def texts(sources: Sequence[str], problems: list[str], *, recursive: bool = False) -> Iterator[tuple[str, bytes]]:
    """Yield each file's name and text; add a line to `problems` for each that cannot be read.

    A source is a file, a pipe or a device, a directory (with `recursive`, also those below it), or ``-``. One byte more
    is read than a manifest may have, so that the parser refuses a longer one. Names are safe to print on a terminal.
    Raises BadInput for a directory without manifests.
    """
    for source in sources:
        if "://" in source:
            problems.append(f"{printable(source)}: URLs are not read; download it first, or pipe it into -f -")
            continue
        if source == "-":
            yield STDIN, _beginning(standard_input().buffer)
            continue
        try:
            files = _files(Path(source), recursive=recursive)
        except OSError as error:
            problems.append(f"{printable(source)}: {why_of(error)}")
            continue
        for path in files:
            try:
                with path.open("rb") as file:
                    text = _beginning(file)
            except OSError as error:
                problems.append(f"{printable(str(path))}: {why_of(error)}")
                continue
            yield printable(str(path)), text


def _beginning(file: BinaryIO) -> bytes:
    return file.read(LARGEST_MANIFEST + 1)


def _files(path: Path, *, recursive: bool) -> list[Path]:
    """Return the file itself, or a directory's manifests in order of name; with `recursive`, those below it too.

    Pipes and devices in a directory are skipped; a dangling symlink is not, so that it is reported. Symlinks to
    directories are not followed.
    """
    if not path.is_dir():
        return [path]
    found = (Path(top, name) for top, _, names in os.walk(path) for name in names) if recursive else path.iterdir()
    entries = sorted(entry for entry in found if entry.suffix in MANIFEST_SUFFIXES)
    files = [entry for entry in entries if entry.is_file() or (entry.is_symlink() and not entry.exists())]
    if not files:
        below = " or below it" if recursive else ""
        raise BadInput(f"{printable(str(path))}: no {', '.join(MANIFEST_SUFFIXES)} file in this directory{below}")
    return files
