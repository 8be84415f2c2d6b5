"""The worker's command line: each flag overrides an environment variable, and what is kept of the last start."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from syncpod.settings.node import LOG_FORMATS, NodeSettings, node_settings
from syncpod.settings.variables import RUNTIME_ENDPOINT

ReadSettings = Callable[[Mapping[str, str]], NodeSettings]
"""Returns the settings, given the environment. Raises SettingsInvalid."""


def parse_arguments(arguments: Sequence[str] | None) -> tuple[str, ReadSettings]:
    """Return the level of the log, as `logging` names it, and a function that reads the settings.

    None = the arguments of this process. Exits with 0 after ``--help``, and with 2 if the arguments cannot be parsed.
    """
    options = vars(_parser().parse_args(arguments))
    level = options.pop("log_level").upper()
    return level, lambda environ: node_settings(environ, **options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="syncpod worker", description="Serve this machine as a node.")
    parser.add_argument("--node", help="the node's name (SYNCPOD_NODE; default: the host's)")
    parser.add_argument("--state-dir", help="where the node keeps its state (SYNCPOD_STATE_DIR)")
    parser.add_argument("--memory-dir", help="where it keeps Secrets, on a memory file system (SYNCPOD_MEMORY_DIR)")
    parser.add_argument("--log-dir", help="where the pods' logs go (SYNCPOD_LOG_DIR)")
    parser.add_argument(
        "--manifests",
        dest="manifest_dir",
        metavar="DIR",
        help="a directory of manifests, one pod each, that the node keeps running (SYNCPOD_MANIFEST_DIR)",
    )
    parser.add_argument(
        "--no-manifests",
        action="store_const",
        const="",
        dest="manifest_dir",
        help="follow no directory of manifests any more; its pods stay as they are",
    )
    _add_resources(parser)
    _add_images(parser)
    parser.add_argument("--runtime-endpoint", help=f"the CRI socket, unix:///path ({RUNTIME_ENDPOINT})")
    parser.add_argument(
        "--journal-age",
        metavar="DURATION",
        help="how long the node's journal keeps what happened: 90d, 36h; 0 = for ever (SYNCPOD_JOURNAL_AGE)",
    )
    parser.add_argument(
        "--journal-size", metavar="SIZE", help="how large the node's journal may become: 256Mi (SYNCPOD_JOURNAL_SIZE)"
    )
    _add_trust(parser)
    parser.add_argument(
        "--metrics-address",
        metavar="HOST:PORT",
        help="serve metrics, health and, to its owner, pods there over HTTP (SYNCPOD_METRICS_ADDRESS)",
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        help="json: one object a line, with pod, step and trace (SYNCPOD_LOG_FORMAT; default: text)",
    )
    return parser


def _add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-foreign-kubelet",
        action="store_true",
        default=None,
        help="serve beside a kubelet on the same runtime, although it kills pods that it does not know",
    )
    parser.add_argument(
        "--signed",
        action="store_true",
        default=None,
        help="take only commands that are signed with the key of the state directory (SYNCPOD_SIGNED=true)",
    )
    parser.add_argument(
        "--encrypt",
        action="store_true",
        default=None,
        help="sign, and encrypt what goes to Temporal with the key of the state directory (SYNCPOD_ENCRYPT=true)",
    )
    parser.add_argument(
        "--adopt-cluster",
        action="store_true",
        help="serve on this Temporal server from now on, although another one has the node's pods",
    )


def _add_resources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cgroup-parent", help="the cgroup above the pods' (SYNCPOD_CGROUP_PARENT)")
    parser.add_argument(
        "--capacity", help="what pods may request together, as cpu=8,memory=32Gi,pods=110 (SYNCPOD_CAPACITY)"
    )
    parser.add_argument(
        "--node-labels",
        metavar="KEY=VALUE,...",
        help="labels of the node, which a pod's nodeSelector and node affinity ask for (SYNCPOD_NODE_LABELS)",
    )
    parser.add_argument(
        "--no-pod-cgroups",
        action="store_false",
        default=None,
        dest="pod_cgroups",
        help="leave the pods' cgroups to the runtime, without limits for pods as a whole (SYNCPOD_POD_CGROUPS=false)",
    )
    parser.add_argument(
        "--pod-max-pids",
        metavar="N",
        help="how many processes and threads one pod may have (SYNCPOD_POD_MAX_PIDS; default: -1, no limit of its own)",
    )
    parser.add_argument(
        "--allowed-unsafe-sysctls",
        help="sysctls that pods may set besides the safe ones, as kernel.msgmax,net.core.* "
        "(SYNCPOD_ALLOWED_UNSAFE_SYSCTLS)",
    )


def _add_images(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-parallel-image-pulls",
        help="how many images are pulled at once (SYNCPOD_MAX_PARALLEL_IMAGE_PULLS; default: 1)",
    )
    parser.add_argument(
        "--registry-auth-file",
        help="the node's own credentials for registries, as docker login writes them (SYNCPOD_REGISTRY_AUTH_FILE)",
    )
