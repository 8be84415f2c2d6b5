"""Runs a command in a mount namespace with a mount that it cannot access.

Run as root: `python closed_mount.py PLACE COMMAND...`. The mount is a FUSE file system without a server, as after the
server's death: access to it fails with EACCES for other users, and with ENOTCONN for root.
"""

import ctypes
import os
import sys

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x00020000, 0x4000, 0x40000


def main(place: str, command: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)

    def checked(result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    checked(libc.unshare(CLONE_NEWNS))
    checked(libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None))
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    checked(libc.mount(b"fuse", os.fsencode(place), b"fuse", ctypes.c_ulong(0), options))
    os.close(device)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
