"""The commands in documentation pages are run in order, and print the shown lines; exceptions are in a table.

Pages share machines: one node on the embedded runtime, one fleet of two such nodes, and one machine for processes that
a user starts by hand.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.conftest import program
from tests.cli.machine import EMBEDDED, machine, remains
from tests.cli.page_blocks import ROOT, Block, alike, blocks, commands_of, not_printed, pages
from tests.cli.page_shell import Shell
from tests.runtime.image_files import Layout, entry, layer, write_tar
from tests.runtimes.ports import free_port

GUIDES = sorted(f"docs/guides/{path.name}" for path in (ROOT / "docs" / "guides").glob("*.md"))


@dataclass(frozen=True)
class Part:
    """The commands below some headings of a page, in the order of the headings."""

    page: str
    headings: tuple[str, ...]
    before: tuple[str, ...] = ()
    """Commands of `syncpod` that must have run before, which the page does not show."""
    after: tuple[str, ...] = ()
    """Commands of `syncpod` that restore the machine's earlier state."""
    only: str = ""
    """The beginning of its block's first command, if the part is this block only; other parts omit it."""
    follows: Part | None = None
    """A part whose commands run before, in the same terminals."""


WEB = "apply -f examples/pod.yaml --wait"
ON_A_NODE = (
    Part("docs/housekeeping.md", ("Orphans",)),  # first, while nothing of a pod that was deleted is left
    *(Part(page, tuple(dict.fromkeys(block.heading for block in blocks(page)))) for page in GUIDES),
    Part("README.md", ("Ten commands",)),
    Part("docs/temporal.md", ("Connect", "tctl", "Lists of pods")),
    Part("docs/nodes.md", ("Nodes", "Lists from other sources"), after=(
        "uncordon guide", "down --keep-pods", "up --no-manifests",
    )),
    Part("docs/security.md", ("`temporal` and `tctl` on a signed node",), before=(WEB,)),
    Part("docs/upgrading.md", ("For operators",), before=(WEB,)),
    Part("docs/engineering/node-api.md", ("The node's API",), before=(WEB,)),
    Part("docs/runtimes.md", ("Images with files of their own",)),
    Part("docs/metrics.md", ("Alerts and dashboards", "Who may read")),
    Part("examples/pods/README.md", ("Examples",), after=(
        "delete -f examples/pods/projected.yaml --ignore-not-found",
    )),
)  # fmt: skip
"""Parts of pages whose commands need a node after `up`."""

ON_A_FLEET = (
    Part("docs/fleet.md", (
        "Try it", "ConfigMaps and Secrets", "From anywhere", "Workloads", "Why a pod is where it is",
        "Before maintenance, and after a loss",
    ), after=("fleet uncordon n1",)),
    Part("docs/fleet.md", ("Revisions", "Leaving")),
    Part("docs/security.md", (
        "Change the key of commands and histories", "Change the sealing key", "A node was stolen",
    )),
)  # fmt: skip
"""Parts of pages whose commands need a fleet and its nodes, which the first part makes."""

BY_HAND = (
    Part("docs/temporal.md", ("By hand",)),
    Part("docs/simulated.md", ("Simulated pods",), after=("delete pod crashes-twice", "down")),
    Part("docs/fleet.md", ("On several machines",), only="syncpod fleet up", after=("fleet down",)),
    Part("docs/security.md", ("A fleet",), only="syncpod fleet up", after=("fleet down",)),
    Part(
        "docs/upgrading.md",
        ("For operators",),
        only="temporal workflow signal --query",
        follows=Part("docs/temporal.md", ("By hand",)),
    ),
)
"""Parts of pages whose commands start processes in terminals."""


class NotRun(NamedTuple):
    """A block whose commands are not run: its place, the beginning of its first command, and the reason."""

    page: str
    heading: str
    first: str
    why: str

    def is_of(self, block: Block) -> bool:
        """Whether this is the block."""
        return (block.page, block.heading) == (self.page, self.heading) and block.first.startswith(self.first)


