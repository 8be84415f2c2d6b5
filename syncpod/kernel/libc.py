"""The Linux system calls that Python lacks, bound to libc. Each raises OSError, with its path argument.

Containers' supervisors are forked with this module imported, so it uses nothing but ctypes.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000

MS_RDONLY = 0x1
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SHARED = 0x100000
MNT_DETACH = 0x2
UMOUNT_NOFOLLOW = 0x8

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1
_SYS_OPENAT2 = 437
_SYS_PROCESS_MADVISE = 440
_SYS_MOUNT_SETATTR = 442
"""These three system calls have the same number on every architecture."""
_LINUX_CAPABILITY_VERSION_3 = 0x20080522

_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
"""Parameters of mallopt(3)."""
_libc = ctypes.CDLL(None, use_errno=True)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


class _Span(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _checked(result: int, path: str | os.PathLike[str] | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), None if path is None else os.fspath(path))
    return result


def _encoded(path: str | os.PathLike[str]) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"a path with a null byte: {path!r}")
    return encoded


def prctl(option: int, argument: int = 0, second: int = 0) -> int:
    """Change or read a property of this process (prctl(2), its last two arguments 0); return the result."""
    long = ctypes.c_ulong
    return _checked(_libc.prctl(ctypes.c_int(option), long(argument), long(second), long(0), long(0)))


def name_process(name: str) -> None:
    """Set the name of this process that `ps -o comm` shows, to the first 15 bytes of `name`."""
    text = ctypes.create_string_buffer(name.encode()[:15])
    _checked(_libc.prctl(ctypes.c_int(PR_SET_NAME), text, *(ctypes.c_ulong(0),) * 3))


def title_process(title: str) -> None:
    """Replace this process's command line, which `ps -o args` shows, by the part of `title` that fits.

    This overwrites the original arguments in memory, which Python has copied and does not read again.
    """
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:  # 0 if the kernel hides the addresses.
        room = end - start
        ctypes.memmove(start, title.encode()[: room - 1].ljust(room, b"\0"), room)


def unshare(flags: int) -> None:
    """Move this process into new namespaces (`CLONE_NEW…`)."""
    _checked(_libc.unshare(ctypes.c_int(flags)))


def setns(descriptor: int, kind: int) -> None:
    """Enter the namespace that is open as `descriptor`."""
    _checked(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)))


def sethostname(name: str) -> None:
    """Set the host name of this UTS namespace."""
    encoded = name.encode()
    _checked(_libc.sethostname(encoded, ctypes.c_size_t(len(encoded))))


def openat2(directory: int, path: str, flags: int, resolve: int) -> int:
    """Open `path` from an open directory, restricted by `resolve` (`RESOLVE_…`), and return the descriptor.

    Raises OSError: ENOSYS before Linux 5.6.
    """
    how = _OpenHow(flags=flags, mode=0, resolve=resolve)
    result = _libc.syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(directory),
        _encoded(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return _checked(result, path)


def process_madvise(pidfd: int, address: int, length: int, advice: int) -> int:
    """Give the kernel advice on a range of another process's memory; return the number of bytes that were advised.

    Raises OSError: EPERM without CAP_SYS_NICE, ENOSYS before Linux 5.10.
    """
    span = _Span(address, length)
    result = _libc.syscall(
        ctypes.c_long(_SYS_PROCESS_MADVISE),
        ctypes.c_int(pidfd),
        ctypes.byref(span),
        ctypes.c_size_t(1),
        ctypes.c_int(advice),
        ctypes.c_uint(0),
    )
    return _checked(result)


def madvise(address: int, length: int, advice: int) -> None:
    """Give the kernel advice on a range of this process's memory (madvise(2))."""
    _checked(_libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(length), ctypes.c_int(advice)))


def malloc_trim() -> None:
    """Return libc's free memory between its used blocks to the kernel; do nothing if libc cannot."""
    if (trim := getattr(_libc, "malloc_trim", None)) is not None:  # only glibc has it
        trim(ctypes.c_size_t(0))


