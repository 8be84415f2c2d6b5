"""The pods of a chaos run, drawn from its seed: servers, crash loops, jobs, init chains, and pods deaf to SIGTERM."""

from __future__ import annotations

import random  # noqa: TID251  # a seeded choice of pods
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qa.chaos.witness import container, volumes

Spec = dict[str, Any]


def draw(chance: random.Random, name: str, directory: Path) -> dict[str, Any]:
    """Return a Pod of a random kind, with a new UID."""
    kind = chance.choice(KINDS)
    return pod(chance, f"{name}-{kind.__name__.strip('_').replace('_', '-')}", kind, directory)


def pod(
    chance: random.Random, name: str, kind: Callable[[random.Random, str], Spec], directory: Path
) -> dict[str, Any]:
    """Return a Pod of the given kind."""
    spec = {"terminationGracePeriodSeconds": chance.choice((2, 4, 8)), "hostNetwork": chance.random() < 0.5}
    metadata = {"name": name, "namespace": "default", "uid": str(uuid.UUID(int=chance.getrandbits(128), version=4))}
    spec |= kind(chance, name)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | {"volumes": volumes(directory)}}


def _serves(chance: random.Random, name: str) -> Spec:
    """Two containers that run until SIGTERM, one of them with a preStop hook."""
    return {"containers": [container(name, "web", pre_stop=chance.choice((0, 500))), container(name, "log")]}


def _crashes(chance: random.Random, name: str) -> Spec:
    """One container that fails again and again beside one that runs."""
    fails = container(name, "fails", f"for={chance.randint(200, 4000)}", f"code={chance.choice((1, 7, 42))}")
    return {"containers": [fails, container(name, "web", pre_stop=0)]}


def _job(chance: random.Random, name: str) -> Spec:
    """An init container and two containers that each run once."""
    ends = [
        container(name, each, f"for={chance.randint(0, 6000)}", f"code={chance.choice((0, 0, 5))}") for each in "ab"
    ]
    first = container(name, "first", f"for={chance.randint(0, 2000)}")
    return {"restartPolicy": "Never", "initContainers": [first], "containers": ends}


def _tries_again(chance: random.Random, name: str) -> Spec:
    """One container that fails a few times before it succeeds."""
    work = container(name, "work", f"for={chance.randint(0, 3000)}", f"fails={chance.randint(0, 2)}")
    return {"restartPolicy": "OnFailure", "containers": [work]}


def _chain(chance: random.Random, name: str) -> Spec:
    """Init containers, some of which fail at first, with a sidecar among them."""
    inits = [
        container(name, "one", f"for={chance.randint(0, 2000)}", f"fails={chance.randint(0, 1)}"),
        container(name, "beside", restartPolicy="Always"),
        container(name, "two", f"for={chance.randint(0, 2000)}"),
        container(name, "three", f"for={chance.randint(0, 1000)}", f"fails={chance.randint(0, 1)}"),
    ]
    return {"initContainers": inits, "containers": [container(name, "web", pre_stop=chance.choice((0, 1000)))]}


def _deaf(chance: random.Random, name: str) -> Spec:
    """One container that ends only when it is killed."""
    return {"containers": [container(name, "deaf", "deaf=1", pre_stop=0)], "terminationGracePeriodSeconds": 2}


KINDS = (_serves, _crashes, _job, _job, _tries_again, _chain, _chain, _deaf)
