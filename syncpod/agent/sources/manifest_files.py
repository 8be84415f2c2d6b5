"""Reads a directory of manifests, in which each file is one static pod.

Mirrors pkg/kubelet/config/file.go, v1.36, extractFromDir, extractFromFile: hidden files and directories are ignored,
files are read in order of their names, and a file holds one Pod and at most 10 MiB. A file that is removed and comes
back ends its pod, even if it comes back at once and unchanged (file_linux.go, v1.36, consumeWatchEvent); then the pod
starts again.

Difference: if a file cannot be read, is invalid, or is a dangling link, the pod that it made before runs on, and the
problem is reported; the kubelet ends that pod. The same applies to all pods of a directory that cannot be read, is
missing, or is on another device than before: a disk that is not mounted leaves an empty mount point.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from syncpod.agent.sources.desired_pods import Listing
from syncpod.agent.sources.manifest_place import MEANT, DirectoryPlace, place_of, recall_place, remember_place
from syncpod.kernel.atomic_file import replace_file, sync_file
from syncpod.kernel.os_errors import why_of
from syncpod.messages.node import PodKey
from syncpod.pod import (
    LARGEST_MANIFEST,
    ManifestError,
    ManifestErrors,
    Pod,
    PodInvalid,
    admit,
    load_documents,
    pod_to_wire,
    static_pod,
)
from syncpod.pod.admission import without_cluster
from syncpod.settings.directories import MADE_BY_MANIFESTS

_MOST_PROBLEMS: Final = 100
_LONGEST_PROBLEM: Final = 1024
"""The most characters of a reported problem: bad files must not make the report too large for the pods in it."""
_IF_MEANT: Final = f"if this one is meant, make an empty file {MEANT} in it"
_SETTLED_SECONDS: Final = 2.0
"""A file with unchanged times and size is not read again if it was written at least this many seconds before the last
read. A file that was written later than that may have changed again with the same times."""


@dataclass(frozen=True)
class _Read:
    """A file as it was last read."""

    looks: tuple[int, ...]
    """Device, inode, size and times of the file."""
    at: float
    """When it was read, in seconds since 1970."""
    document: dict[str, Any] | None
    """The file's last valid Pod; None if it never had one."""
    problem: str
    """Why the file could not be read; "" if it could."""
    sets_uid: bool = False
    """Whether the file sets the pod's UID."""

    def broken(self, problem: str, looks: tuple[int, ...] = (), at: float = 0) -> _Read:
        """Return this file with a problem: it keeps its last document."""
        return replace(self, looks=looks, at=at, problem=problem)


