"""The two ends of a copy on the command line: a path on this machine, or one in a container."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from syncpod.cli.failure import BadInput
from syncpod.cli.input.kind_words import POD_WORDS


@dataclass(frozen=True)
class CopyLocation:
    """Source or destination of a copy."""

    path: str
    pod: str = ""
    """The pod; "" = this machine."""
    namespace: str = ""
    """The pod's namespace; "" = that of --namespace."""


def copy_location(text: str) -> CopyLocation:
    """Parse ``[[NAMESPACE/]POD:]PATH``. Raises BadInput.

    Mirrors cp.go, v1.36, extractFileSpec. Differences: a text that begins with a slash or a dot is a local path, even
    with a colon, and ``pod/web:/x`` names the pod ``web``.
    """
    before, colon, path = text.partition(":")
    if not colon or text.startswith(("/", ".")):
        if not text:
            raise BadInput("SRC and DST: a path is missing")
        return CopyLocation(text)
    *namespaces, pod = before.split("/")
    if not pod or len(namespaces) > 1 or "" in namespaces:
        raise BadInput(f"{text!r}: write [[NAMESPACE/]POD:]PATH")
    if not path:
        raise BadInput(f"{text!r}: the path in the container is missing")
    namespace = namespaces[0] if namespaces and namespaces[0] not in POD_WORDS else ""
    return CopyLocation(path, pod, namespace)


def require_one_here(
    source: CopyLocation, destination: CopyLocation, program: str, *, no_preserve: bool, retries: int | None
) -> None:
    """Raise BadInput unless exactly one end is local, a local source exists, and the flags fit the direction.

    `program` begins a command for the same pods: ``syncpod fleet``.
    """
    if bool(source.pod) == bool(destination.pod):
        raise BadInput("one of SRC and DST must be in a pod (POD:PATH), the other here")
    if source.pod and destination.path == "-":
        way = f"`{program} exec {source.pod} -- cat {source.path}` writes a file to standard output"
        raise BadInput(f"-: {way}, and ./- names a file here")
    if destination.pod and source.path == "-":
        way = (
            f"`{program} exec -i {destination.pod} -- sh -c 'cat > {destination.path}'` writes standard input to a file"
        )
        raise BadInput(f"-: {way}, and ./- names a file here")
    if source.pod and no_preserve:
        raise BadInput("--no-preserve is for a copy into a container: out of one, owners are never kept")
    if not source.pod:
        if retries is not None:
            raise BadInput("--retries is for a copy out of a container: a copy into one cannot be resumed")
        _require(Path(source.path))


def _require(path: Path) -> None:
    """Raise BadInput if a local path does not exist, or cannot be accessed."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise BadInput(f"{path}: there is no such file or directory here") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
