"""A minimal API server: objects in memory with list, watch, patch and delete, over TLS, and faults on request.

It has the features that the node relies on: growing resource versions, watches from a version, bookmarks, merge patches
with a precondition on the version, deletions in two phases, and v1 Statuses.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import ssl
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from syncpod.kernel.memory_file import memory_file
from tests.kubernetes.certificate_authority import authority

TOKEN = "token-of-n1"  # of this server alone
CLUSTER_SCOPED = ("nodes",)
_KINDS = {
    "nodes": "Node",
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "services": "Service",
    "runtimeclasses": "RuntimeClass",
    "clustertrustbundles": "ClusterTrustBundle",
}


@dataclass
class Fault:
    """A fault of the next calls of a kind."""

    method: str
    contains: str
    """A part of the path, or ``watch``."""
    what: str
    """A status code, ``cut`` (half an answer), ``hang``, ``html``."""


@dataclass
class ApiServer:
    """The server. Its methods belong to the loop that it runs in."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The objects by path."""
    calls: Counter[str] = field(default_factory=Counter)
    """The number of calls of each method, such as ``PATCH status``."""
    faults: deque[Fault] = field(default_factory=deque)
    oldest: int = 0
    """A watch from an older version is refused with 410."""
    version: int = 0
    skipped: set[str] = field(default_factory=set)
    """Names of objects whose next change is not sent to watches."""
    drops: set[str] = field(default_factory=set)
    """Fields of a status that the server does not know, and drops."""
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The user of each token, in the form of a TokenReview."""
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    """The permitted requests at the node: user, verb, subresource."""
    reviews: list[dict[str, Any]] = field(default_factory=list)
    """The requested reviews."""
    token: str = TOKEN
    token_requests: list[dict[str, Any]] = field(default_factory=list)
    """The specs of the requested tokens of service accounts."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    url: str = ""
    authorities: bytes = b""
    _log: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _watches: dict[asyncio.Task[Any], web.Request] = field(default_factory=dict)

    # --- what a test does ---------------------------------------------------------------------------------------------

    async def put(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Set an object, and send the change to watches."""
        known = self.objects.get(path)
        self.version += 1
        metadata = {**document.get("metadata", {}), "resourceVersion": str(self.version)}
        new = {**document, "metadata": metadata}
        self.objects[path] = new
        await self._tell("MODIFIED" if known else "ADDED", path, new)
        return new

    async def remove(self, path: str) -> None:
        """Remove an object, and send the change to watches."""
        gone = self.objects.pop(path)
        self.version += 1
        await self._tell(
            "DELETED", path, {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        )

    async def delete_pod(self, name: str, grace: int) -> None:
        """Mark a pod as deleted, as a user's deletion does, so that the node ends it."""
        path = pod_path(name)
        pod = self.objects[path]
        metadata = {
            **pod["metadata"],
            "deletionTimestamp": (datetime.now(UTC) + timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "deletionGracePeriodSeconds": grace,
        }
        await self.put(path, {**pod, "metadata": metadata})

    def cut_watches(self) -> None:
        """Close all running watches."""
        for watch in list(self._watches):
            watch.cancel()

    @property
    def watches(self) -> int:
        """The number of running watches whose clients are still connected."""
        return sum(each.transport is not None for each in self._watches.values())

    def forget_history(self) -> None:
        """Forget all versions before the current one."""
        self.oldest = self.version

    def backup(self) -> tuple[dict[str, dict[str, Any]], int]:
        """All objects as they are now, and their version."""
        return dict(self.objects), self.version

    def restore(self, backup: tuple[dict[str, dict[str, Any]], int]) -> None:
        """Replace the database by an older backup: versions go back, and all watches end."""
        objects, self.version = backup
        self.objects = dict(objects)
        self._log = [each for each in self._log if each[0] <= self.version]
        self.cut_watches()

    # --- what it serves -----------------------------------------------------------------------------------------------

    async def _tell(self, kind: str, path: str, document: dict[str, Any]) -> None:
        if document["metadata"]["name"] in self.skipped:
            self.skipped.discard(document["metadata"]["name"])
            return
        self._log.append((self.version, kind, path, document))
        async with self._news:
            self._news.notify_all()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        if not (_is_node(request) or request.headers.get("Authorization") == f"Bearer {self.token}"):
            return _status(401, "Unauthorized", "no such token")
        path, watches = request.path, request.query.get("watch") == "true"
        kind = "watch" if watches else "status" if path.endswith("/status") else path.split("/")[-1]
        self.calls[f"{request.method} {kind}"] += 1
        if (fault := self._fault(request.method, "watch" if watches else path)) is not None:
            return await _faulty(fault, request)
        if watches:
            return await self._watch(request)
        handlers = {
            "GET": self._get,
            "POST": self._post,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        return await handlers[request.method](request)

    def _fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.method == method and fault.contains in path:
                self.faults.remove(fault)
                return fault
        return None

    async def _get(self, request: web.Request) -> web.StreamResponse:
        if request.path in self.objects:
            return web.json_response(self.objects[request.path])
        if (kind := _KINDS.get(request.path.split("/")[-1])) is not None:
            if kind not in ("Pod", "Service", "RuntimeClass") and not request.query.get("fieldSelector", "").startswith(
                "metadata.name="
            ):
                return _status(403, "Forbidden", "the Node authorizer permits one object by its name")
            items = [each for path, each in self.objects.items() if _selected(request, path)]
            return web.json_response(
                {
                    "apiVersion": "v1",
                    "kind": f"{kind}List",
                    "metadata": {"resourceVersion": str(self.version)},
                    "items": items,
                }
            )
        return _status(404, "NotFound", f"{request.path} not found")

    async def _post(self, request: web.Request) -> web.StreamResponse:
        document = await request.json()
        if request.path.endswith("reviews"):
            return self._review(request.path, document)
        if request.path.endswith("/token"):
            return self._issue(request.path.split("/")[-2], document["spec"])
        metadata = document["metadata"]
        if "generateName" in metadata:
            metadata["name"] = f"{metadata.pop('generateName')}{self.version}"
        path = f"{request.path}/{metadata['name']}"
        if path in self.objects:
            return _status(409, "AlreadyExists", "it exists")
        document["metadata"].setdefault("uid", f"uid-of-{document['metadata']['name']}")
        for name in self.drops & document.get("status", {}).keys():
            del document["status"][name]
        return web.json_response(await self.put(path, document), status=201)

    def _review(self, path: str, document: dict[str, Any]) -> web.StreamResponse:
        spec = document["spec"]
        self.reviews.append(document)
        if path == "/apis/authentication.k8s.io/v1/tokenreviews":
            user = self.users.get(spec["token"])
            status: dict[str, Any] = {"authenticated": True, "user": user} if user else {"user": {}, "error": "unknown"}
        else:
            assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            wanted = spec["resourceAttributes"]
            assert (wanted["resource"], wanted["name"]) == ("nodes", "n1")
            status = {"allowed": (spec["user"], wanted["verb"], wanted["subresource"]) in self.allowed}
        return web.json_response({**document, "status": status}, status=201)

    def _issue(self, account: str, spec: dict[str, Any]) -> web.Response:
        """Issue a token of a service account."""
        self.token_requests.append(spec)
        expires = self.now() + timedelta(seconds=spec.get("expirationSeconds", 3600))
        status = {
            "token": f"token-{len(self.token_requests)}-of-{account}",
            "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return web.json_response({"kind": "TokenRequest", "spec": spec, "status": status}, status=201)

    async def _put(self, request: web.Request) -> web.StreamResponse:
        document = await request.json()
        known = self.objects.get(request.path)
        if known is None:
            return _status(404, "NotFound", "no such object")
        if document["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        return web.json_response(await self.put(request.path, document))

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        assert request.content_type == "application/merge-patch+json"
        path, patch = request.path.removesuffix("/status"), await request.json()
        known = self.objects.get(path)
        if known is None:
            return _status(404, "NotFound", "no such object")
        metadata = patch.get("metadata", {})
        if metadata.get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]:
            return _status(409, "Conflict", "another UID")
        if (
            metadata.get("resourceVersion", known["metadata"]["resourceVersion"])
            != known["metadata"]["resourceVersion"]
        ):
            return _status(409, "Conflict", "the object has been modified")
        if request.path.endswith("/status"):
            status = {name: value for name, value in patch.get("status", {}).items() if name not in self.drops}
            patch = {"status": status}
        return web.json_response(await self.put(path, _merged(known, patch)))

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        known, options = self.objects.get(request.path), await request.json()
        if known is None:
            return _status(404, "NotFound", "no such object")
        if options["preconditions"]["uid"] != known["metadata"]["uid"]:
            return _status(409, "Conflict", "another UID")
        assert options["gracePeriodSeconds"] == 0
        await self.remove(request.path)
        return web.json_response({"kind": "Status", "status": "Success"})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            return _status(410, "Expired", "too old resource version")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        task = asyncio.ensure_future(self._send_events(request, response, since))
        self._watches[task] = request
        task.add_done_callback(self._watches.pop)
        try:
            await task
        except TimeoutError:
            await response.write_eof()
        except asyncio.CancelledError:
            if request.transport is not None:  # it has gone by itself
                request.transport.abort()
        return response

    async def _send_events(self, request: web.Request, response: web.StreamResponse, since: int) -> None:
        async with asyncio.timeout(float(request.query["timeoutSeconds"])):
            while True:
                due = [each for each in self._log if each[0] > since and _selected(request, each[2])]
                for version, kind, _, document in due:
                    await response.write(json.dumps({"type": kind, "object": document}).encode() + b"\n")
                    since = version
                bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.version)}}
                await response.write(json.dumps({"type": "BOOKMARK", "object": bookmark}).encode() + b"\n")
                async with self._news:
                    await self._news.wait()


def _is_node(request: web.Request) -> bool:
    """Whether a client presents a certificate that the cluster issued to the node."""
    connection = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
    shown = connection.getpeercert() if connection is not None else None
    return shown is not None and (("commonName", "system:node:n1"),) in shown.get("subject", ())


def pod_path(name: str) -> str:
    """The path of a pod in namespace default."""
    return f"/api/v1/namespaces/default/pods/{name}"


def object_path(kind: str, name: str) -> str:
    """The path of a ConfigMap or Secret in namespace default."""
    return f"/api/v1/namespaces/default/{kind.lower()}s/{name}"


def given(kind: str, name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap or Secret, as an API server stores it."""
    content = {
        key: base64.b64encode(text.encode()).decode() if kind == "Secret" else text for key, text in data.items()
    }
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "creationTimestamp": "2026-11-01T00:00:00Z",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": str(data)},
        "managedFields": [{"manager": "kubectl", "operation": "Update", "newField": "x"}],
    }
    more = {"type": "Opaque"} if kind == "Secret" else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": content, **more}


def pod(name: str, uid: str = "", **more: Any) -> dict[str, Any]:
    """A pod bound to n1, as an API server stores it."""
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "app", "image": "busybox:1", "command": ["sleep", "1000"]}],
        **more.pop("spec", {}),
    }
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-of-{name}",
        "creationTimestamp": "2026-11-01T00:00:00Z",
        "generation": 1,
        **more.pop("metadata", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Pending"},
        **more,
    }


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[ApiServer]:
    """Serve at a loopback port."""
    server = ApiServer()
    certificate, key = pair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with memory_file((certificate + key).decode()) as path:
        context.load_cert_chain(path)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority().decode())
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.url, server.authorities = f"https://127.0.0.1:{runner.addresses[0][1]}", certificate
    try:
        yield server
    finally:
        server.cut_watches()
        await runner.cleanup()


def write_kubeconfig(path: Path, server: ApiServer, **user: Any) -> Path:
    """A kubeconfig for the node n1."""
    data = base64.b64encode(server.authorities).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "n1"}}],
        "clusters": [{"name": "k", "cluster": {"server": server.url, "certificate-authority-data": data}}],
        "users": [{"name": "n1", "user": user or {"token": TOKEN}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def _faulty(fault: Fault, request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    match fault.what:
        case "hang":
            while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        case "cut":
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.content_length = 1000
            await response.prepare(request)
            await response.write(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[')
            request.transport.abort()
            return response
        case "html":
            return web.Response(text="<html>sign in</html>", content_type="text/html")
        case "empty":
            return web.json_response({})
    headers = {"Retry-After": "1"} if fault.what == "429" else {}
    return _status(
        int(fault.what), {"403": "Forbidden", "429": "TooManyRequests"}.get(fault.what, ""), "a fault", headers
    )


def _status(code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return web.json_response(body, status=code, headers=headers)


def _selected(request: web.Request, path: str) -> bool:
    if request.path.endswith("/runtimeclasses"):
        return path.startswith(request.path)
    if request.path == "/api/v1/services":
        assert request.query["fieldSelector"] == "spec.clusterIP!=None"
        return "/services/" in path
    field, _, value = request.query["fieldSelector"].partition("=")
    if field == "metadata.name":
        return path == f"{request.path}/{value}"
    assert (field, value) == ("spec.nodeName", "n1")
    return "/pods/" in path


def _merged(known: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(known) if isinstance(known, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def pair(common_name: str = "kube-apiserver") -> tuple[bytes, bytes]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), private
