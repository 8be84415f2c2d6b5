"""Connects a command to Temporal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from pydantic import ValidationError
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.console import remark, waiting
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.listening_process import listens, somebody_listens
from syncpod.cli.machine.settings import kept_settings, settings
from syncpod.cli.machine.state_directory import full_disk, note_server, recorded_server, running_server
from syncpod.messages.encryption import Undecipherable
from syncpod.pod.model_errors import first_problem
from syncpod.settings.values import SettingsInvalid
from syncpod.settings.worker_record import serving, serving_at
from syncpod.signing.keys import EncryptingKeys, read_signing_keys
from syncpod.temporal import plugin
from syncpod.temporal.plugin import DEFAULT_ADDRESS, NoServer, connection_settings
from syncpod.temporal.sdk_runtimes import quiet_runtime

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.envconfig import ClientConnectConfig

    from syncpod.messages.signature import Keys
    from syncpod.settings.node import NodeSettings

_Result = TypeVar("_Result")

_ADDRESS: Final = "TEMPORAL_ADDRESS"
_UNKNOWN_ENCODING: Final = "Unknown payload encoding"
"""The beginning of the SDK's KeyError for a payload that none of our converters reads."""
_NAMED: Final = (
    f" ({_ADDRESS} names this one, perhaps from an earlier `syncpod env`: `unset {_ADDRESS}`, and `syncpod up` starts "
    "a server of its own)"
)
"""A further sentence if the variable names a server that does not answer: as long as it is set, `up` starts no
server."""


def connection(state_dir: str = "", *, begun_by: str = "syncpod up") -> ClientConnectConfig:
    """Return where to connect: as configured for the ``temporal`` CLI, else to the state directory's own dev server.

    The default port is never assumed: another user's server, with other pods, may listen there. Raises BadInput if
    there is neither, with the command that starts a server (`begun_by`), or if the configuration cannot be read.
    """
    directory = settings(state_dir=state_dir).state_dir
    try:
        config = connection_settings(default_address="")
    except NoServer as error:
        raise BadInput(str(error)) from None
    if not config["target_host"]:
        config["target_host"] = _own_address(directory, begun_by)
    return config


def _own_address(directory: Path, begun_by: str) -> str:
    own = running_server(directory)
    if own is not None and listens(own.process.pid, own.address):
        return own.address

    sentence = (
        f"no Temporal server of yours runs in {directory}: start one with `{begun_by}`, or name one in TEMPORAL_ADDRESS"
    )
    if (worker := serving(directory)) is not None:
        sentence += f" (the one that your worker serves: TEMPORAL_ADDRESS={worker.address})"
    elif (kept := kept_settings(directory)).cluster:
        before = recorded_server(directory)
        if before is None or before.address != kept.address:
            sentence += f" (the one that node {kept.node} was started with: TEMPORAL_ADDRESS={kept.address})"
    elif somebody_listens(DEFAULT_ADDRESS):
        sentence += f" (if the one at {DEFAULT_ADDRESS} is yours: TEMPORAL_ADDRESS={DEFAULT_ADDRESS})"
    raise BadInput(sentence)


async def connect(
    config: ClientConnectConfig, state_dir: Path | None = None, on_namespace: Callable[[str], None] = lambda _: None
) -> Client:
    """Connect to the Temporal server; commands are signed with the key of a state directory, if it has one.

    They are encrypted too if the directory's node was started with encryption, or SYNCPOD_ENCRYPT is set. `state_dir`
    None = this user's. `on_namespace` is called with the id of the server's namespace, unless the directory's worker
    serves that namespace: then nothing is requested of the server. Raises BadInput if no server answers or it lacks the
    namespace, and for an invalid key.
    """
    here = settings(state_dir=str(state_dir or ""))
    keys = keys_of(here)
    address, patience = config["target_host"], plugin.ANSWER_TIMEOUT.total_seconds()
    is_served = serving_at(here.state_dir, address, config["namespace"]) is not None
    if is_served:
        note_server(here.state_dir, address, is_own=True)
    try:
        with waiting(f"waiting up to {patience:g} s for the Temporal server at {address} to answer"):
            return await plugin.connect(
                settings=config,
                keys=keys,
                identity=who(),
                runtime=quiet_runtime(),
                on_namespace=None if is_served else on_namespace,
            )
    except plugin.NoServer as error:
        stale = _NAMED if _is_unreachable(error) and os.environ.get(_ADDRESS) == config["target_host"] else ""
        raise BadInput(f"{error}{stale}") from None


def who() -> str:
    """Return who runs which command: `syncpod delete, root@vm, pid 27711`. Events that the command causes show it."""
    command = next((each for each in sys.argv[1:] if not each.startswith("-")), "")
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    return f"syncpod {command}".rstrip() + f", {user}@{socket.gethostname()}, pid {os.getpid()}"


def _is_unreachable(error: NoServer) -> bool:
    """Return whether nothing answered, rather than a server without the namespace."""
    return not isinstance(error.__cause__, RPCError)


def keys_of(here: NodeSettings) -> Keys | None:
    """Return the keys of a state directory, which encrypt if its node does; None if this user has none.

    Raises BadInput if a file holds no valid key.
    """
    try:
        keys = read_signing_keys(here.state_dir)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    return EncryptingKeys(keys) if keys is not None and here.encrypt else keys


