"""Checks of ``syncpod up``, all made before anything is started."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.cli.failure import BadInput
from syncpod.cli.machine import port_guard
from syncpod.cli.machine.checked_node import require_valid
from syncpod.cli.machine.cluster_join import joined
from syncpod.cli.machine.object_apply import require_possible
from syncpod.cli.machine.runtime_choice import require_same_name
from syncpod.cli.machine.settings import kept_settings, settings
from syncpod.cli.machine.state_directory import memory_directory_of
from syncpod.cli.machine.units_of_node import require_not_installed
from syncpod.kubernetes.kubeconfig import KubeconfigInvalid, read_kubeconfig, require_usable
from syncpod.settings.directories import require_own_manifests
from syncpod.settings.membership import read_membership
from syncpod.settings.table import SIGNED
from syncpod.settings.values import SettingsInvalid

if TYPE_CHECKING:
    from syncpod.cli.input.manifests import Manifests
    from syncpod.settings.node import NodeSettings


def cluster_of(bootstrap: str, kubeconfig: str, node: str, state_dir: str) -> str:
    """Return the kubeconfig to use. With `bootstrap`, the node joins its cluster first, unless it has done so before.

    Raises BadInput and Failure.
    """
    if not bootstrap:
        return kubeconfig

    here = settings(node=node, state_dir=state_dir)
    if read_membership(here.state_dir) is not None:
        raise BadInput("--bootstrap-kubeconfig: the node is part of a fleet, and can be part of one of both only")
    return str(joined(here, Path(bootstrap), at=Path(kubeconfig).absolute() if kubeconfig else None))


def checked(here: NodeSettings, manifests: Manifests, *, memory_is_named: bool, guard: bool) -> NodeSettings:
    """Return the settings to start with. Raises Failure and BadInput, before anything is started."""
    require_valid(here)
    require_not_installed(here.state_dir, unless_serving=True)
    if here.manifest_dir is not None:
        _require_directory(here.manifest_dir)
    if here.kubeconfig is not None:
        _require_kubernetes(here)
    here = replace(here, memory_dir=memory_directory_of(here, is_named=memory_is_named), signed=_is_signed(here))
    require_possible(manifests, here)
    if guard:
        port_guard.require_possible()
    require_same_name(here)
    return here


def _is_signed(here: NodeSettings) -> bool:
    """Return whether the node takes only signed commands: if so set, or if the node is new and SYNCPOD_SIGNED unset."""
    return here.signed or not (kept_settings(here.state_dir).node or os.environ.get(SIGNED.variable))


def _require_kubernetes(here: NodeSettings) -> None:
    """Raise BadInput if the kubeconfig cannot be used, or the node is a fleet's."""
    assert here.kubeconfig is not None
    try:
        require_usable(read_kubeconfig(here.kubeconfig), here.node)
    except KubeconfigInvalid as wrong:
        raise BadInput(f"--kubeconfig: {wrong}") from None
    if read_membership(here.state_dir) is not None:
        raise BadInput(
            "--kubeconfig: the node is part of a fleet; a node is part of a fleet or of a cluster, not of both"
        )


def _require_directory(manifests: Path) -> None:
    """Raise BadInput if the directory of manifests does not exist, or if another account may write to it.

    The worker itself would only log that the directory is missing, and wait for it.
    """
    try:
        is_directory = stat.S_ISDIR(manifests.stat().st_mode)
    except OSError as error:
        raise BadInput(f"manifest directory {manifests}: {error.strerror}") from None
    if not is_directory:
        raise BadInput(f"manifest directory {manifests}: is not a directory")

    try:
        require_own_manifests(manifests)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
