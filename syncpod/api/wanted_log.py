"""Parses a request for a container's log: which instance's log, and how much of it, with the kubelet's error texts.

Pure. Mirrors v1.PodLogOptions with validation.ValidatePodLogOptions, and pkg/kubelet/kubelet_pods.go,
validateContainerLogStatus, v1.36. Difference: `stream` is always accepted; a kubelet accepts it only behind a feature
gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from syncpod.api.messages import Request
from syncpod.api.statuses import ApiError

_STREAMS: Final = {"": "", "All": "", "Stdout": "stdout", "Stderr": "stderr"}
_UNDECODABLE: Final = '{"message": "Unable to decode query."}'
_INVALID: Final = '{"message": "Invalid request."}'
_KINDS: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_SPECS: Final = ("containers", "initContainers", "ephemeralContainers")
_WHY_NO_IMAGE: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


@dataclass(frozen=True)
class WantedLog:
    """The options of a request for a log. None = not limited."""

    follow: bool
    previous: bool
    timestamps: bool
    since: datetime | None
    tail: int | None
    limit_bytes: int | None
    stream: str
    """``stdout`` or ``stderr``; "" = both."""


def wanted_log(asked: Request, now: datetime) -> WantedLog:
    """Return the options of a request. Raises ApiError for invalid ones."""
    tail_word = asked.one("tail")
    tail = None if tail_word == "all" else _whole(tail_word or asked.one("tailLines"))
    since_seconds, since_text = _whole(asked.one("sinceSeconds")), asked.one("sinceTime")
    limit, stream = _whole(asked.one("limitBytes")), asked.one("stream")
    is_wrong = (
        (tail is not None and tail < 0)
        or (limit is not None and limit < 1)
        or (since_seconds is not None and (since_seconds < 1 or since_text))
        or stream not in _STREAMS
        or (_STREAMS[stream] and tail is not None)
    )
    if is_wrong:
        raise ApiError(422, _INVALID)
    since = _time(since_text)
    if since_seconds is not None:
        since = _ago(now, since_seconds)
    return WantedLog(
        follow=_is_set(asked, "follow"),
        previous=_is_set(asked, "previous"),
        timestamps=_is_set(asked, "timestamps"),
        since=since,
        tail=tail,
        limit_bytes=limit,
        stream=_STREAMS[stream],
    )


def _is_set(asked: Request, name: str) -> bool:
    """Return a switch as apimachinery reads it: true unless it is ``false`` or ``0``."""
    values = asked.query.get(name, ())
    return bool(values) and values[0].lower() not in ("false", "0")


def _whole(text: str) -> int | None:
    if not text:
        return None
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise ApiError(400, _UNDECODABLE)
    return int(text)


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ApiError(400, _UNDECODABLE) from None
    if at.tzinfo is None:
        raise ApiError(400, _UNDECODABLE)
    return at


def _ago(now: datetime, seconds: int) -> datetime | None:
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        return None  # before the earliest time that Python has


def require_container(pod: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    """Return the container's part of the pod's spec. Raises ApiError if there is none."""
    spec = pod.get("spec") or {}
    for kind in _SPECS:
        for each in spec.get(kind) or ():
            if each.get("name") == container:
                return dict(each)
    raise ApiError(404, f'container "{container}" not found in pod "{pod["metadata"]["name"]}"')


@dataclass(frozen=True)
class LoggedInstance:
    """An instance of a container that has a log."""

    id: str
    """The id in the pod's status: ``containerd://…``."""
    restart: int
    """Its restart number, derived from the status."""


def instance(pod: Mapping[str, Any], container: str, *, previous: bool) -> LoggedInstance:
    """Return the instance whose log is requested. Raises ApiError, with the kubelet's text, if it has no log."""
    named = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    status = _status_of(pod, container)
    if status is None:
        raise ApiError(400, f"{named} is not available")
    last = (status.get("lastState") or {}).get("terminated") or {}
    state = status.get("state") or {}
    restart = int(status.get("restartCount") or 0)
    if previous:
        if not last.get("containerID"):
            raise ApiError(400, f"previous terminated {named} not found")
        return _instance(status, last["containerID"], restart)
    if "running" in state:
        return LoggedInstance(str(status.get("containerID") or ""), restart)
    if "terminated" in state:
        own = (state["terminated"] or {}).get("containerID") or last.get("containerID")
        if not own:
            raise ApiError(400, f"{named} is terminated")
        return _instance(status, own, restart)
    if last:
        if not last.get("containerID"):
            raise ApiError(400, f"{named} is terminated")
        return _instance(status, last["containerID"], restart)
    if "waiting" in state:
        reason = (state["waiting"] or {}).get("reason") or ""
        raise ApiError(400, f"{named} is waiting to start: {_WHY_NO_IMAGE.get(reason, reason)}")
    raise ApiError(400, f"{named} is waiting to start - no logs yet")


def _instance(status: Mapping[str, Any], id_: str, restart: int) -> LoggedInstance:
    return LoggedInstance(id_, restart if id_ == status.get("containerID") else max(0, restart - 1))


def _status_of(pod: Mapping[str, Any], container: str) -> Mapping[str, Any] | None:
    status = pod.get("status") or {}
    entries: Sequence[Mapping[str, Any]] = [each for kind in _KINDS for each in status.get(kind) or ()]
    return next((each for each in entries if each.get("name") == container), None)
