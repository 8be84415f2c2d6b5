"""The images of the tests, made from this machine's programs under the names that the tests pull.

Names, users and ports are those in the sources of Kubernetes' test images.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from qa.conformance import programs
from tests.runtimes.images import File, Image, busybox_system, layer_of, static_program
from tests.runtimes.require import Missing

_HERE: Final = Path(__file__).resolve().parent
_REGISTRY: Final = "registry.k8s.io"
_TESTS: Final = f"{_REGISTRY}/e2e-test-images"
_OF_PODS_API: Final = "docker.io/library/busybox:1.36"
"""The image of the Pods API's tests, the only ones with an image from Docker Hub."""
_LIBRARY: Final = re.compile(r"(/\S+) \(0x")
_PATH: Final = "PATH=/usr/local/bin:/usr/bin:/bin:/sbin"
_SYSTEM_PATH: Final = f"{_PATH}:/usr/sbin"
_SERVERS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_KUBEADMS_ETCD: Final = "3.6.8-0"
"""The tag that this version of kubeadm pulls. The image has the program of `programs`."""
_PASSWD: Final = (
    b"root:x:0:0:root:/root:/bin/sh\n"
    b"user-defined-in-image:x:1000:1000::/home:/bin/sh\n"
    b"nobody:x:65534:65534::/:/bin/false\n"
)
_GROUP: Final = b"root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"
_WEB: Final = {
    "Cmd": [
        "sh",
        "-c",
        "mkdir -p /var/run; echo $$ >/var/run/nginx.pid; exec nginx netexec --http-port=80 --udp-port=-1",
    ],
    "ExposedPorts": {"80/tcp": {}},
}
"""The configuration of the nginx images. The tests only need a server of that name, with its pid in a file."""
_AGNHOST_PORTS: Final = ("80/tcp", "8080/tcp", "8081/tcp", "9376/tcp", "5000/tcp")

Files = dict[str, bytes | str | File | None]


def test_images() -> list[Image]:
    """The images that tests of a node need, some under several names. Raises `Missing` if a program is missing."""
    return _tests_images({})


def cluster_images() -> list[Image]:
    """The images that tests of a cluster need: those of a node with `dig` and `getent`, and more. Raises `Missing`."""
    serving = {"Entrypoint": ["/agnhost"], "Cmd": ["test-webserver"], "ExposedPorts": {"80/tcp": {}}}
    agnhost = programs.program("agnhost").read_bytes()
    pictures: dict[str, Files] = {
        name: {"agnhost": agnhost, "data.json": f'{{"image": "{name}.jpg"}}'.encode()}
        for name in ("nautilus", "kitten")
    }
    # A test reads the name of upstream's base image of this image.
    pictures["kitten"]["etc/os-release"] = b'NAME="Alpine Linux"\n'
    sample: Files = {"sample-apiserver": programs.program("sample-apiserver").read_bytes(), "tmp": None}
    return [
        *_tests_images(_with_libraries("dig", "usr/bin/dig") | _with_libraries("getent", "usr/bin/getent")),
        *(each for name, files in pictures.items() for each in _named((f"{name}:1.8",), files, serving)),
        *_named(("sample-apiserver:1.29.2",), sample, {"Entrypoint": ["/sample-apiserver"]}),
        Image(f"{_REGISTRY}/etcd:{_KUBEADMS_ETCD}", layer_of(_program("etcd")), {"Env": [_SYSTEM_PATH]}),
        _coredns(),
    ]


def coredns_name() -> str:
    """kubeadm's name for the image of CoreDNS."""
    return f"{_REGISTRY}/coredns/coredns:v{programs.COREDNS_VERSION}"


def _coredns() -> Image:
    layer = layer_of({"coredns": programs.program("coredns").read_bytes()})
    return Image(coredns_name(), layer, {"Entrypoint": ["/coredns"]})


def _tests_images(more: Files) -> list[Image]:
    """The images of a node's tests, with the files `more` in those that resolve names."""
    shell = _shell()
    names = shell | _with_libraries("hostname", "bin/hostname") | more
    privileges = _system() | {"usr/local/bin/nnp": File(programs.program("nnp").read_bytes(), 0o4755)}
    agnhost = _agnhost(shell) | more
    serving = {"Entrypoint": ["/agnhost"], "Cmd": ["pause"], "ExposedPorts": {port: {} for port in _AGNHOST_PORTS}}
    return [
        *_named(("busybox:1.37.0-1", "busybox:1.29-4"), shell, {"Cmd": ["sh"]}),
        Image(_OF_PODS_API, layer_of(shell), {"Env": [_PATH], "Cmd": ["sh"], "Labels": {"name": _OF_PODS_API}}),
        *_named(("nonroot:1.5",), shell, {"Cmd": ["sh"], "User": "1234"}),
        *_named(("agnhost:2.63.0", "agnhost:2.55"), agnhost, serving),
        *_named(("nginx:1.15-4", "nginx:1.27-0"), agnhost | {"bin/nginx": "/agnhost"}, _WEB),
        *_named(("ipc-utils:1.4",), shell | _with_libraries("ipcs", "usr/bin/ipcs"), {"Cmd": ["sh"]}),
        *_named(("glibc-dns-testing:2.0.0",), names, {"Cmd": ["sh"]}),
        *_named(("nonewprivs:1.4",), privileges, {"Cmd": ["nnp"]}),
        *_pause(),
    ]