CLUSTER = "it makes servers of PostgreSQL and Temporal, as `tests/runtimes/temporal_cluster.py` does for the tests"
CHANGES = "it changes the machine itself"
SYSTEMD = "it needs a machine that was booted by systemd: `tests/cli/test_systemd_boot.py`"
NOT_RUN = (
    NotRun("README.md", "syncpod", "make up",
           "it downloads the environment; `test_example.py` does the rest of `make up`"),
    NotRun("README.md", "A pod in the Temporal UI", "syncpod explain shop",
           "53 restarts take five minutes: the guide of crash loops has the same with three"),
    NotRun("docs/differential.md", "Compared with a kubelet", "python -m qa.differential --build",
           "it builds a kubelet: `make differential`"),
    NotRun("docs/engineering/node-api.md", "The node's API", "socat",
           "it goes on, and socat is needed: `tests/agent/test_node_api.py` has kubectl's requests"),
    NotRun("docs/fleet-cluster.md", "Start it", "export PATH", CLUSTER),
    NotRun("docs/fleet-cluster.md", "Start it", "SCHEMA=", CLUSTER),
    NotRun("docs/fleet-cluster.md", "Start it", "export DB", CLUSTER),
    NotRun("docs/fleet-cluster.md", "Of a fleet on PostgreSQL", "", CLUSTER),
    NotRun("docs/fleet-cluster.md", "Of a fleet on `syncpod server`", "", "`tests/e2e/test_fleet_restored.py` does so"),
    NotRun("docs/fleet-cluster.md", "The UI", "syncpod fleet codec",
           "it prints another address each time: `tests/signing/test_codec_server.py`"),
    NotRun("docs/fleet.md", "Why a pod is where it is", "syncpod fleet explain --placement",
           "it has three nodes, one of which is full: `test_fleet_explain.py`"),
    NotRun("docs/fleet.md", "Why a pod is where it is", "syncpod fleet get nodes",
           "two machines with one invitation: `tests/workflows/test_duplicate_nodes.py`"),
    NotRun("docs/fleet.md", "Where a node listens", "syncpod join",
           "it takes a terminal and an address of another machine: `tests/e2e/test_fleet_remote_commands.py`"),
    NotRun("docs/guides/from-a-standalone-kubelet.md", "Move from a standalone kubelet", "systemctl", CHANGES),
    NotRun("docs/guides/from-podman.md", "Move from podman", "podman kube generate",
           "podman is needed: its files in `examples/from-podman` are those of podman 4.3"),
    NotRun("docs/guides/upgrade.md", "The runtime", "apt-get install", CHANGES),
    NotRun("docs/housekeeping.md", "Orphans", "syncpod adopt -f",
           "the state directory of a running pod was lost: `tests/e2e/test_orphans.py`"),
    NotRun("docs/kubernetes.md", "A node of a Kubernetes cluster", "syncpod up",
           "it needs a cluster's API server: `test_up_kubernetes.py` does so with a scripted one"),
    NotRun("docs/kubernetes.md", "In a kubelet's place", "ln -s",
           "it goes on, in a kubelet's place: `tests/cli/kubelet/test_program.py`"),
    NotRun("docs/kubernetes.md", "Joining by a bootstrap kubeconfig", "syncpod up",
           "it needs a cluster's API server: `test_up_kubernetes.py` does so with a scripted one"),
    NotRun("docs/kubernetes.md", "Three ways to a control plane", "syncpod up",
           "it needs a cluster's API server: `test_up_kubernetes.py` does so with a scripted one"),
    NotRun("docs/kubernetes.md", "kubectl syncpod", "kubectl syncpod",
           "it needs a cluster and its kubectl: `tests/kubernetes/test_plugin_commands.py`"),
    *(() if shutil.which("prometheus") else (
        NotRun("docs/metrics.md", "Alerts and dashboards", "prometheus", "Prometheus is not installed"),
    )),
    NotRun("docs/runtimes.md", "Images with files of their own", "podman save", "podman and a registry are needed"),
    NotRun("docs/systemd.md", "Under systemd", "syncpod up", SYSTEMD),
    NotRun("docs/systemd.md", "Under systemd", "syncpod uninstall", SYSTEMD),
    NotRun("docs/temporal.md", "tctl", "cp -r", "it downloads Go modules; `.ci/run` builds it in this way"),
    NotRun("docs/testing.md", "Testing", "make test", "they run the tests themselves"),
    NotRun("docs/traces.md", "Traces and logs", "OTEL_EXPORTER",
           "the guide of traces runs one; a collector is needed for the other: `tests/deploy/test_otel_collector.py`"),
    NotRun("docs/upgrading.md", "For operators", "pip download", "it downloads: `test_server_versions.py`"),
)  # fmt: skip


