"""``up --guard``: a rule of the kernel's packet filter that lets only the owner and root connect to a server's ports.

The rule is an nftables table of its own, ``inet syncpod-<node>``. No file records it: commands find it by its name,
even after a kill -9 of everything, and replace it as a whole. The kernel forgets it at a reboot.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import Final

from syncpod.cli.failure import BadInput, Failure
from syncpod.kernel.os_errors import sentence_of

_FAMILY: Final = "inet"
_PATIENCE_SECONDS: Final = 10.0


def table_name(node: str) -> str:
    """Return the name of a node's table."""
    return f"syncpod-{node}"


def ruleset(node: str, ports: Iterable[int], owners: Iterable[int]) -> str:
    """Return the input of ``nft -f``: one transaction that replaces the node's table.

    Connections over the loopback to these ports are refused unless the socket's user is one of `owners`. A pod with its
    own network cannot reach the ports; a pod with the host's network is treated as its user, so root passes.
    """
    name, among = f"{_FAMILY} {table_name(node)}", ", ".join(map(str, sorted(set(ports))))
    users = ", ".join(map(str, sorted(set(owners))))
    return f"""table {name} {{ }}
delete table {name}
table {name} {{
  chain output {{
    type filter hook output priority filter; policy accept;
    oifname "lo" tcp dport {{ {among} }} meta skuid != {{ {users} }} reject with tcp reset
  }}
}}
"""


def require_possible() -> None:
    """Raise BadInput where no such rule can be set, before anything is started."""
    if os.geteuid() != 0:
        raise BadInput("--guard: only root can set a rule in the packet filter")
    if shutil.which("nft") is None:
        raise BadInput("--guard: the program nft is missing: install nftables, or leave --guard out")
    done = _nft("list", "tables")
    if done.returncode != 0:
        raise BadInput(f"--guard: the kernel's packet filter cannot be used: {_failure_reason(done)}")


def is_set(node: str) -> bool:
    """Return whether the node's table exists; False if this user is not root, or nft is not installed."""
    if os.geteuid() != 0 or shutil.which("nft") is None:
        return False
    return _nft("list", "table", _FAMILY, table_name(node)).returncode == 0


def set_guard(node: str, ports: Sequence[int]) -> None:
    """Set the node's rule for these ports, in place of an earlier one. Raises Failure."""
    if not ports:
        raise Failure("--guard: the Temporal server listens at no port")
    done = _nft("-f", "-", given=ruleset(node, ports, (0, os.geteuid())))
    if done.returncode != 0:
        raise Failure(f"--guard: the rule cannot be set: {_failure_reason(done)}")


def renew_guard(node: str, ports: Sequence[int]) -> None:
    """Replace the node's rule, if it has one, since a restarted server may have other ports. Raises Failure."""
    if is_set(node):
        set_guard(node, ports)


def remove_guard(node: str) -> bool:
    """Remove the node's rule; return whether there was one. Raises Failure."""
    if not is_set(node):
        return False
    done = _nft("delete", "table", _FAMILY, table_name(node))
    if done.returncode != 0:
        raise Failure(f"the table {_FAMILY} {table_name(node)} of nftables cannot be removed: {_failure_reason(done)}")
    return True


def _nft(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run nft. Raises Failure if it does not end."""
    try:
        return subprocess.run(
            ("nft", *arguments), input=given, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"nft cannot be run: {sentence_of(error)}") from None


def _failure_reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return why nft failed, in its own words."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[0].removeprefix("Error: ") if lines else f"nft ended with exit code {done.returncode}"
