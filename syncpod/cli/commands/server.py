"""``syncpod server``: the Temporal dev server in the foreground."""

from __future__ import annotations

from syncpod.cli.input.options import ServerGuard, ServerPort, ServerUi, ServerUiPort, StateDir


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
    from syncpod.cli.actions.server import run_server

    run_server(state_dir, port=port, ui=ui, ui_port=ui_port, guard=guard)
