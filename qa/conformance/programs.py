"""The programs of a Kubernetes cluster and of its tests, built from the Go module proxy and kept in the cache.

python -m qa.conformance.programs
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.runtimes.require import Missing, cache_directory

VERSION: Final = "1.36.2"
ETCD_VERSION: Final = "3.6.16"
COREDNS_VERSION: Final = "1.14.2"
"""The version that kubeadm deploys."""
_STAGED: Final = re.compile(r"^(\s*(k8s\.io/\S+) => )\./staging/src/\S+$", re.MULTILINE)
_VERSION_PACKAGE: Final = "k8s.io/component-base/version"
_GINKGO: Final = "github.com/onsi/ginkgo/v2"
CONTROL_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubectl")
BY_NAME: Final = ("kubeadm", "coredns", "sample-apiserver")
"""Programs that are built only if they are named. Tests of a node need none of them; two nodes need the last two."""
_COREDNS_PLUGINS: Final = (
    *("metadata", "cancel", "reload", "debug", "ready", "health", "prometheus", "errors", "log", "loadbalance"),
    *("cache", "rewrite", "hosts", "kubernetes", "loop", "forward", "whoami"),
)
"""The plugins in kubeadm's configuration, and others that are usual."""
FROM_COMMANDS: Final = (*CONTROL_PLANE, "kubelet")
PROGRAMS: Final = ("etcd", *FROM_COMMANDS, "agnhost", "nnp", "ginkgo", "e2e.test", "e2e_node.test")
"""All usual programs, in the order of building. The control plane comes first, since it is useful without the rest."""
FILES: Final = ("localhost.crt", "localhost.key")
"""The files in the image of agnhost beside its program."""


def directory(version: str = VERSION) -> Path:
    """The directory of a version's programs; for `VERSION`, `SYNCPOD_KUBERNETES` overrides it."""
    named = os.environ.get("SYNCPOD_KUBERNETES") if version == VERSION else None
    return Path(named or cache_directory() / f"kubernetes-{version}")


def program(name: str, path: Path | None = None) -> Path:
    """The path of one of the programs; `path` overrides it.

    Raises `Missing`, whose text has the command that builds the program.
    """
    path = path or directory() / name
    if not os.access(path, os.X_OK):
        raise Missing(f"there is no {name} at {path}: python -m qa.conformance.programs {name} builds one")
    return path


def build(names: Sequence[str] = PROGRAMS, version: str = VERSION) -> Path:
    """Build the programs that are missing, and return their directory. All together take 20 minutes on two cores.

    Each program is kept as soon as it is built, so that an interrupted build can be resumed. Raises `Missing`,
    CalledProcessError.
    """
    target = directory(version)
    target.mkdir(parents=True, exist_ok=True)
    absent = [name for name in names if not (target / name).exists()]
    with tempfile.TemporaryDirectory(prefix="syncpod-kubernetes-") as scratch:
        for name, make in _OTHERS.items():
            if name in absent:
                make(Path(scratch, name), target)
        if of_kubernetes := [name for name in absent if name not in _OTHERS]:
            source = kubernetes_source(Path(scratch, "kubernetes"), version)
            for name in of_kubernetes:
                _build(name, source, target, version)
            _copy_files(source, target)
    return target


def _build_etcd(source: Path, target: Path) -> None:
    _copy("go.etcd.io/etcd/server/v3", ETCD_VERSION, source)
    # The module's go.mod replaces its sibling modules by directories that its zip does not have.
    drops = [f"-dropreplace=go.etcd.io/etcd/{part}/v3" for part in ("api", "client/pkg", "client", "pkg")]
    run_go(source, "mod", "edit", *drops)
    keep(target / "etcd", lambda out: run_go(source, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(out), "."))


def _build_coredns(source: Path, target: Path) -> None:
    """Build CoreDNS without its plugins for clouds, which are most of the program."""
    _copy("github.com/coredns/coredns", COREDNS_VERSION, source)
    plugins = source / "plugin.cfg"
    kept = [line for line in plugins.read_text().splitlines() if line.partition(":")[0] in _COREDNS_PLUGINS]
    plugins.write_text("\n".join(kept) + "\n")
    run_go(source, "generate", "coredns.go")
    keep(target / "coredns", lambda out: run_go(source, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(out), "."))


