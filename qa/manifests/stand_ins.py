"""Local images that replace those of the documentation's manifests, and do a part of the originals' work.

Like the test suite's images, they are made from this machine's static busybox: one layer, and a script as entry point.
Of a manifest, only the names of images and the namespace are changed. The new names have a tag other than `latest`, so
the default pull policy is IfNotPresent.
"""

from __future__ import annotations

import functools
import io
import re
import secrets
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.runtimes import images
from tests.runtimes.containerd import Containerd

_NGINX = """
root=/usr/share/nginx/html
mkdir -p $root
[ -e $root/index.html ] || echo "<title>Welcome to nginx!</title>" 2>/dev/null >$root/index.html
printf '#!/bin/sh\\nkill 1\\n' >/bin/nginx && chmod +x /bin/nginx
exec httpd -f -p 80 -h $root
"""
_HELLO = """
mkdir -p /tmp/www
printf 'Hello, world!\\nVersion: %s\\nHostname: %s\\n' "$VERSION" "$HOSTNAME" >/tmp/www/index.html
exec httpd -f -p 8080 -h /tmp/www
"""
_ECHO = """
mkdir -p /tmp/www
echo "${1#-text=}" >/tmp/www/index.html
exec httpd -f -p 5678 -h /tmp/www
"""
_REDIS = """
trap 'exit 0' TERM
echo "configuration: ${1:-none}"
while :; do sleep 3600 & wait; done
"""
_STRESS = """
count=$2
echo "burning $count CPUs"
while [ "$count" -gt 1 ]; do (while :; do :; done) & count=$((count - 1)); done
while :; do :; done
"""
_LIVENESS = """
date +%s >/tmp/begun
exec nc -ll -p 8080 -e liveness
"""
_FILES = {
    # Debian's busybox has no printenv.
    "bin/printenv": """#!/bin/sh
[ $# -gt 0 ] || exec env
code=0
for name; do env | grep "^$name=" | cut -d = -f 2- | grep '' || code=1; done
exit $code
""",
    "bin/liveness": r"""#!/bin/sh
# All that is asked is read: who ends with something unread resets the connection, and the answer may go with it.
while read -r line && [ ${#line} -gt 1 ]; do :; done
if [ $(($(date +%s) - $(cat /tmp/begun))) -lt 10 ]; then printf 'HTTP/1.0 200 OK\r\n\r\n'
else printf 'HTTP/1.0 500 Internal Server Error\r\n\r\n'; fi
""",
    "usr/local/bin/etcd": "#!/bin/sh\nexec nc -ll -p 2379 -e serving\n",
    # Fixed frames of HTTP/2: settings and their acknowledgement; then, on the first stream, which is open by then,
    # status 200 and the content type, a message that says SERVING, and gRPC's status 0.
    "bin/serving": r"""#!/bin/sh
echo asked >&2
printf '\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0\0'
sleep 0.3
printf '\0\0\24\1\4\0\0\0\1\210\17\20\20application/grpc'
printf '\0\0\7\0\0\0\0\0\1\0\0\0\0\2\10\1'
printf '\0\0\17\1\5\0\0\0\1\0\13grpc-status\0010'
exec cat >/dev/null
""",
}
"""The files that the images have in addition to busybox."""


@dataclass(frozen=True)
class StandIn:
    """A local image: its name, and its action in place of the original's."""

    image: str
    does: str
    script: str | None = None
    """The script that it runs; "" for a shell, None for an image that the test suite has already."""
    environment: tuple[str, ...] = ()


def _made(name: str, does: str, script: str, *environment: str) -> StandIn:
    return StandIn(f"docker.io/syncpod/{name}:1", does, script, environment)


SHELL = _made("shell", "busybox: a shell and its commands, which is what the manifests use of it", "")
PAUSE = StandIn(images.PAUSE, "waits to be ended, as the original does")
NGINX = _made("nginx", "a web server on port 80 with its pages in /usr/share/nginx/html", _NGINX)
HELLO = _made("hello", "a web server on port 8080 that greets, with its version", _HELLO, "VERSION=2.0.0")
HELLO_1 = _made("hello-1", "the same with another version", _HELLO, "VERSION=1.0.0")
PRIVATE = _made("private", "the same, in a registry of this machine that asks for a password", _HELLO, "VERSION=2.0.0")
ECHO = _made("http-echo", "a web server on port 5678 that answers with the text it is given", _ECHO)
REDIS = _made("redis", "waits like a server, and says which configuration it was given; no database", _REDIS)
STRESS = _made("stress", "busy loops, as many as it is told", _STRESS)
LIVENESS = _made("liveness", "answers HTTP on port 8080 with 200 for ten seconds, and with 500 from then on", _LIVENESS)
ETCD = _made("etcd", "answers each gRPC health check on port 2379 with SERVING; no database", "")

