"""Writes and removes our units in systemd's directory, and calls ``systemctl``."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.systemd_units import FLEET_UNITS, NODE_UNITS, owner_of
from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.os_errors import sentence_of

_BOOTED: Final = Path("/run/systemd/system")
"""It exists if systemd booted the machine; see sd_booted(3)."""
_LINGERING: Final = Path("/var/lib/systemd/linger")
"""Where logind has a file for each user whose units start at boot."""
_PATIENCE_SECONDS: Final = 400.0
"""The timeout of one call, which is longer than the start of a unit may take."""


def is_system() -> bool:
    """Return whether our units are root's, rather than a user's."""
    return os.geteuid() == 0


def unit_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory of our units."""
    if is_system():
        return Path("/etc/systemd/system")
    home = Path(environ.get("HOME") or "~").expanduser()
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd/user"


def require_booted() -> None:
    """Raise BadInput if no systemd could start our units."""
    if not _BOOTED.is_dir():
        raise BadInput(
            f"systemd does not run on this machine ({_BOOTED} is missing): `--print` shows the units, and `syncpod up` "
            "serves without it"
        )
    if not is_system() and not (os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("DBUS_SESSION_BUS_ADDRESS")):
        raise BadInput(
            "your own systemd cannot be reached (XDG_RUNTIME_DIR is not set): log in, or run as root for system units"
        )


def installed(state_dir: Path, names: Iterable[str] = (*NODE_UNITS, *FLEET_UNITS)) -> dict[str, str]:
    """Return the texts, by name, of the state directory's units that are installed for this user."""
    found = {}
    for name in dict.fromkeys(names):
        text = _read(unit_directory(os.environ) / name)
        if owner_of(text) == str(state_dir):
            found[name] = text
    return found


def require_ours(state_dir: Path, names: Iterable[str]) -> None:
    """Raise BadInput if a unit of one of these names is not this state directory's."""
    for name in names:
        path = unit_directory(os.environ) / name
        text = _read(path)
        if text and owner_of(text) != str(state_dir):
            whose = f"is for the state directory {owner_of(text)}" if owner_of(text) else "is not of `syncpod install`"
            raise BadInput(f"{path}: {whose}: remove it first, or name that --state-dir")


def write(units: Mapping[str, str]) -> None:
    """Write units, and enable them, so that systemd starts them at boot. Raises Failure."""
    directory = unit_directory(os.environ)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in units.items():
            replace_file(directory / name, text, durable=True)
            # Nothing in a unit is secret, and systemd warns of a unit that other users cannot read.
            (directory / name).chmod(0o644)
    except OSError as error:
        raise Failure(f"the units cannot be written to {directory}: {error.strerror}") from None
    systemctl("daemon-reload")
    systemctl("enable", "--quiet", *units)


def remove(names: Iterable[str]) -> None:
    """Stop units, in this order, and remove them from systemd. Raises Failure."""
    directory, there = unit_directory(os.environ), list(names)
    if not there:
        return
    for name in there:
        systemctl("disable", "--quiet", name)
        systemctl("stop", name)
        (directory / name).unlink(missing_ok=True)
    systemctl("daemon-reload")


def start(names: Iterable[str], changed: Iterable[str]) -> None:
    """Start units, restart those that have `changed`, and return when all serve. Raises Failure."""
    anew = set(changed)
    for name in names:
        try:
            systemctl("restart" if name in anew else "start", name)
        except Failure as failure:
            raise Failure(
                f"{failure}\n`journalctl {_scope()}--unit {name}` says why; it is tried again until then"
            ) from None


def systemctl(*arguments: str) -> str:
    """Return the output of systemctl. Raises Failure with its error."""
    line = ["systemctl", *([] if is_system() else ["--user"]), *arguments]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"systemctl cannot be run: {sentence_of(error)}") from None
    if done.returncode != 0:
        said = next((each for each in done.stderr.splitlines() if each.strip()), f"it ended with {done.returncode}")
        raise Failure(f"`{' '.join(line)}`: {said}")
    return done.stdout


def linger() -> str:
    """Let this user's units start at boot and outlive the login. Return why that is impossible; "" if it is done."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    if (_LINGERING / user).exists():
        return ""
    line = ["loginctl", "enable-linger", user]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return sentence_of(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"it ended with {done.returncode}"


def _scope() -> str:
    return "" if is_system() else "--user "


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {sentence_of(error)}") from None
