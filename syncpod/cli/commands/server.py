"""``syncpod server``: the Temporal dev server in the foreground."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import Failure
from syncpod.cli.input.options import ServerGuard, ServerPort, ServerUi, ServerUiPort, StateDir

if TYPE_CHECKING:
    pass


def server(
    state_dir: StateDir = "",
    port: ServerPort = None,
    ui: ServerUi = False,
    ui_port: ServerUiPort = None,
    guard: ServerGuard = False,
) -> None:
    """Run the Temporal dev server until Ctrl-C.

    Its settings are chosen for pods; its data is kept in the state directory.
    The rule of `syncpod up --guard`, if there is one, is set anew for its ports.
    """
    import asyncio

    from syncpod.cli.machine import dev_server, port_guard
    from syncpod.cli.machine.listening_process import listening_ports
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.state_directory import forget_server, server_log
    from syncpod.kernel.service_notification import notify_ready

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
    from syncpod.cli.actions.server import until_ended

    try:
        set_rule = port_guard.set_guard if guard else port_guard.renew_guard
        set_rule(here.node, listening_ports(child.pid))
        say(f"Temporal server at {record.address}, UI {page}, state {directory}, log {server_log(directory)}")
        notify_ready()
        code = asyncio.run(until_ended(child, partial(dev_server.give_back_start_pages, record)))
    except BaseException:  # also the KeyboardInterrupt of a signal that comes before the loop handles signals
        child.terminate()
        child.wait()
        forget_server(directory)
        raise
    forget_server(directory)
    if code not in (0, -signal.SIGTERM):
        raise Failure(f"the Temporal server ended with {code}; its log is {server_log(directory)}")
