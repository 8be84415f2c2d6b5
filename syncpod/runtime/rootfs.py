"""A root directory of one's own, made of the host's or an image's: what a container writes outside mounts is private.

Each entry of the host's `/` appears in the new root. A symbolic link is made again; `/tmp` and `/run` are fresh and
empty; a file is copied; a directory gets an overlay whose writes stay in the container's own directory, and so, in
their places, do those mounted beneath it. A directory with the runtime's own state is first shown without that: no
upper layer may lie in its lower one. One with mounts beneath it that cannot be a lower layer, as where a user namespace
holds the mounts together, is made again, its entries shown in the same way; without them it is shared with the host.
An image's files are one overlay, in which the kernel's directories and devices are the host's, and so are name
resolution and the hosts file, as copies.
Then the container's mounts are laid over it. All of this happens in a mount namespace that ends with the container's
last process, so there is nothing to unmount.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path

from syncpod.runtime import linux
from syncpod.runtime.port import Mount, StartFailed

LAYERS = "layers"
"""The overlays' upper and work directories, under the container's directory."""
ROOT = "rootfs"
_FRESH = {"tmp": 0o1777, "run": 0o755}
_COPY_BYTES = 1 << 20
_COPIES = 256
_HOSTNAME = "etc/hostname"
_HOST_FILES = ("/etc/hosts", "/etc/resolv.conf")
"""What the host says of names, also to programs of an image."""
_KERNEL = ("proc", "sys")
_REPLACEABLE = frozenset(
    f"/proc/{name}"
    for name in ("cpuinfo", "diskstats", "loadavg", "meminfo", "net/dev", "slabinfo", "stat", "swaps", "uptime")
)
"""Figures that runc lets a mount stand for, as LXCFS has it."""
_HOST_DEVICES = ".machine"
_CONSOLE = "console"
_USUAL_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""Those that runc makes (OCI's default devices)."""


