"""Runs the Temporal dev server in the foreground, as a child of this process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import say
from syncpod.cli.failure import Failure
from syncpod.cli.machine import dev_server, port_guard
from syncpod.cli.machine.listening_process import listening_ports
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import forget_server, server_log
from syncpod.kernel.service_notification import notify_ready

if TYPE_CHECKING:
    import subprocess

_SETTLED_SECONDS: Final = 30.0
"""Seconds until a started server's worker has probably connected; then memory that only the start needed is freed."""


def run_server(state_dir: str, *, port: int | None, ui: bool, ui_port: int | None, guard: bool) -> None:
    """Run a state directory's server until it ends, or a signal ends it. Raises BadInput.

    Raises Failure if it runs already, does not start, or ends by itself with another exit code than 0.
    """
    here = settings(state_dir=state_dir)
    directory = here.state_dir
    if guard:
        port_guard.require_possible()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM also ends a server that does not serve yet
    record, child = dev_server.start(directory, port=port, ui_port=ui_port, ui=ui, detached=False)
    if child is None:
        raise Failure(
            f"the Temporal server of {directory} runs already, at {record.address} (pid {record.process.pid})"
        )
    page = record.ui or "off"
    try:
        set_rule = port_guard.set_guard if guard else port_guard.renew_guard
        set_rule(here.node, listening_ports(child.pid))
        say(f"Temporal server at {record.address}, UI {page}, state {directory}, log {server_log(directory)}")
        notify_ready()
        code = asyncio.run(_until_ended(child, partial(dev_server.give_back_start_pages, record)))
    except BaseException:  # also the KeyboardInterrupt of a signal that comes before the loop handles signals
        child.terminate()
        child.wait()
        forget_server(directory)
        raise
    forget_server(directory)
    if code not in (0, -signal.SIGTERM):
        raise Failure(f"the Temporal server ended with {code}; its log is {server_log(directory)}")


async def _until_ended(child: subprocess.Popen[bytes], settled: Callable[[], None]) -> int:
    """Return the child's exit code; end it on SIGINT and SIGTERM. Calls `settled` once it has served for a while.

    Another thread waits for the child, since a main thread blocked in waitpid could miss a signal. The event loop is
    woken by each signal, whichever thread the kernel delivers it to.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, child.terminate)
    loop.call_later(_SETTLED_SECONDS, settled)
    return await asyncio.to_thread(child.wait)
