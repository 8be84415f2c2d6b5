"""The texts of the systemd units of a node and of a fleet: one for each process.

Only values are used here; `systemd.py` writes and starts the units. See systemd.service(5), systemd.kill(5) and
systemd.exec(5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.kernel.process_priority import NODE

SERVER: Final = "syncpod-server.service"
RUNTIME: Final = "syncpod-runtime.service"
WORKER: Final = "syncpod-worker.service"
FLEET_WORKER: Final = "syncpod-fleet-worker.service"
FLEET_GATE: Final = "syncpod-fleet-gate.service"
NODE_UNITS: Final = (WORKER, RUNTIME, SERVER)
"""The units of a node, in the order in which they are stopped."""
FLEET_UNITS: Final = (FLEET_GATE, FLEET_WORKER, SERVER)

_OWNER: Final = "# For the state directory "
_RESTART_SECONDS: Final = 2


@dataclass(frozen=True)
class UnitSettings:
    """The common part of all units of one state directory."""

    program: Path
    """The `syncpod` that they run."""
    state_dir: Path
    environment_file: Path
    """A file with variables of the user who installed the units. They may be secret, so only the owner can read it."""
    system: bool
    """Whether the units are root's, and start at boot. Otherwise they are a user's, and start with the user's
    manager."""


@dataclass(frozen=True)
class DevServerUnit:
    """The Temporal dev server of the state directory."""

    address: str
    ui_port: int | None
    """None = it serves no UI."""
    guard: bool
    """Whether only root can connect to it. The kernel's rule for that is lost at a reboot, so each start sets it."""


@dataclass(frozen=True)
class Temporal:
    """The Temporal server that a worker serves."""

    address: str
    namespace: str
    own: DevServerUnit | None
    """The server's own unit; None = others run the server."""


def node_units(settings: UnitSettings, temporal: Temporal, *, embedded: bool, simulated: bool) -> dict[str, str]:
    """Return the units of a node, by name: its worker, and its own runtime and server if it has them.

    Each is restarted by itself. The stop of one unit stops no other, so that pods and workflows survive the stop of any
    unit.
    """
    units = {}
    if temporal.own is not None:
        units[SERVER] = server_unit(settings, temporal.own)
    if embedded:
        units[RUNTIME] = _runtime_unit(settings, simulated=simulated)
    units[WORKER] = _worker_unit(settings, temporal, embedded=embedded)
    return units


def fleet_units(settings: UnitSettings, temporal: Temporal, *, listen: str, names: Sequence[str]) -> dict[str, str]:
    """Return the units of a fleet's machine, by name: its worker, its gate, and perhaps a server of its own."""
    units = {} if temporal.own is None else {SERVER: server_unit(settings, temporal.own)}
    gate = ["fleet", "gate", "--listen", listen, *(word for name in names for word in ("--name", name))]
    for unit, what, command in (
        (FLEET_WORKER, "a fleet's workflows", ["fleet", "serve"]),
        (FLEET_GATE, "the gate of a fleet, where its nodes connect", gate),
    ):
        units[unit] = _unit(
            settings,
            f"syncpod: {what}",
            command,
            after=_before_worker(temporal),
            service=[*_address(temporal), *_confined(settings)],
        )
    return units


def server_unit(settings: UnitSettings, server: DevServerUnit) -> str:
    """Return the unit of the state directory's Temporal server."""
    command = ["server", "--port", server.address.rpartition(":")[2]]
    command += ["--ui-port", str(server.ui_port)] if server.ui_port else []
    command += ["--guard"] if server.guard else []
    what = "syncpod: the Temporal server of this machine"
    return _unit(settings, what, command, after=(), service=_spared(settings))


def _runtime_unit(settings: UnitSettings, *, simulated: bool) -> str:
    service = [
        "# Containers are children of this unit's processes: only the runtime itself is stopped, they run on, and",
        "# the runtime that starts next takes them over. One that the kernel kills for its memory is their own matter.",
        "KillMode=process",
        "OOMPolicy=continue",
        "TasksMax=infinity",
        "LimitNOFILE=1048576",
        *_spared(settings),
    ]
    command = ["runtime", *(["--simulate"] if simulated else [])]
    return _unit(settings, "syncpod: the embedded container runtime", command, after=(), service=service)