def write_image(path: Path) -> None:
    """Write the archive of an image with one file."""
    write_tar(path, Layout((layer(entry("hello", b"hello\n")),), name="docker.io/library/nginx:1").files())


def write_manifest(path: Path) -> None:
    """Write the manifest of a pod `web`."""
    path.write_bytes((ROOT / "examples" / "from-podman" / "mended.yaml").read_bytes())


def write_deployment(path: Path) -> None:
    """Write a Deployment whose image no node has."""
    example = (ROOT / "examples" / "fleet" / "deployment.yaml").read_text()
    path.write_text(example.replace("name: web", "name: shop").replace("busybox:1", "nginx:1.27"))


def write_bad_deployment(path: Path) -> None:
    """Write the Deployment with a container that exits at once."""
    example = (ROOT / "examples" / "fleet" / "deployment.yaml").read_text()
    path.write_text(example.replace("while true; do date; sleep 10; done", "exit 3"))


def write_secret(path: Path) -> None:
    """Write a Secret with one key."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": {"a": "YQ=="}}
    path.write_text(json.dumps(secret))


FILES: dict[str, dict[str, Callable[[Path], None]]] = {
    "docs/guides/from-a-standalone-kubelet.md": {"manifests/web.yaml": write_manifest},
    "docs/runtimes.md": {"nginx.tar": write_image},
    "docs/fleet.md": {
        "shop.yaml": write_deployment, "keys.yaml": write_secret, "bad.yaml": write_bad_deployment,
    },
}  # fmt: skip
"""Files that a page's commands need but do not make, with the functions that make them."""


@dataclass(frozen=True)
class Place:
    """The place where commands are run: a directory, and this machine's replacements for the names in a page."""

    directory: Path
    environ: dict[str, str]
    names: dict[str, str]

    def told_here(self, text: str) -> str:
        """Return a page's text with the names replaced by this machine's."""
        for written, here in self.names.items():
            text = text.replace(written, here)
        return text


def run_part(part: Part, place: Place, shell: Shell) -> None:
    """Run the commands of a part of a page, and compare what they print with what the page shows."""
    for name, write in FILES.get(part.page, {}).items():
        path = place.directory / name
        path.parent.mkdir(exist_ok=True)
        write(path)
    for line in part.before:
        assert program(*line.split(), environ=place.environ).code == 0, line
    logs = count()
    for block in in_order(part):
        for command, shown in commands_of(place.told_here(block.text)):
            shell.check(command, shown, place.directory / f"served-{next(logs)}.log")
    for line in part.after:
        assert program(*line.split(), environ=place.environ).code == 0, line


def in_order(part: Part) -> list[Block]:
    """Return the blocks of a part that are run, in the order of its headings."""
    found = [block for block in blocks(part.page) if not any(each.is_of(block) for each in NOT_RUN)]
    if part.only:
        return [block for block in found if block.heading in part.headings and block.first.startswith(part.only)]
    claimed = [each.only for each in (*ON_A_NODE, *ON_A_FLEET, *BY_HAND) if each.only and each.page == part.page]
    found = [block for block in found if not any(block.first.startswith(first) for first in claimed)]
    return [block for heading in part.headings for block in found if block.heading == heading]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory in which commands are run, with the files of this repository that they use."""
    made = tmp_path_factory.mktemp("pages")
    for name in ("examples", "worker.py", "deploy"):
        (made / name).symlink_to(ROOT / name)
    return made


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, directory: Path) -> Iterator[Place]:
    """A machine after `up`, whose node has the name in the guides."""
    with machine(EMBEDDED, request, directory) as environ:
        environ["SYNCPOD_NODE"] = "guide"
        upped = program("up", "--embedded", environ=environ)
        assert upped.code == 0, upped.err
        manifests, port = str(directory / "manifests"), free_port()
        names = {
            "$(hostname)": "guide", "new/bin/": "", "sudo ": "", ":9105": f":{port}",
            "/etc/kubernetes/manifests": manifests, "/etc/syncpod/pods": manifests,
            "/var/lib/syncpod": environ["SYNCPOD_STATE_DIR"], "/root/": f"{directory}/",
            "~/.local/state/syncpod": environ["SYNCPOD_STATE_DIR"],
            "prometheus --config": f"prometheus --web.listen-address=127.0.0.1:{free_port()} "
            f"--storage.tsdb.path={directory}/prometheus --config",
        }  # fmt: skip
        yield Place(directory, environ, names)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A machine on which nothing runs yet, for a fleet and two nodes."""
    directory = tmp_path_factory.mktemp("fleet")
    (directory / "examples").symlink_to(ROOT / "examples")
    states = {"SYNCPOD_STATE_DIR": f"{directory}/fleet", "SYNCPOD_LOG_DIR": f"{directory}/pods"}
    environ = {**states, "TEMPORAL_ADDRESS": ""}
    try:
        yield Place(directory, environ, {"~/": f"{directory}/", "127.0.0.1:7300": f"127.0.0.1:{free_port()}"})
    finally:
        for name in ("n1", "n2"):
            program("down", environ={**environ, "SYNCPOD_STATE_DIR": f"{directory}/{name}"})
        program("fleet", "down", environ=environ)
        assert remains({"SYNCPOD_STATE_DIR": f"{directory}/"}) == [], "nothing runs on"