def _shell() -> Files:
    shell = _system() | _with_libraries("bash", "bin/bash") | {"bin/sh": _compiled(_HERE / "sh.c")}
    shell["bin/nmeter"] = _compiled(_HERE / "nmeter.c")
    return shell


def _agnhost(shell: Files) -> Files:
    return {
        **shell,
        **_with_libraries("curl", "usr/bin/curl"),
        **_with_libraries("nc.openbsd", "usr/bin/nc.openbsd"),
        # Tests use flags that busybox's nc does not have, and busybox's shell prefers that nc.
        "bin/sh": "/bin/bash",
        **dict.fromkeys(("bin/nc", "usr/bin/nc"), "/usr/bin/nc.openbsd"),
        "agnhost": programs.program("agnhost").read_bytes(),
        "agnhost-2": "agnhost",
        "uploads": None,
        **{name: File((programs.directory() / name).read_bytes(), 0o644) for name in programs.FILES},
    }


def kubeadms_images() -> list[Image]:
    """The images that kubeadm's static pods and add-ons pull, under their names. Raises `Missing`."""
    version, path = f"v{programs.VERSION}", {"Env": [_SYSTEM_PATH]}
    proxy = _system() | _packet_filter() | _program("kube-proxy")
    layers = {
        **{f"{name}:{version}": layer_of(_program(name)) for name in _SERVERS},
        f"kube-proxy:{version}": layer_of(proxy),
        f"etcd:{_KUBEADMS_ETCD}": layer_of(_program("etcd")),
    }
    return [*(Image(f"{_REGISTRY}/{name}", layer, path) for name, layer in layers.items()), _coredns()]


def _program(name: str) -> Files:
    return {f"usr/local/bin/{name}": programs.program(name).read_bytes()}


def _packet_filter() -> Files:
    """iptables with its libraries and extensions, at the paths where it looks for them."""
    files = _with_libraries("iptables-nft", "usr/sbin/xtables-nft-multi")
    for family, verb in itertools.product(("iptables", "ip6tables"), ("", "-save", "-restore")):
        files[f"usr/sbin/{family}{verb}"] = "/usr/sbin/xtables-nft-multi"
    for extensions in Path("/usr/lib").glob("*/xtables"):
        files |= {str(each).lstrip("/"): each.read_bytes() for each in extensions.glob("*.so")}
    return files


def _named(names: tuple[str, ...], files: Files, config: Mapping[str, object]) -> list[Image]:
    layer = layer_of(files)
    # The label gives each name its own image id: a container's status has only one name of its image.
    return [Image(f"{_TESTS}/{name}", layer, {"Env": [_PATH], **config, "Labels": {"name": name}}) for name in names]


def _pause() -> list[Image]:
    layer = layer_of({"pause": _compiled(_HERE.parents[1] / "tests/runtimes/pause.c")})
    return [Image(f"{_REGISTRY}/pause:{tag}", layer, {"Entrypoint": ["/pause"]}) for tag in ("3.10.2", "3.10", "3.6")]


def _compiled(source: Path) -> bytes:
    program = static_program(source)
    if program is None:
        raise Missing("there is no C compiler for the tests' images")
    return program


def _system() -> Files:
    system = busybox_system()
    in_bin = {f"bin/{Path(name).name}": "/bin/busybox" for name, link in system.items() if link == "/bin/busybox"}
    users: Files = {"etc/passwd": File(_PASSWD, 0o644), "etc/group": File(_GROUP, 0o644), "home": None}
    return {**system, **in_bin, **users}


def _with_libraries(name: str, place: str) -> Files:
    """A dynamically linked program with its libraries, at the paths where the loader looks for them."""
    path = shutil.which(name)
    if path is None:
        raise Missing(f"{name} is not installed (Debian: bash, bind9-dnsutils, curl, netcat-openbsd, util-linux)")
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    libraries = {each.lstrip("/"): Path(each).resolve().read_bytes() for each in _LIBRARY.findall(listed)}
    return {place: Path(path).resolve().read_bytes(), **libraries}
