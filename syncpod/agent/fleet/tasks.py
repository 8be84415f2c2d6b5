"""Sets up the link to the node's fleet. A node may also join a fleet while it runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from temporalio.client import Client

from syncpod.agent.agent import Agent
from syncpod.agent.fleet.contact import Contact
from syncpod.agent.fleet.link import FleetLink, ToFleet
from syncpod.agent.fleet.listener import ListenerProcess
from syncpod.agent.fleet.member import FleetMembership
from syncpod.agent.fleet.objects import FleetObjects
from syncpod.agent.fleet.received_key import fleet_key_id
from syncpod.agent.fleet.remote_commands import RemoteCommands
from syncpod.agent.fleet.reports import FleetReports
from syncpod.agent.fleet.runtime_facts import RuntimeFacts
from syncpod.agent.node_workflow.node_signals import NodeSignals
from syncpod.agent.own_commands import command_environment
from syncpod.agent.pod_workflows import PodWorkflows
from syncpod.messages.identity import node_task_queue
from syncpod.objects import ObjectStore
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import read_earlier_fleet_keys, read_earlier_keys
from syncpod.translation.context import NodeContext


def add_fleet_link(
    agent: Agent,
    client: Client,
    context: NodeContext,
    answers: Callable[[FleetMembership], Sequence[Callable[..., Any]]],
    to_fleet: Callable[[Path], ToFleet],
    runtime: str,
    facts: RuntimeFacts,
) -> None:
    """Keep the node linked to its fleet for as long as the agent runs.

    `client` is connected to the node's own server. `answers` returns the activities of a membership. `to_fleet` returns
    a function that connects to the fleet's server. `runtime` is the runtime's address; the node reports `facts` about
    the runtime.
    """
    signals = NodeSignals(client, context.name, agent.guard.require, agent.has_search_attributes)
    workflows, contact = PodWorkflows(client, node_task_queue(context.name)), Contact(context.state_dir)
    environment = command_environment(
        os.environ,
        address=client.service_client.config.target_host,
        namespace=client.namespace,
        state_dir=context.state_dir,
        log_dir=context.log_dir,
    )
    remote_commands = RemoteCommands(context.name, environment)
    listener = ListenerProcess(context.state_dir, context.name, runtime, environment)

    def member(invitation: Invitation) -> FleetMembership:
        store = ObjectStore(context.state_dir, context.memory_dir)
        earlier = read_earlier_keys(context.state_dir), read_earlier_fleet_keys(context.state_dir)
        objects = FleetObjects(invitation, store, *earlier)
        key_id = fleet_key_id(invitation)
        reports = FleetReports(
            agent.published_pods, context.name, lambda: listener.address, objects.key_id, key_id, facts
        )
        return FleetMembership(
            invitation,
            context.state_dir,
            reports,
            contact=contact,
            remote_commands=remote_commands,
            objects=objects,
            tell=signals.sync_pods,
            open_pods=workflows.open,
        )

    link = FleetLink(
        context.state_dir,
        context.name,
        contact,
        member,
        answers,
        view=signals.view,
        to_fleet=to_fleet(context.state_dir),
    )
    agent.add_background_task("fleet", link.run)
    agent.add_background_task("commands for the fleet", remote_commands.run)
    agent.add_background_task("endpoint for the fleet", listener.run)
