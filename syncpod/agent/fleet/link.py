"""Links a node to its fleet: runs a second Temporal worker, which polls the node's queue at the fleet's server.

The node does not depend on the link. While the fleet's server does not answer, or refuses the node, the link retries,
and the node runs the pods of the fleet's last list.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode, TLSConfig
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker

from syncpod.agent.background import cancel_all
from syncpod.agent.fleet.contact import Contact
from syncpod.agent.fleet.member import FleetMembership
from syncpod.agent.fleet.remote_commands import MOST
from syncpod.agent.server_outage import ANOTHER_SERVER
from syncpod.kernel.os_errors import where_and_why
from syncpod.messages.fleet import MACHINE_HEADER, dismissal, fleet_node_id, used_elsewhere
from syncpod.messages.node import NodeView
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import machine_proof, read_membership
from syncpod.settings.values import SettingsInvalid
from syncpod.temporal.plugin import NoServer, connect
from syncpod.temporal.sealed_questions import RefusesUnsealed
from syncpod.temporal.sealing import FleetKey, fleet_converter, node_codec

log = logging.getLogger(__name__)
log_of_fleet = logging.getLogger(ANOTHER_SERVER)
"""The logger for errors of the fleet's server: they must not count as an outage of the node's own server."""

WORKER_STOPPED: Final = "the node's worker was stopped in order: `syncpod up` on the node starts it"
LEFT: Final = "the node has left the fleet"
"""The reasons that a node sends before it loses contact on purpose: this one, or `WORKER_STOPPED`."""
LOOK_SECONDS: Final = 2.0
"""Seconds between two checks whether the node has joined or left a fleet."""
SLOTS: Final = 8 + 2 * MOST
"""The most concurrent activities: the fleet's requests, and two for each command that runs for the fleet."""
_RETRY_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
_GRACE: Final = timedelta(seconds=2)
_THROTTLE: Final = timedelta(seconds=1)
"""The longest time between two heartbeats. The SDK's default, most of a heartbeat's timeout, is too long on a slow
link."""
_CONTACT_SECONDS: Final = 5.0
"""Seconds between two health checks of the fleet's server."""
_HEALTH: Final = timedelta(seconds=5)
_LISTED_AGAIN_SECONDS: Final = 10.0
"""Seconds between two checks that the node's workflow has the fleet's list."""
_SILENT_SECONDS: Final = 20.0
"""Seconds without an answer after which the fleet's silence is logged."""
_OTHER_NAME: Final = "NotValidForName"
"""Part of the SDK's error if a gate's certificate is not valid for the requested name."""
_USED_ELSEWHERE: Final = used_elsewhere("").partition(":")[0]
"""The start of the gate's refusal of an invitation that another machine uses."""
_DISMISSED_SECONDS: Final = 60.0
"""Seconds until a removed node checks again whether it is still removed. A new invitation is noticed at once."""

ToFleet = Callable[[Invitation, FleetKey], Awaitable[Client]]
"""Connects to the fleet's server with an invitation and the fleet's key. Raises NoServer."""


class Dismissed(Exception):
    """The node was removed from its fleet; the text is the fleet's message."""