@pytest.mark.parametrize("part", ON_A_NODE, ids=lambda part: part.page)
def test_the_commands_for_a_node_print_what_the_page_shows(
    part: Part, node: Place, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(node.directory)
    programs = [request.getfixturevalue("tctl").parent] if "tctl" in part.headings else []
    with Shell(node.environ, programs) as shell:
        run_part(part, node, shell)
    if left := program("get", "pods", "-o", "name", environ=node.environ).out.split():
        assert program("delete", *left, "--grace-period", "1", environ=node.environ).code == 0


def test_the_commands_for_a_fleet_print_what_the_page_shows(fleet: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fleet.directory)
    with Shell(fleet.environ) as shell:
        for part in ON_A_FLEET:
            run_part(part, fleet, shell)


@pytest.mark.parametrize("part", BY_HAND, ids=lambda part: part.page)
def test_what_a_person_starts_in_terminals_prints_what_the_page_shows(
    part: Part, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    environ = {"SYNCPOD_STATE_DIR": f"{tmp_path}/state", "SYNCPOD_LOG_DIR": f"{tmp_path}/pods", "SYNCPOD_NODE": "vm"}
    port, gate = free_port(), free_port()
    names = {
        "0.0.0.0:7300": f"127.0.0.1:{gate}", "fleet.example.com:7300": f"fleet.example.com:{gate}",
        "127.0.0.1:7233": f"127.0.0.1:{port}", "server start-dev": f"server start-dev --headless --port {port}",
        "/tmp/by-hand": f"{tmp_path}/state", "/tmp/simulated": f"{tmp_path}/simulated", "<name>": "vm",
    }  # fmt: skip
    place = Place(tmp_path, environ, names)
    with Shell(environ) as shell:
        for each in filter(None, (part.follows, part)):
            run_part(each, place, shell)
    for invitation in directory.glob("*.invitation"):  # of a fleet that is no more
        invitation.unlink()
    assert remains({"SYNCPOD_STATE_DIR": str(tmp_path)}) == [], "nothing runs on"


def test_each_block_of_a_page_is_run_or_has_a_reason() -> None:
    parts = (*ON_A_NODE, *ON_A_FLEET, *BY_HAND)
    run = [block for part in parts for block in in_order(part)]
    every = [block for page in pages() for block in blocks(page)]
    neither = [block for block in every if block not in run and not any(each.is_of(block) for each in NOT_RUN)]
    assert neither == []
    assert [block for block in run if block.language != "console"] == [], "only these have commands with a prompt"
    assert [each for each in NOT_RUN if not any(each.is_of(block) for block in every)] == []
    idle = [
        (part.page, heading)
        for part in parts
        for heading in part.headings
        if not any((block.page, block.heading) == (part.page, heading) for block in run)
    ]
    assert idle == [], "nothing is run below this heading"


def test_a_shown_line_that_is_not_printed_would_be_found() -> None:
    ((command, shown),) = commands_of(f"$ syncpod get pods -l 'a=b'{os.linesep}x   12s\n")
    assert (command, shown) == ("syncpod get pods -l 'a=b'", ["x   12s"])
    assert alike("x   12s") == alike("x 2m37s") != alike("y 12s")
    assert alike("n1 has 01a2247a-7921-78b7 at 10.0.0.7") == alike("n1 has 01a22477-ebd8-76e6 at 127.56.103.175")
    assert not_printed(shown, "y 12s") == shown