def signs(client: Client) -> bool:
    """Return whether a client of ours signs its commands: whether this user has a key."""
    return client.data_converter.payload_codec is not None


def run(work: Callable[[Client], Awaitable[_Result]], *, state_dir: str = "") -> _Result:
    """Connect, do the work and return its result. Raises Failure if the server refuses a call."""
    return run_on(connection(state_dir), work, settings(state_dir=state_dir).state_dir)


def run_on(
    config: ClientConnectConfig, work: Callable[[Client], Awaitable[_Result]], state_dir: Path | None = None
) -> _Result:
    """As `run`, but on the server of `config`, with the key of `state_dir`; None = this user's directory."""
    with Session(config, state_dir) as session:
        return session.run(work)


class Session:
    """A connection for several pieces of work, one after the other; it is opened for the first one."""

    def __init__(self, config: ClientConnectConfig, state_dir: Path | None = None) -> None:
        """Use the server of `config`, with the key of `state_dir`; None = this user's directory."""
        self._config, self._state_dir = config, state_dir
        self._runner = asyncio.Runner()
        self._client: Client | None = None

    def __enter__(self) -> Self:
        """Return the session; the end of the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._runner.close()

    @property
    def server(self) -> tuple[str, str]:
        """The server's address, and the namespace."""
        if self._client is None:
            return self._config["target_host"], self._config["namespace"]
        return address_of(self._client), self._client.namespace

    def run(self, work: Callable[[Client], Awaitable[_Result]]) -> _Result:
        """Do the work and return its result. Raises Failure if the server refuses a call."""

        async def connected() -> _Result:
            if self._client is None:
                note = partial(_note_another_server, self._config["target_host"], self._state_dir)
                self._client = await connect(self._config, self._state_dir, note)
            return await work(self._client)

        with _plainly(self.server[0]):
            return self._runner.run(connected())


@contextlib.contextmanager
def _plainly(address: str) -> Iterator[None]:
    """Raise Failure, with a sentence, if the server there refuses a call, or an answer cannot be read."""
    try:
        yield
    except RPCError as error:
        raise refused(error, address) from None
    except Undecipherable as error:
        raise Failure(str(error)) from None
    except KeyError as error:
        if not str(error.args[0]).startswith(_UNKNOWN_ENCODING):
            raise
        raise _unreadable(str(error.args[0])) from None
    except ValidationError as error:
        raise _unreadable(str(first_problem(error))) from None
    except ValueError as error:
        if WorkflowExecutionStatus.__name__ not in str(error):
            raise
        # The SDK lacks the state "paused", and raises this for each such workflow.
        raise Failure(
            "a workflow is neither running nor ended: perhaps it is paused (`temporal workflow unpause` resumes it)"
        ) from None


def _unreadable(why: str) -> Failure:
    """Return the failure to read an answer: anybody who polls the task queue of a workflow may answer for it."""
    return Failure(
        f"the answer of a workflow cannot be read: {why}; perhaps a worker of another version answers, or somebody "
        "else's"
    )


def _note_another_server(address: str, state_dir: Path | None, namespace_id: str) -> None:
    """Print a note if the namespace of this id is not the one that the state directory's node belongs to.

    Another server may answer now at the address of the node's server, or the user may have named one. Without the note,
    the output would mislead: it shows another cluster's pods, and the node's pods seem to be gone.
    """
    directory = state_dir or settings().state_dir
    kept = kept_settings(directory)
    is_own = not kept.cluster or kept.cluster.rpartition("/")[2] == namespace_id
    note_server(directory, address, is_own=is_own)
    if is_own:
        return
    if kept.address == address:
        remark(
            f"Note: the Temporal server at {address} is not the one that has the pods of node {kept.node}: what "
            "follows is not about this node; start that server again, or name it in TEMPORAL_ADDRESS"
        )
        return
    named, use = "the Temporal configuration", f"{_ADDRESS}={kept.address}"
    if os.environ.get(_ADDRESS) == address:
        named = f"{_ADDRESS}, perhaps from the `syncpod env` of another node,"
        own = running_server(directory)
        use = f"`unset {_ADDRESS}`" if own is not None and own.address == kept.address else use
    remark(
        f"Note: {named} names the Temporal server at {address}, and node {kept.node} of {directory} has its pods on "
        f"the one at {kept.address}: what follows is not about this node; {use} leads there"
    )


def address_of(client: Client) -> str:
    """Return the address of the server that a client is connected to."""
    return client.service_client.config.target_host


def refused(error: RPCError, address: str) -> Failure:
    """Return the failure of a call that the server at this address refused, or did not answer."""
    sentences = {
        RPCStatusCode.PERMISSION_DENIED: "does not permit that",
        RPCStatusCode.UNAUTHENTICATED: "does not accept your credentials",
        RPCStatusCode.RESOURCE_EXHAUSTED: "has too much to do; try again later",
    }
    sentence = f"the Temporal server at {address} {sentences.get(error.status, 'fails')}"
    return Failure(f"{sentence}: {error.message or error.status.name}{_full_disk_of_own_server()}")


def _full_disk_of_own_server() -> str:
    """Return a clause about a full disk if this machine's own server runs on one."""
    try:
        directory = settings().state_dir
    except BadInput:  # invalid settings here do not concern a server elsewhere
        return ""
    full = full_disk(directory) if running_server(directory) is not None else ""
    return f"; {full}" if full else ""