class FleetLink:
    """Keeps the node linked to the fleet of the invitation in its state directory, if there is one."""

    def __init__(
        self,
        state_dir: Path,
        node: str,
        contact: Contact,
        member: Callable[[Invitation], FleetMembership],
        answers: Callable[[FleetMembership], Sequence[Callable[..., Any]]],
        *,
        view: Callable[[], Awaitable[NodeView | None]],
        to_fleet: ToFleet,
    ) -> None:
        """Link the node with these parts.

        `contact` records contact with the fleet. `member` returns the node's membership for an invitation, and
        `answers` the membership's activities. `view` queries the node's own workflow. `to_fleet` connects to the
        fleet's server.
        """
        self._state_dir, self._node = state_dir, node
        self._contact, self._member, self._answers = contact, member, answers
        self._view, self._to_fleet = view, to_fleet
        self._trouble = ""

    async def run(self) -> None:
        """Serve the fleet of the invitation until cancelled. A node may join and leave a fleet while it runs."""
        while True:
            invitation = await self._invitation()
            if invitation is None:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            member, key = self._member(invitation), FleetKey(invitation.fleet_key)
            serving = asyncio.create_task(self._serve(invitation, member, key), name="fleet link")
            parting = WORKER_STOPPED
            try:
                while not serving.done():
                    found = await self._invitation()
                    if found is None or replace(found, fleet_key=invitation.fleet_key) != invitation:
                        parting = LEFT if found is None else ""
                        break
                    if found.fleet_key != key.pem:  # the fleet has changed its key: commands under way continue
                        key.pem = found.fleet_key
                        member.trust(found)
                    await asyncio.wait({serving}, timeout=LOOK_SECONDS)
            finally:
                if parting:
                    await member.part(parting)
                await cancel_all((serving,))

    async def _invitation(self) -> Invitation | None:
        """Return the node's invitation; None if there is none, or if it is invalid, which is logged once."""
        try:
            invitation = await asyncio.to_thread(read_membership, self._state_dir)
        except (SettingsInvalid, OSError) as wrong:
            self._warn(where_and_why(wrong))
            return None
        if invitation is not None and invitation.node != self._node:
            self._warn(f"the invitation is ignored: it is for node {invitation.node}, and this is node {self._node}")
            return None
        return invitation

    async def _serve(self, invitation: Invitation, member: FleetMembership, key: FleetKey) -> None:
        """Serve one fleet until cancelled. `key` holds the fleet's current key, which may change."""
        reporting = [
            asyncio.create_task(self._keep_listed(member), name="fleet list"),
            asyncio.create_task(self._mind_silence(member), name="fleet silence"),
        ]
        failures = 0
        try:
            while True:
                try:
                    await self._poll(invitation, member, key)
                except (NoServer, RPCError, RuntimeError) as error:
                    self._warn(f"fleet {invitation.fleet} at {invitation.address}: {error}")
                except Dismissed as why:
                    self._warn(f"fleet {invitation.fleet} at {invitation.address}: {why}")
                    await self._end_all(member)
                    await asyncio.sleep(_DISMISSED_SECONDS)
                await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1
        finally:
            await cancel_all(reporting)

    async def _poll(self, invitation: Invitation, member: FleetMembership, key: FleetKey) -> None:
        """Poll the node's queue at the fleet's server. Raises NoServer, RPCError, RuntimeError."""
        client = await self._to_fleet(invitation, key)
        queue = fleet_node_id(self._node)
        worker = Worker(
            client,
            task_queue=queue,
            identity=queue,
            activities=self._answers(member),
            interceptors=[RefusesUnsealed()],
            max_concurrent_activities=SLOTS,
            activity_task_poller_behavior=PollerBehaviorSimpleMaximum(2),
            graceful_shutdown_timeout=_GRACE,
            max_heartbeat_throttle_interval=_THROTTLE,
            disable_eager_activity_execution=True,
        )
        log.info("linked to fleet %s at %s", invitation.fleet, invitation.address)
        self._trouble = ""
        hearing = asyncio.create_task(self._record_contact(client, invitation), name="fleet contact")
        working = asyncio.create_task(worker.run(), name="fleet worker")
        try:
            done, _ = await asyncio.wait({working, hearing}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await cancel_all((working, hearing))

    async def _record_contact(self, client: Client, invitation: Invitation) -> None:
        """Check regularly that the fleet's server answers, and record contact. Raises Dismissed, NoServer."""
        where, loop, is_silent = f"fleet {invitation.fleet} at {invitation.address}", asyncio.get_running_loop(), False
        answered_at = loop.time()
        while True:
            try:
                await client.service_client.check_health(timeout=_HEALTH)
            except RPCError as error:
                require_not_dismissed(error, self._node)
                if _OTHER_NAME in error.message:
                    raise NoServer("its gate was replaced by one of an older version") from error
                if not is_silent and loop.time() - answered_at > _SILENT_SECONDS:
                    is_silent = True
                    log_of_fleet.warning(
                        "%s does not answer, or does not let this node in: %s", where, error.message[:200]
                    )
            else:
                if is_silent:
                    log_of_fleet.info("%s answers again", where)
                answered_at, is_silent = loop.time(), False
                await asyncio.to_thread(self._contact.note_contact)
            await asyncio.sleep(_CONTACT_SECONDS)

    async def _end_all(self, member: FleetMembership) -> None:
        """End the fleet's pods on this node, since the fleet has removed the node and counts them as gone."""
        try:
            await member.dismiss()
        except Exception as error:  # noqa: BLE001  # any error of the server or the disk: it is tried again
            log.warning("the order to end the fleet's pods cannot be sent to the node's workflow: %s", error)

    async def _mind_silence(self, member: FleetMembership) -> None:
        """Stop the pods that must not run without the fleet; check every `LOOK_SECONDS`."""
        while True:
            try:
                await member.mind_silence()
            except Exception as error:  # noqa: BLE001  # any error of the server or the disk: it is tried again
                log.warning("the stop of the fleet's pods cannot be sent to the node's workflow: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _keep_listed(self, member: FleetMembership) -> None:
        """Make sure that the node's own workflow has the fleet's list, even while the fleet cannot be reached."""
        while True:
            try:
                await member.send_again(await self._view())
            except Exception as error:  # noqa: BLE001  # any error of the server or the disk: it is tried again
                log.warning("the fleet's list cannot be sent to the node's workflow: %s", error)
            await asyncio.sleep(_LISTED_AGAIN_SECONDS)

    def _warn(self, trouble: str) -> None:
        """Log a problem of the link, if it has changed."""
        if trouble != self._trouble:
            log_of_fleet.warning("the link to the fleet: %s", trouble)
        self._trouble = trouble


def require_not_dismissed(error: BaseException | None, node: str) -> None:
    """Raise Dismissed if the gate has refused a call because the node was removed from the fleet.

    Only the gate itself can send this error: its certificate was checked, and it removes the text from errors that it
    forwards.
    """
    is_refused = isinstance(error, RPCError) and error.status == RPCStatusCode.FAILED_PRECONDITION
    if is_refused and str(error) == dismissal(node):
        raise Dismissed(dismissal(node))


def to_gate(state_dir: Path) -> ToFleet:
    """Return a function that connects to a fleet's gate with the node's certificate; it may also raise Dismissed.

    The gate identifies the machine by a secret in the state directory.
    """

    @cache
    def runtime() -> Runtime:
        # A separate runtime: the SDK's log lines do not name the server, and must not look like the node's outage.
        forwarding = LogForwardingConfig(logger=logging.getLogger("syncpod.fleet.sdk"))
        filtered = TelemetryFilter(core_level="ERROR", other_level="ERROR")
        return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=filtered, forwarding=forwarding)))

    async def connect_as(invitation: Invitation, key: FleetKey, name: str) -> Client:
        tls = TLSConfig(
            server_root_ca_cert=invitation.authorities.encode(),
            domain=name,
            client_cert=invitation.certificate.encode(),
            client_private_key=invitation.key.encode(),
        )
        settings: ClientConnectConfig = {
            "target_host": invitation.address,
            "namespace": invitation.namespace,
            "tls": tls,
            "rpc_metadata": {MACHINE_HEADER: await asyncio.to_thread(machine_proof, state_dir, invitation)},
        }
        return await connect(
            settings=settings,
            runtime=runtime(),
            identity=fleet_node_id(invitation.node),
            converter=fleet_converter(node_codec(invitation.key, key)),
        )

    async def through_gate(invitation: Invitation, key: FleetKey) -> Client:
        from syncpod.gate.hello import hello_name
        from syncpod.gate.invitation_check import require_fitting  # imported late: 8 MiB, which most workers never need

        try:
            serial = require_fitting(invitation)
        except SettingsInvalid as wrong:
            raise NoServer(f"the invitation cannot be used: {wrong}") from wrong
        try:
            try:
                return await connect_as(invitation, key, hello_name(serial, invitation.server_name))
            except NoServer as error:
                if _OTHER_NAME not in str(error.__cause__):
                    raise
                return await connect_as(invitation, key, invitation.server_name)  # a gate of an older version
        except ValueError as wrong:
            raise NoServer(f"the invitation cannot be used: {wrong}") from wrong
        except OSError as error:
            raise NoServer(f"the secret of this machine cannot be kept: {where_and_why(error)}") from error
        except NoServer as error:
            require_not_dismissed(error.__cause__, invitation.node)
            raise NoServer(f"its gate does not let this node in, or cannot be reached ({_cause(error)})") from error

    return through_gate


def _cause(error: NoServer) -> str:
    """Return the SDK's or the gate's reason, without NoServer's advice, which is for the node's own server."""
    text = str(error.__cause__ or error)
    if (at := text.find(_USED_ELSEWHERE)) >= 0:
        return text[at:].partition('"')[0]
    for sign, meaning in (
        ("fleet's server cannot be reached", "the fleet's server behind it is away"),
        ("ConnectionRefused", "connection refused"),
        ("CertificateExpired", "the node's certificate has expired: invite the node anew"),
        ("InvalidCertificate(Expired", "the gate's own certificate has expired, or this machine's clock is fast"),
        ("InvalidCertificate(NotValidYet", "the gate's own certificate is not valid yet: this machine's clock is slow"),
        ("certificate", "a certificate is not accepted"),
        ("dns error", "the name cannot be resolved"),
    ):
        if sign in text:
            return meaning
    return text[:200]