def _worker_unit(settings: UnitSettings, temporal: Temporal, *, embedded: bool) -> str:
    after = (*_before_worker(temporal), *([RUNTIME] if embedded else []))
    service = [
        *_address(temporal),
        "# A step that is under way is let end, or let go at a safe point; no pod is stopped.",
        "KillMode=mixed",
        "TimeoutStopSec=40",
        "LimitNOFILE=1048576",
        *_spared(settings),
        "# Of no mount namespace of its own: what it mounts, the runtime has to see.",
    ]
    before = () if embedded else ("containerd.service", "crio.service")
    return _unit(
        settings, "syncpod: the node agent of this machine", ["worker"], after=after, before=before, service=service
    )


def _before_worker(temporal: Temporal) -> tuple[str, ...]:
    return (SERVER,) if temporal.own is not None else ()


def _address(temporal: Temporal) -> list[str]:
    return [
        f"Environment={_quoted(f'TEMPORAL_ADDRESS={temporal.address}')}",
        f"Environment={_quoted(f'TEMPORAL_NAMESPACE={temporal.namespace}')}",
    ]


def _spared(settings: UnitSettings) -> list[str]:
    """Return the setting by which the kernel, out of memory, kills pods first; a user's manager may not set it."""
    return [f"OOMScoreAdjust={NODE}"] if settings.system else []


def _confined(settings: UnitSettings) -> list[str]:
    """Return the restrictions of a process that needs only its files and connections; a user's manager has fewer."""
    if not settings.system:
        return ["NoNewPrivileges=yes"]
    return [
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
        "ProtectSystem=strict",
        f"ReadWritePaths={_quoted(str(settings.state_dir))}",
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "LimitNOFILE=1048576",
    ]


def _unit(
    settings: UnitSettings,
    description: str,
    command: Sequence[str],
    *,
    after: Sequence[str],
    service: Sequence[str],
    before: Sequence[str] = (),
) -> str:
    """Return a unit that systemd starts at boot.

    systemd starts the units `after` before this one. It also waits for the units `before`, but does not start them.

    systemd restarts the unit after any end, without limit. The program logs why it cannot serve; the cause may pass.
    """
    wants = [f"Wants={' '.join(after)}"] if after else []
    lines = [
        "# Written by `syncpod install`, or by `syncpod fleet install`; `uninstall` of the same removes it.",
        f"{_OWNER}{settings.state_dir}",
        "",
        "[Unit]",
        f"Description={description}",
        *wants,
        f"After={' '.join(('network.target', *before, *after))}",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        f"ExecStart={' '.join(_argument(word) for word in (str(settings.program), *command))}",
        f"Environment={_quoted(f'SYNCPOD_STATE_DIR={settings.state_dir}')}",
        f"EnvironmentFile=-{_path(settings.environment_file)}",
        "Restart=always",
        f"RestartSec={_RESTART_SECONDS}",
        "TimeoutStartSec=300",
        *service,
        "",
        "[Install]",
        f"WantedBy={'multi-user.target' if settings.system else 'default.target'}",
    ]
    return "\n".join(lines) + "\n"


def owner_of(unit: str) -> str:
    """Return the state directory for which we wrote the text of a unit; "" if the text is not ours."""
    return next((line.removeprefix(_OWNER) for line in unit.splitlines() if line.startswith(_OWNER)), "")


def environment_file(variables: Mapping[str, str]) -> str:
    """Return variables in the form of systemd's EnvironmentFile=."""
    return "".join(f"{name}={_in_file(text)}\n" for name, text in sorted(variables.items()))


def _in_file(text: str) -> str:
    for special in ("\\", '"', "$", "`"):
        text = text.replace(special, f"\\{special}")
    return f'"{text}"'


def _quoted(text: str) -> str:
    """Return a text as one word of a setting: systemd expands %, and reads C's escapes within double quotes."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{text}"'


def _argument(word: str) -> str:
    """Return a word of a command line, where systemd also expands $."""
    plain = word.isascii() and all(sign.isalnum() or sign in "-_./:,=@+[]" for sign in word) and word
    return word if plain else _quoted(word).replace("$", "$$")


def _path(path: Path) -> str:
    """Return a path as systemd expects it where a setting takes one path: unquoted, with % escaped."""
    return str(path).replace("%", "%%")