STAND_INS: Mapping[str, StandIn] = {
    "busybox": SHELL,
    "busybox:1.28": SHELL,
    "busybox:1.36": SHELL,
    "debian": SHELL,
    "registry.k8s.io/busybox": SHELL,
    "registry.k8s.io/busybox:1.27.2": SHELL,
    "registry.k8s.io/e2e-test-images/agnhost:2.45": SHELL,
    "registry.k8s.io/e2e-test-images/agnhost:2.40": LIVENESS,
    "k8s.gcr.io/pause:2.0": PAUSE,
    "registry.k8s.io/pause:2.0": PAUSE,
    "registry.k8s.io/pause:3.1": PAUSE,
    "registry.k8s.io/pause:3.8": PAUSE,
    "registry.k8s.io/pause:3.9": PAUSE,
    "registry.k8s.io/pause:3.10": PAUSE,
    "nginx": NGINX,
    "nginx:1.29": NGINX,
    "registry.k8s.io/nginx:latest": NGINX,
    "httpd:2.4": NGINX,
    "gcr.io/google-samples/hello-app:1.0": HELLO_1,
    "gcr.io/google-samples/hello-app:2.0": HELLO,
    "gcr.io/google-samples/node-hello:1.0": HELLO,
    "registry.k8s.io/goproxy:0.1": HELLO,
    "<your-private-image>": PRIVATE,
    "hashicorp/http-echo:1.0": ECHO,
    "redis": REDIS,
    "redis:5": REDIS,
    "vish/stress": STRESS,
    "registry.k8s.io/etcd:3.5.1-0": ETCD,
}
"""By the image's name in the documentation's manifests."""

MADE = tuple(each for each in dict.fromkeys(STAND_INS.values()) if each.script is not None)
"""The images that are made here."""

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_IMAGE = re.compile(r'(?P<key>\bimage:\s*)(?P<quote>"?)(?P<name>[^"\s,}]+)(?P=quote)')
_NAMESPACE = re.compile(r'(?P<key>\bnamespace:\s*)"?[a-z0-9-]+"?')


def localized(manifest: str, namespace: str) -> str:
    """A manifest's text with local images, and with this namespace if it names one.

    Raises KeyError for an image without a local replacement.
    """
    text = _IMAGE.sub(lambda found: f'{found["key"]}"{STAND_INS[found["name"]].image}"', manifest)
    return _NAMESPACE.sub(lambda found: f'{found["key"]}"{namespace}"', text)


def named_images(manifest: str) -> tuple[str, ...]:
    """The names of images in a manifest's text, as they are written there."""
    return tuple(found["name"] for found in _IMAGE.finditer(manifest))


def import_into(runtime: Containerd, directory: Path) -> None:
    """Make the images and import them into containerd, unless it has them. `directory` is for a temporary archive."""
    if f"{MADE[0].image} " in runtime.ctr("images", "list"):
        return
    archive = directory / "stand-ins.tar"
    images.write_archive(archive, [made(each) for each in MADE])
    runtime.ctr("images", "import", archive)
    archive.unlink()


def made(stand_in: StandIn, *, fresh: bool = False) -> images.Image:
    """Build the image of a stand-in. A fresh one has a random file, so no runtime has its layer yet."""
    files = {**_FILES, "fresh": secrets.token_hex()} if fresh else _FILES
    layer = _with_files(_busybox(), files)
    command = {"Entrypoint": ["sh", "-c", stand_in.script, "server"]} if stand_in.script else {"Cmd": ["sh"]}
    return images.Image(stand_in.image, layer, {"Env": [_PATH, *stand_in.environment], **command})


@functools.cache
def _busybox() -> bytes:
    return next(image.layer for image in images.images() if image.name == images.BUSYBOX)


def _with_files(layer: bytes, files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO(layer)
    with tarfile.open(fileobj=buffer, mode="a") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o755, len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()