def map_large_blocks(least_bytes: int) -> None:
    """Have libc return each block of at least `least_bytes` bytes to the kernel as soon as it is free.

    By default glibc keeps up to 32 MiB of free blocks. Does nothing where libc cannot.
    """
    if (mallopt := getattr(_libc, "mallopt", None)) is not None:
        mallopt(ctypes.c_int(_M_MMAP_THRESHOLD), ctypes.c_int(least_bytes))


def share_arenas(number: int) -> None:
    """Have all threads take memory from at most `number` of libc's arenas. Call this before any thread starts.

    By default glibc makes up to eight arenas for each core. Each arena keeps the free memory between its blocks, and a
    freed block returns to the arena that it came from. Does nothing where libc cannot.
    """
    if (mallopt := getattr(_libc, "mallopt", None)) is not None:
        mallopt(ctypes.c_int(_M_ARENA_MAX), ctypes.c_int(number))


def inotify_init(flags: int) -> int:
    """Return the descriptor of a new inotify instance (inotify_init1(2)); `flags` are those of `open`."""
    return _checked(_libc.inotify_init1(ctypes.c_int(flags)))


def inotify_add_watch(descriptor: int, path: str | os.PathLike[str], mask: int) -> int:
    """Have an inotify instance watch `path` for the events in `mask` (`IN_…`); return the watch's number."""
    return _checked(_libc.inotify_add_watch(ctypes.c_int(descriptor), _encoded(path), ctypes.c_uint32(mask)), path)


def mount(
    source: str | os.PathLike[str], target: str | os.PathLike[str], kind: str, flags: int, options: str = ""
) -> None:
    """Mount `source` at `target`; `options` are the file system's own."""
    _checked(
        _libc.mount(_encoded(source), _encoded(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(options)),
        target,
    )


def bind_recursively(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Show `source`, with all that is mounted beneath it, at `target` too."""
    mount(source, target, "", MS_BIND | MS_REC)


def make_read_only(path: str, *, recursive: bool) -> None:
    """Make the mount at `path` read-only and, with `recursive`, all mounts beneath it.

    Before Linux 5.12, a recursive change raises OSError (ENOSYS); a single mount is remounted with its present flags,
    because a process in a user namespace may not drop any of these flags.
    """
    attributes = _MountAttr(attr_set=_MOUNT_ATTR_RDONLY)
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        _encoded(path),
        ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    if result == 0:
        return
    if recursive:
        _checked(result, path)
    kept = os.statvfs(path).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_RELATIME)
    # ST_RELATIME is the one flag whose number differs between statvfs (4096) and mount (2 to the 21st).
    flags = (kept & ~os.ST_RELATIME) | (0x200000 if kept & os.ST_RELATIME else 0)
    mount("", path, "", MS_REMOUNT | MS_BIND | MS_RDONLY | flags)


def pivot_root() -> None:
    """Make the working directory, which must be a mount point, the root.

    The old root is then mounted over the new one, for the caller to unmount.
    """
    _checked(_libc.pivot_root(b".", b"."), ".")


def unmount(path: str | os.PathLike[str], flags: int) -> None:
    """Unmount the topmost mount at `path`.

    With `MNT_DETACH`, unmount it even if it is in use, with all mounts beneath it.
    """
    _checked(_libc.umount2(_encoded(path), ctypes.c_int(flags)), path)


def permitted_capabilities() -> int:
    """Return this process's permitted capabilities as a bit mask."""
    header = _CapabilityHeader(_LINUX_CAPABILITY_VERSION_3, 0)
    data = (_CapabilityData * 2)()
    _checked(_libc.capget(ctypes.byref(header), ctypes.byref(data)))
    return int(data[0].permitted) | int(data[1].permitted) << 32


def set_capabilities(bits: int) -> None:
    """Set this process's effective and permitted capabilities to `bits`, and clear the inheritable ones."""
    header = _CapabilityHeader(_LINUX_CAPABILITY_VERSION_3, 0)
    data = (_CapabilityData * 2)()
    for half in range(2):
        word = bits >> (32 * half) & 0xFFFFFFFF
        data[half] = _CapabilityData(word, word, 0)
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(data)))
