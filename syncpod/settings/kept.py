"""The settings that a node keeps in its state directory: how it was started, its runtime and its Temporal cluster.

They apply to the next worker and the next `up`, where no flag or variable overrides them. `down` removes the file when
it has ended the node's pods: then the node may get another name, runtime or cluster.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.os_errors import sentence_of
from syncpod.settings.table import BY_VARIABLE, ENCRYPT, NODE, RUNTIME_ENDPOINT, SIGNED
from syncpod.settings.values import SettingsInvalid

FILE_NAME: Final = "node-settings.json"


@dataclass(frozen=True)
class KeptSettings:
    """How a node was started last."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """The settings that were given, by the name of their variable, with the node's name and the runtime's socket."""
    runtime: str = ""
    """The runtime's name without its version, such as `containerd`."""
    cluster: str = ""
    """The node's place in Temporal: the cluster's id, a slash, and the namespace's id; "" = not known."""
    address: str = ""
    """The address at which that cluster's server was reached: ``host:port``."""
    namespace: str = ""
    """The namespace's name."""

    @property
    def node(self) -> str:
        """The node's name."""
        return self.variables.get(NODE.variable, "")

    @property
    def signed(self) -> bool:
        """Whether its commands must be signed."""
        return self.variables.get(SIGNED.variable, "") == "true"

    @property
    def encrypts(self) -> bool:
        """Whether its data in Temporal is encrypted."""
        return self.variables.get(ENCRYPT.variable, "") == "true"

    @property
    def endpoint(self) -> str:
        """The runtime's socket, as ``unix:///path``."""
        return self.variables.get(RUNTIME_ENDPOINT.variable, "")


def write_kept_settings(state_dir: Path, kept: KeptSettings) -> None:
    """Write the file: atomic, durable, readable by its owner only. Raises OSError."""
    replace_file(state_dir / FILE_NAME, json.dumps(asdict(kept), indent=2) + "\n", durable=True)


def read_kept_settings(state_dir: Path) -> KeptSettings:
    """Return what the node keeps; an empty one if there is no file, or this user may not read it.

    Raises SettingsInvalid if the file is invalid: ignoring it would let the node change its name, runtime or cluster.
    """
    path = state_dir / FILE_NAME
    try:
        said = json.loads(path.read_text())
        variables = {name: str(text) for name, text in said["variables"].items() if name in BY_VARIABLE}
        texts = {name: str(said[name]) for name in ("runtime", "cluster", "address", "namespace")}
        return KeptSettings(variables, **texts)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return KeptSettings()
    except OSError as error:
        raise SettingsInvalid(f"the node's settings cannot be read: {sentence_of(error)}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsInvalid(
            f"{path} cannot be read ({type(error).__name__}): restore it, or remove it and name what the node was "
            "started with (--node, --runtime-endpoint)"
        ) from None


def forget_kept_settings(state_dir: Path) -> None:
    """Remove the file. Raises OSError."""
    (state_dir / FILE_NAME).unlink(missing_ok=True)


def beneath(kept: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, with the kept values of variables that are unset or empty in it."""
    return {**environ, **{name: text for name, text in kept.items() if not environ.get(name)}}


# --- what may not change while a node has pods ------------------------------------------------------------------------


def is_same_runtime(kept: KeptSettings, endpoint: str) -> bool:
    """Say whether a socket is the kept one, perhaps through a link; yes if none is kept. Blocks."""
    return not kept.endpoint or _socket(kept.endpoint) == _socket(endpoint)


def _socket(endpoint: str) -> str:
    return os.path.realpath(endpoint.removeprefix("unix://"))


def other_runtime(kept: KeptSettings, wanted: str) -> str:
    """Return the error for a node with pods that is started on another runtime: `wanted`, a socket or a name."""
    return (
        f"node {kept.node} has pods on the runtime at {kept.endpoint}, so it cannot use {wanted}: "
        "name no other runtime, or end the pods first (`syncpod down`, or `syncpod delete pods --all`)"
    )


def kept_runtime_missing(kept: KeptSettings, reason: str) -> str:
    """Return the sentence that the runtime of a node does not answer; `reason` says why, in a few words."""
    return (
        f"the runtime that node {kept.node} was started with does not answer at {kept.endpoint} ({reason}): "
        "start it (`syncpod up` starts an embedded one)"
    )


def other_signing(node: str, state_dir: Path, *, signed: bool) -> str:
    """Return the error for a node with pods that is started with signing turned on or off, unlike before.

    `signed` = it is to be turned on.
    """
    has, wanted = ("plain", "signed") if signed else ("signed", "plain")
    return (
        f"node {node} of state directory {state_dir} has pods that take {has} commands, so it cannot take {wanted} "
        f"ones: start it as before ({SIGNED} says which), or end the pods first (`syncpod down`, or "
        "`syncpod delete pods --all`)"
    )


def other_name(node: str, state_dir: Path, wanted: str) -> str:
    """Return the error for a node with pods that is started under another name."""
    return (
        f"state directory {state_dir} has pods of node {node}, so it cannot become node {wanted}: "
        f"keep the name (--node {node}), give node {wanted} a state directory of its own (--state-dir), "
        "or end the pods first (`syncpod down`, or `syncpod delete pods --all`)"
    )