_OTHERS: Final[Mapping[str, Callable[[Path, Path], None]]] = {"etcd": _build_etcd, "coredns": _build_coredns}
"""The programs that are not in Kubernetes' repository, with the functions that build them."""


def kubernetes_source(source: Path, version: str = VERSION) -> Path:
    """Copy k8s.io/kubernetes to `source`, with its staging modules replaced by their published versions (v0).

    The module's zip does not have them. Returns `source`, which is writable. Raises `Missing`, CalledProcessError.
    """
    _copy("k8s.io/kubernetes", version, source)
    modules = source / "go.mod"
    modules.write_text(_STAGED.sub(rf"\1\2 v0.{version.partition('.')[2]}", modules.read_text()))
    return source


def _build(name: str, source: Path, target: Path, version: str) -> None:
    flags = f"-s -w -X {_VERSION_PACKAGE}.gitVersion=v{version} -X {_VERSION_PACKAGE}.gitMajor=1 "
    flags += f"-X {_VERSION_PACKAGE}.gitMinor={version.split('.')[1]}"
    build = ("build", "-trimpath", "-ldflags", flags)
    tests = ("test", "-c", "-vet=off", "-trimpath", "-ldflags", flags)
    commands: dict[str, tuple[str, ...]] = {
        **{each: (*build, f"./cmd/{each}") for each in (*FROM_COMMANDS, "kubeadm")},
        "sample-apiserver": (*build, "k8s.io/sample-apiserver"),
        "agnhost": (*build, "./test/images/agnhost"),
        "nnp": (*build, "test/images/nonewprivs/nnp.go"),
        "ginkgo": (*build, f"{_GINKGO}/ginkgo"),
        "e2e.test": (*tests, "./test/e2e"),
        "e2e_node.test": (*tests, "./test/e2e_node"),
    }
    verb, *rest = commands[name]
    keep(target / name, lambda out: run_go(source, verb, "-o", str(out), *rest))


def _copy_files(source: Path, target: Path) -> None:
    for name in FILES:
        shutil.copyfile(source / "test/images/agnhost/porter" / name, target / name)


def _copy(module: str, version: str, target: Path) -> None:
    go = _go_program()
    asked = [go, "mod", "download", "-json", f"{module}@v{version}"]
    found = json.loads(subprocess.run(asked, stdout=subprocess.PIPE, check=True, cwd="/").stdout)
    left_out = shutil.ignore_patterns("go.work", "go.work.sum", "vendor", "staging")
    shutil.copytree(found["Dir"], target, symlinks=True, ignore=left_out, copy_function=shutil.copyfile)
    subprocess.run(["chmod", "-R", "u+w", target], check=True)


def keep(path: Path, make: Callable[[Path], None]) -> None:
    """Have `make` write a program beside `path`, and rename it, so that `path` never has an incomplete program.

    Raises CalledProcessError.
    """
    beside = path.with_name(f".{path.name}.partial")
    make(beside)
    beside.chmod(0o755)
    beside.replace(path)


def run_go(source: Path, *arguments: str) -> None:
    """Run a command of Go in a copy of a module, which may change its go.mod. Raises `Missing`, CalledProcessError."""
    environment: Mapping[str, str] = os.environ | {"GOFLAGS": "-mod=mod", "CGO_ENABLED": "0", "GOWORK": "off"}
    subprocess.run(["nice", _go_program(), *arguments], cwd=source, env=environment, check=True)


def _go_program() -> str:
    go = shutil.which("go")
    if go is None:
        raise Missing("go is not installed")
    return go


def main() -> int:
    """Build the programs named as arguments, or all, and print where they are."""
    names = sys.argv[1:] or PROGRAMS
    unknown = sorted(set(names) - {*PROGRAMS, *BY_NAME})
    if unknown:
        sys.stderr.write(f"{', '.join(unknown)}: no such program; there are {', '.join((*PROGRAMS, *BY_NAME))}\n")
        return 2
    try:
        sys.stdout.write(f"{build(names)}\n")
    except (Missing, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