def enter(
    directory: Path,
    mounts: tuple[Mount, ...],
    *,
    image: str,
    read_only: bool,
    hostname: str,
    user_namespace: bool,
    cwd: str,
) -> None:
    """Move this process, which has one thread, into namespaces and a root of its own, made under `directory`.

    It is made of the files in `image`, of the host's where that is empty. The working directory `cwd` is made there if
    it is missing, as runc does. Raises StartFailed for a mount that cannot be made, OSError where the kernel refuses
    the rest.
    """
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(
        linux.CLONE_NEWNS | (linux.CLONE_NEWUTS if hostname else 0) | (linux.CLONE_NEWUSER if user_namespace else 0)
    )
    if user_namespace:
        _map_own_user(uid, gid)
    if hostname:
        linux.sethostname(hostname)
    linux.mount("", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    if image:
        mounts = (*_own_files(directory, mounts, hostname, read_only=read_only), *mounts)
    mounts = _in_order(mounts)
    sources = [_source(mount) for mount in mounts]
    root = _Root(directory, user_namespace=user_namespace)
    if image:
        root.compose_image(image)
    else:
        root.compose()
        if hostname:
            root.write_hostname(hostname)
    old = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    os.chdir(root.path)
    linux.pivot_root()
    # The old root now lies over the new one, unseen by absolute paths; the sources still belong to this namespace.
    if read_only:
        root.freeze_shared()
    for mount, source in zip(mounts, sources, strict=True):
        root.add(mount, source)
    if cwd:
        root.make_directory(cwd)
    if read_only:
        root.freeze_private()
    os.fchdir(old)
    linux.detach(".")
    os.close(old)
    os.chdir("/")


def _own_files(directory: Path, mounts: tuple[Mount, ...], hostname: str, *, read_only: bool) -> tuple[Mount, ...]:
    """Write what is no image's to say into the container's directory, and return it as mounts; no mount is doubled.

    These are copies, as containerd's are (sandbox_run_linux.go, setupSandboxFiles).
    """
    taken = {os.path.normpath(mount.container_path) for mount in mounts}
    wanted: dict[str, bytes] = {f"/{_HOSTNAME}": f"{hostname}\n".encode()} if hostname else {}
    for path in _HOST_FILES:
        with contextlib.suppress(OSError):
            wanted[path] = Path(path).read_bytes()
    made = []
    for path, content in wanted.items():
        if path not in taken:
            own = directory / os.path.basename(path)  # noqa: PTH119
            own.write_bytes(content)
            own.chmod(0o644)
            made.append(Mount(path, str(own), read_only=read_only))
    return tuple(made)


def written_to(directory: Path) -> tuple[Path, ...]:
    """Return where what the container writes to its own root lands, given its directory; none if it has no root.

    As seen from outside, where nothing is mounted: the root is what was made in it, such as /tmp.
    """
    return tuple(path for path in (directory / ROOT, *(directory / LAYERS).glob("*/upper")) if path.is_dir())


class _Root:
    """The root directory while it is put together."""

    def __init__(self, directory: Path, *, user_namespace: bool) -> None:
        self.path = directory / ROOT
        self._directory = directory
        self._layers = directory / LAYERS
        self._user_namespace = user_namespace
        self._attributes = ",userxattr" if user_namespace else ""
        self._mount_points = _mount_points()
        self._hidden = os.path.realpath(directory.parents[1])
        """Where the containers' own directories are: not shown, since this root is in one of them."""
        self._copies = 0
        self._shared: list[str] = []
        """Top-level entries that are the host's own: nothing is made in them."""
        self._overlays: list[str] = []
        self._volumes: list[str] = []
        """Where the container's mounts lie."""

    def compose_image(self, image: str) -> None:
        """Lay a private layer over an image's files, and show the kernel's directories and the devices in it."""
        self.path.mkdir(mode=0o755)
        self._layers.mkdir(mode=0o700)
        if not self._lay(image, self.path, Path(image).stat()):
            raise StartFailed("no private layer can be laid over the image's files, since overlayfs refuses one here")
        self._overlays.clear()  # The root itself is no entry of it.
        for name in (*_KERNEL, "dev"):
            place = self.path / name
            if place.is_symlink() or not place.is_dir():  # A link would lead out of here, before this is the root.
                place.unlink(missing_ok=True)
                place.mkdir(mode=0o755)
        for name in _KERNEL:
            self._share(f"/{name}", self.path / name)
        # What an image has there is hidden, as by the tmpfs that runc mounts.
        linux.mount("tmpfs", str(self.path / "dev"), "tmpfs", 0, "mode=755")
        self._show_devices(self.path / "dev")

    def compose(self) -> None:
        """Show the host's top-level entries in the new root, a mount of its own."""
        self.path.mkdir(mode=0o755)
        self.path.chmod(0o755)
        self._layers.mkdir(mode=0o700)
        linux.bind(str(self.path), str(self.path))
        with os.scandir("/") as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # Gone meanwhile: others live on this machine too.
                    self._show(entry)
        for name, mode in _FRESH.items():
            made = self.path / name
            made.mkdir(exist_ok=True)
            made.chmod(mode)
        self._keep_resolver()

    def _show(self, entry: os.DirEntry[str], parent: Path | None = None) -> None:
        """Show one entry of the host's, in the new root or in a directory that is made again there."""
        target = (parent or self.path) / entry.name
        top = parent is None
        if (top and entry.name in _FRESH) or entry.path == self._hidden:
            return
        if entry.is_symlink():
            target.symlink_to(Path(entry.path).readlink())
        elif not entry.is_dir():
            self._show_file(entry, target)
        elif top and entry.name == "dev":
            self._show_devices(target)
        elif top and entry.name in _KERNEL:
            self._share(entry.path, target)
        else:
            self._show_directory(entry.path, target)

    def _show_file(self, entry: os.DirEntry[str], target: Path) -> None:
        """Copy a small file; another, or what is none (a socket, say), is the host's own, and not to be written."""
        if entry.is_file() and entry.stat().st_size <= _COPY_BYTES and self._copies < _COPIES:
            with contextlib.suppress(OSError):
                shutil.copyfile(entry.path, target)
                _liken(target, entry.stat())
                self._copies += 1
                return
        with contextlib.suppress(OSError):  # What cannot be shown is not there.
            target.touch()
            linux.bind(entry.path, str(target))
            self._shared.append(entry.path)
            linux.make_read_only(str(target), recursive=False)

    def _show_directory(self, path: str, target: Path) -> None:
        """Show a directory of the host's, and what is mounted beneath it, under a private layer where that can be."""
        points = self._mounted_beneath(path)
        # An upper layer may not lie in its own lower one.
        holds_state = _is_beneath(self._hidden, path) and not any(_is_beneath(self._hidden, point) for point in points)
        target.mkdir(mode=0o755, exist_ok=True)
        if self._lay(path, target, Path(path).stat(), without_state=holds_state):
            for point in points:
                self._show_mounted(point, target / os.path.relpath(point, path))
        elif points or holds_state:
            self._make_again(path, target)
        else:
            self._share(path, target)

    def _mounted_beneath(self, path: str) -> list[str]:
        """Return the mount points in a directory, without those that are beneath others."""
        found: list[str] = []
        for point in sorted(set(self._mount_points)):
            if _is_beneath(point, path) and not any(_is_beneath(point, above) for above in found):
                found.append(point)
        return found

    def _show_mounted(self, point: str, target: Path) -> None:
        if point == self._hidden or _is_beneath(point, self._hidden):
            return
        if os.path.isdir(point):  # noqa: PTH112
            self._show_directory(point, target)
            return
        with contextlib.suppress(OSError):
            linux.bind(point, str(target))
            self._shared.append(f"/{target.relative_to(self.path)}")

    def _make_again(self, path: str, target: Path) -> None:
        """Show what is in a directory, entry by entry; shared where we may not look."""
        try:
            children = list(os.scandir(path))
        except PermissionError:
            self._share(path, target)
            return
        for child in children:
            self._show(child, target)
        _liken(target, Path(path).stat())

    def _share(self, path: str, target: Path) -> None:
        target.mkdir(exist_ok=True)
        linux.bind(path, str(target))
        self._shared.append(path)

    def _lay(self, lower: str, target: Path, like: os.stat_result, *, without_state: bool = False) -> bool:
        """Lay a private layer over a directory of the host; False where that cannot be."""
        layer = self._layers / f"{len(self._overlays)}-{target.name}"
        upper, work = layer / "upper", layer / "work"
        upper.mkdir(parents=True, exist_ok=True)
        work.mkdir(exist_ok=True)
        _liken(upper, like)
        options = ",".join(f"{key}={_escaped(path)}" for key, path in (("upperdir", upper), ("workdir", work)))
        with contextlib.suppress(OSError):
            shown = self._without_state(lower, layer) if without_state else lower
            options += f",lowerdir={_escaped(shown)}" + self._attributes
            # Volatile: nothing of it need survive a crash of the machine, and nothing waits for a disk.
            for more in (",volatile", ""):
                with contextlib.suppress(OSError):
                    linux.mount("overlay", str(target), "overlay", 0, options + more)
                    self._overlays.append(f"/{target.relative_to(self.path)}")
                    return True
        return False

    def _without_state(self, path: str, layer: Path) -> str:
        """Return where a directory of the host's is shown without the containers' own; raises OSError.

        It is an overlay of nothing but a whiteout, so the private layer over it has a lower one that it is not in.
        """
        mask, shown = layer / "mask", layer / "shown"
        mask.mkdir(exist_ok=True)
        shown.mkdir(exist_ok=True)
        linux.mount("tmpfs", str(mask), "tmpfs", 0, "mode=755")
        hidden = Path(self._hidden).relative_to(path)
        (mask / hidden.parent).mkdir(parents=True, exist_ok=True)
        os.mknod(mask / hidden, stat.S_IFCHR)
        for above in hidden.parents:  # From the bottom up: we may not be let into what is like the host's.
            _liken(mask / above, (path / above).stat())
        options = f"lowerdir={_escaped(mask)}:{_escaped(path)}{self._attributes}"
        linux.mount("overlay", str(shown), "overlay", linux.MS_RDONLY, options)
        return str(shown)

    def _show_devices(self, target: Path) -> None:
        """Show the host's devices in a directory of our own: a mount point made in `/dev` would be made on the host.

        In a user namespace a device works only through a mount from outside. There the usual ones are bound, and others
        are links into the host's `/dev`, which lies read-only beneath; so is ptmx, which looks for `pts` beside it.
        """
        target.mkdir(mode=0o755, exist_ok=True)
        linked = self._user_namespace or not self._lay("/dev", target, Path("/dev").stat())
        if linked:
            beneath = target / _HOST_DEVICES
            beneath.mkdir()
            linux.bind("/dev", str(beneath))
            with contextlib.suppress(OSError):  # Before Linux 5.12 only the modes of what is there protect it.
                linux.make_read_only(str(beneath), recursive=True)
        with os.scandir("/dev") as entries:
            for entry in entries:
                place = target / entry.name
                if entry.name == _CONSOLE:
                    continue
                if entry.path in self._mount_points or (linked and entry.name in _USUAL_DEVICES):
                    if entry.is_dir():
                        place.mkdir(exist_ok=True)
                    else:
                        place.touch()
                    linux.bind(entry.path, str(place))
                elif linked:
                    link = entry.is_symlink()
                    place.symlink_to(Path(entry.path).readlink() if link else f"{_HOST_DEVICES}/{entry.name}")
        self._show_console(target / _CONSOLE)

    def _show_console(self, place: Path) -> None:
        """Have the container's terminal, if it has one, in the place of the machine's console."""
        with contextlib.suppress(FileNotFoundError):
            place.unlink()
        with contextlib.suppress(OSError):  # Not a terminal.
            terminal = os.ttyname(0)
            place.touch()
            linux.bind(terminal, str(place))

    def write_hostname(self, hostname: str) -> None:
        """Have `/etc/hostname` say what `hostname` does, if `/etc` is private or has the file."""
        place = self.path / _HOSTNAME
        own = self._directory / "hostname"
        own.write_text(f"{hostname}\n")
        own.chmod(0o644)
        if place.is_symlink():
            return
        if not place.exists():
            if "/etc" in self._shared:
                return
            place.touch()
        linux.bind(str(own), str(place))
        self._overlays.append(f"/{_HOSTNAME}")

    def _keep_resolver(self) -> None:
        """Keep the host's name resolution where `/etc/resolv.conf` leads into `/run`, which is fresh."""
        real = os.path.realpath("/etc/resolv.conf")
        if real.startswith("/run/") and Path(real).is_file():
            place = self.path / real[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
            linux.bind(real, str(place))

    def add(self, mount: Mount, source: int) -> None:
        """Mount what is open as `source`; the place is made in the private layer, or inside another volume."""
        target = os.path.normpath(mount.container_path)
        if not target.startswith("/") or target.lstrip("/") == "":
            raise StartFailed(f'mount {mount.container_path}: must be an absolute path other than "/"')
        if _hides_proc(os.path.realpath(target), source):
            raise StartFailed(
                f"mount {mount.container_path}: /proc is the kernel's: nothing may be mounted over or in it"
            )
        origin = f"/proc/self/fd/{source}"
        if stat.S_ISDIR(os.stat(source).st_mode):
            self.make_directory(target)
        else:
            self._make_file(target)
        target = os.path.realpath(target)
        try:
            linux.bind(origin, target)
            if mount.recursive_read_only:
                linux.make_read_only(target, recursive=True)
            elif mount.read_only:
                linux.make_read_only(target, recursive=False)
        except OSError as error:
            if error.errno == errno.ENOSYS:
                why = "recursive read-only mounts need Linux 5.12"
                raise StartFailed(f"mount {mount.container_path}: {why}") from error
            raise StartFailed(f"mount {mount.host_path} at {mount.container_path}: {error.strerror}") from error
        os.close(source)
        self._volumes.append(target)

    def make_directory(self, path: str) -> None:
        """Make a directory where nothing is."""
        real = os.path.realpath(path)
        if not os.path.isdir(real):  # noqa: PTH112
            self._may_make(real)
            try:
                os.makedirs(real, exist_ok=True)  # noqa: PTH103
            except OSError as error:
                raise StartFailed(f"mkdir {path}: {error.strerror}") from error

    def _make_file(self, path: str) -> None:
        real = os.path.realpath(path)
        if os.path.isdir(real):  # noqa: PTH112
            raise StartFailed(f"mount {path}: is a directory, and what is mounted is a file")
        if not os.path.exists(real):  # noqa: PTH110
            self.make_directory(os.path.dirname(real))  # noqa: PTH120
            self._may_make(real)
            try:
                Path(real).touch()
            except OSError as error:
                raise StartFailed(f"create {path}: {error.strerror}") from error

    def _may_make(self, path: str) -> None:
        """Refuse to make anything in what is the host's own, unless it is inside a volume."""
        if any(path.startswith(volume + "/") for volume in self._volumes):
            return
        for shared in self._shared:
            if path.startswith(shared + "/"):
                raise StartFailed(f"{path}: would have to be made on the host, whose {shared} the container shares")

    def freeze_shared(self) -> None:
        """Forbid writing to what is the host's, before a volume may lie in it."""
        for path in self._shared:
            if path[1:] not in _KERNEL:
                linux.make_read_only(path, recursive=True)

    def freeze_private(self) -> None:
        """Forbid writing to the private layers, but not to the volumes in them."""
        for path in ("/", *self._overlays):
            volume = any(path == each or _is_beneath(path, each) for each in self._volumes)
            if not volume and path != "/dev":
                linux.make_read_only(path, recursive=False)


def _is_beneath(path: str, directory: str) -> bool:
    return path.startswith(f"{directory}/")


def _liken(path: Path, like: os.stat_result) -> None:
    """Give a directory the owner and mode of another."""
    with contextlib.suppress(OSError):  # Without root it is ours, as is everybody who sees it.
        os.chown(path, like.st_uid, like.st_gid)
    path.chmod(stat.S_IMODE(like.st_mode))


def _hides_proc(path: str, source: int) -> bool:
    """Say whether a mount would hide what `/proc` says, which mounting itself relies on; proc itself would not."""
    if path == "/proc":
        return not os.path.samestat(os.fstat(source), os.stat("/proc"))  # noqa: PTH116
    return _is_beneath(path, "/proc") and path not in _REPLACEABLE


def _in_order(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Return the mounts with each after those that it may lie in, as containerd has them (its orderedMounts)."""
    return tuple(sorted(mounts, key=lambda mount: os.path.normpath(mount.container_path).count("/")))


def _source(mount: Mount) -> int:
    try:
        return os.open(mount.host_path, os.O_PATH)
    except OSError as error:
        raise StartFailed(f"mount {mount.host_path}: {error.strerror}") from error


def _map_own_user(uid: int, gid: int) -> None:
    """Map our user and group to themselves, the only ones an unprivileged process may map."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _mount_points() -> tuple[str, ...]:
    with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123
        fields = [line.split(b" ")[4] for line in file]
    # Space, tab, newline and backslash are written as octal numbers.
    return tuple(os.fsdecode(field.decode("unicode_escape").encode("latin-1")) for field in fields)


def _escaped(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    for special in "\\,:":
        text = text.replace(special, "\\" + special)
    return text