@dataclass
class ManifestFiles:
    """The manifests of one directory. Every method blocks."""

    directory: Path
    node: str
    state_dir: Path
    """The directory of the file that stores which manifest made which pod: so a manifest that is broken after a restart
    does not end its pod."""
    _read: dict[Path, _Read] = field(default_factory=dict)
    _made: dict[str, PodKey] | None = None
    """By path: the pod that each manifest made; None = not read from the disk yet."""
    _is_unsynced: bool = False
    """Whether `_made` was written, but not synced to the disk."""
    _place: DirectoryPlace | None = None
    """Where the directory was at the last look; None = that is not noted on disk."""
    _went: set[Path] = field(default_factory=set)
    """Manifests that were removed, whose pods may not have been ended: a manifest may have come back before the next
    look."""

    def look(self, gone: Iterable[str] = ()) -> Listing:
        """Read the changed files, and return the pods of all files. If the directory cannot be read, all pods stay.

        `gone` has the names of files that were removed since the last look. Those that exist now have come back.
        """
        made = self._made if self._made is not None else self._recall()
        self._went.update(path for name in gone if str(path := self.directory / name) in made)
        try:
            place = place_of(self.directory, self._place)
            before = self._place or recall_place(self.state_dir)
            if made and before is not None and place.is_another_than(before) and not self._is_meant():
                return self._unreadable(made, f"is on another device than before: {place}, not {before}", _IF_MEANT)
            read = self._read_files()
            # If the disk went away during the read, its files only look removed.
            if place_of(self.directory, place) != place:
                return self._unreadable(made, "changed its device while it was read", "")
        except FileNotFoundError:
            if not made:
                return Listing((), (), ())
            return self._unreadable(made, "is missing", "an empty directory in its place ends them")
        except OSError as error:
            return self._unreadable(made, f"cannot be read ({why_of(error)})", "")
        self._read = read
        listing = self._listing()
        listing = listing._replace(replaced=self._back())
        problem = self._note(place)
        return listing._replace(problems=(*listing.problems, problem)) if problem else listing

    def _back(self) -> frozenset[PodKey]:
        """Return the pods of the files that were removed and came back, once these can be read."""
        back: dict[Path, PodKey] = {}
        for path in self._went:
            one, key = self._read.get(path), (self._made or {}).get(str(path))
            if one is not None and not one.problem and key is not None:
                back[path] = key
        self._went = {path for path in self._went if path in self._read and path not in back}
        return frozenset(back.values())

    def _is_meant(self) -> bool:
        return os.path.lexists(self.directory / MEANT)

    def _read_files(self) -> dict[Path, _Read]:
        read: dict[Path, _Read] = {}
        for path in sorted(path for path in self.directory.iterdir() if not path.name.startswith(".")):
            if (one := self._look_at(path)) is not None:
                read[path] = one
        return read

    def _unreadable(self, made: Mapping[str, PodKey], why: str, otherwise: str) -> Listing:
        """Return a listing that leaves all pods as they are. Its problem has `why` and the remedy (`otherwise`)."""
        problem = f"{_shown(self.directory)}: {why}; its pods run on until it is back"
        problem += f": {otherwise}" if otherwise else ""
        if not self._read:
            return Listing((), tuple(dict.fromkeys(made.values())), (problem,))
        listing = self._listing()
        return listing._replace(problems=(problem, *listing.problems))

    def _note(self, place: DirectoryPlace) -> str:
        """Write down where the directory is; return why that failed, "" if it succeeded. The next look retries."""
        if place == self._place:
            return ""
        try:
            remember_place(self.state_dir, place)
        except OSError as error:
            return f"{_shown(self.directory)}: its device cannot be noted for the next start: {why_of(error)}"
        self._place = place
        return ""

    def settle(self) -> str:
        """Sync the file that `look` wrote, against a power cut; return why that failed, "" if it succeeded. Blocks.

        Called after the pods have started, so that they need not wait for the disk: a crash of the worker alone loses
        nothing that was written. The next call retries a failure.
        """
        if not self._is_unsynced:
            return ""
        path = self.state_dir / MADE_BY_MANIFESTS
        try:
            sync_file(path)
        except OSError as error:
            return f"{path}: which file made which pod may be lost by a power cut: {error.strerror}"
        self._is_unsynced = False
        return ""

    def _look_at(self, path: Path) -> _Read | None:
        """Return the content of a file; None if the path is not a file, or no longer one."""
        before = self._read.get(path)
        try:
            found = path.stat()
        except FileNotFoundError:
            return _without_target(path, before)
        except OSError as error:
            problem = f"{_shown(path)}: {error.strerror}"
            return before.broken(problem) if before else _Read((), 0, None, problem)
        if stat.S_ISDIR(found.st_mode):
            return None
        looks = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if before is not None and before.looks == looks and found.st_ctime < before.at - _SETTLED_SECONDS:
            return before
        now = time.time()
        try:
            document, sets_uid = self._parse(path, found)
            return _Read(looks, now, document, "", sets_uid)
        except FileNotFoundError:
            return _without_target(path, before)
        except (ManifestError, ManifestErrors) as wrong:  # their texts name the file
            problem = str(wrong).replace("\n", "; ")
        except (PodInvalid, OSError) as wrong:
            problem = f"{_shown(path)}: {wrong.strerror if isinstance(wrong, OSError) else wrong}"
        return before.broken(problem, looks, now) if before else _Read(looks, now, None, problem)

    def _parse(self, path: Path, found: os.stat_result) -> tuple[dict[str, Any], bool]:
        """Return the static pod of a file, and whether the file sets its UID.

        Raises ManifestError, ManifestErrors, PodInvalid, OSError.
        """
        self._check(path, found)  # before the file is opened: opening a device may have effects
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            # The path may now name another file, and the file may grow while it is read.
            self._check(path, os.fstat(descriptor))
            text = file.read(LARGEST_MANIFEST + 1)
        documents = load_documents(text, source=_shown(path))
        if len(documents) != 1 or not isinstance(documents[0], Pod):
            raise ManifestError(_shown(path), 0, "must hold one Pod, and nothing else")
        bare, _ = without_cluster(documents[0])
        return pod_to_wire(admit(static_pod(bare, node=self.node, path=str(path))).pod), bool(bare.metadata.uid)

    def _check(self, path: Path, found: os.stat_result) -> None:
        """Raise ManifestError if this is not a regular file, or is too large."""
        if not stat.S_ISREG(found.st_mode):
            raise ManifestError(_shown(path), 0, "must be a file")
        if found.st_size > LARGEST_MANIFEST:
            raise ManifestError(_shown(path), 0, f"larger than {LARGEST_MANIFEST // 1024**2} MiB")

    def _listing(self) -> Listing:
        """Return the pods of all files; if two files name the same pod, the first one counts."""
        made = self._made if self._made is not None else self._recall()
        pods: dict[tuple[str, str], dict[str, Any]] = {}
        first: dict[tuple[str, str], Path] = {}
        kept: list[PodKey] = []
        problems: list[str] = []
        named: set[PodKey] = set()
        now: dict[str, PodKey] = {}
        for path, one in self._read.items():
            if one.problem:
                problems.append(one.problem)
            if one.document is None:
                if one.problem and (before := made.get(str(path))) is not None:
                    kept.append(before)
                    now[str(path)] = before
                continue
            meta = one.document["metadata"]
            key = meta["namespace"], meta["name"]
            if key in pods:
                problems.append(
                    f"{_shown(path)}: ignored, since {_shown(Path(first[key].name))} also makes pod {key[0]}/{key[1]}"
                )
                continue
            pods[key], first[key] = one.document, path
            now[str(path)] = made_by = PodKey(namespace=key[0], name=key[1])
            if one.sets_uid:
                named.add(made_by)
        if (now != made or self._made is None) and (problem := self._remember(now)):
            problems.append(problem)
        return Listing(tuple(pods.values()), tuple(kept), _bounded(problems, self.directory), frozenset(named))

    def _recall(self) -> dict[str, PodKey]:
        """Return which file made which pod, as an earlier worker stored it; empty if that cannot be read."""
        try:
            said = json.loads((self.state_dir / MADE_BY_MANIFESTS).read_bytes())
            return {str(path): PodKey.model_validate(key) for path, key in said.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def _remember(self, made: dict[str, PodKey]) -> str:
        """Store which file made which pod for the next worker; return why that failed, "" if it succeeded.

        A failure is retried, and does not affect this worker: on a full disk, removing a manifest must still end its
        pod, whose data may fill the disk.
        """
        text = json.dumps({path: key.model_dump() for path, key in made.items()}, indent=1)
        path = self.state_dir / MADE_BY_MANIFESTS
        try:
            replace_file(path, text + "\n", durable=False)
        except OSError as error:
            return f"{path}: which file made which pod cannot be stored for the next start: {error.strerror}"
        self._made, self._is_unsynced = made, True
        return ""


def _bounded(problems: Sequence[str], directory: Path) -> tuple[str, ...]:
    """Return at most `_MOST_PROBLEMS` problems, each cut to `_LONGEST_PROBLEM`, and one that counts the others."""
    first = [text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}..." for text in problems]
    more = len(problems) - _MOST_PROBLEMS
    rest = [f"{_shown(directory)}: has {more} more such files, which are not named"] if more > 0 else []
    return (*first[:_MOST_PROBLEMS], *rest)


def _without_target(path: Path, before: _Read | None) -> _Read | None:
    """Return the record of a path without a file: None if the path is gone, the last version if it is a link."""
    if not path.is_symlink():
        return None
    problem = f"{_shown(path)}: is a dangling link"
    return before.broken(problem) if before else _Read((), 0, None, problem)


def _shown(path: Path) -> str:
    """Return a path as printable text: bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")
