"""``syncpod fleet``: the commands of the machine that a fleet is commanded from."""

from __future__ import annotations

import typer

from syncpod.cli.commands.fleet_certificates import certificates, invite, retire, revoke, rotate
from syncpod.cli.commands.fleet_change import apply, cordon, uncordon
from syncpod.cli.commands.fleet_codec import codec
from syncpod.cli.commands.fleet_cp import cp
from syncpod.cli.commands.fleet_delete import delete
from syncpod.cli.commands.fleet_describe import describe
from syncpod.cli.commands.fleet_drain import drain
from syncpod.cli.commands.fleet_exec import attach, exec_
from syncpod.cli.commands.fleet_explain import explain
from syncpod.cli.commands.fleet_gate import gate
from syncpod.cli.commands.fleet_get import get
from syncpod.cli.commands.fleet_install import install, uninstall
from syncpod.cli.commands.fleet_key import app as key
from syncpod.cli.commands.fleet_logs import logs
from syncpod.cli.commands.fleet_port_forward import port_forward
from syncpod.cli.commands.fleet_remove import remove
from syncpod.cli.commands.fleet_rollout import app as rollout
from syncpod.cli.commands.fleet_serve import serve
from syncpod.cli.commands.fleet_top import app as top
from syncpod.cli.commands.fleet_up import down, up
from syncpod.cli.manual import Group, Page

app = typer.Typer(cls=Group, help="Many nodes as one fleet: what they run, and who is let in.", no_args_is_help=True)
app.command("up", cls=Page)(up)
app.command("down", cls=Page)(down)
app.command("get", cls=Page)(get)
app.command("describe", cls=Page)(describe)
app.command("explain", cls=Page)(explain)
app.command("logs", cls=Page)(logs)
app.command("exec", cls=Page)(exec_)
app.command("attach", cls=Page)(attach)
app.command("port-forward", cls=Page)(port_forward)
app.command("cp", cls=Page)(cp)
app.add_typer(top, name="top")
app.command("apply", cls=Page)(apply)
app.command("delete", cls=Page)(delete)
app.add_typer(rollout, name="rollout")
app.command("cordon", cls=Page)(cordon)
app.command("uncordon", cls=Page)(uncordon)
app.command("drain", cls=Page)(drain)
app.command("remove", cls=Page)(remove)
app.command("serve", cls=Page)(serve)
app.command("gate", cls=Page)(gate)
app.command("codec", cls=Page)(codec)
app.command("install", cls=Page)(install)
app.command("uninstall", cls=Page)(uninstall)
app.command("invite", cls=Page)(invite)
app.command("revoke", cls=Page)(revoke)
app.command("certificates", cls=Page)(certificates)
app.add_typer(key, name="key")
app.command("rotate", cls=Page)(rotate)
app.command("retire", cls=Page)(retire)
