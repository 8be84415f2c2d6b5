"""ConfigMaps and Secrets on the command line without a server: applied, listed, described and deleted."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncpod.cli.failure import BadInput
from syncpod.cli.input.manifests import Manifests
from syncpod.cli.machine.object_apply import require_possible
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import StartedWorker, memory_directory_of, prepare, write_worker
from syncpod.kernel.procfs import identify
from syncpod.objects import admit_object
from syncpod.pod import Admission, Pod, parse_secret
from tests.cli.conftest import Command, program
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.runtimes.require import do_without
from tests.workflows.scripted import ScriptedNode


def config_map(name: str = "settings", namespace: str = "", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, **fields}


def secret(name: str = "keys", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields}


BOTH = as_json(
    config_map(data={"a": "1", "b": "two\nlines\n"}, binaryData={"c": "AAEC"}),
    secret(stringData={"password": "hunter2"}, data={"user": "bWU="}),
)
BOTH_DELETED = 'configmap "settings" deleted from default namespace\nsecret "keys" deleted from default namespace\n'


@pytest.fixture
def alone(syncpod: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Commands without a Temporal server."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    return syncpod


async def test_objects_are_created_configured_and_unchanged(alone: Command, tmp_path: Path) -> None:
    made = await alone("apply", "-f", "-", stdin=BOTH)
    assert (made.code, made.out, made.err) == (0, "configmap/settings created\nsecret/keys created\n", "")
    again = await alone("apply", "-f", "-", stdin=BOTH)
    assert again.out == "configmap/settings unchanged\nsecret/keys unchanged\n"
    changed = await alone("apply", "-f", "-", stdin=as_json(config_map(data={"a": "2"})))
    assert changed.out == "configmap/settings configured\n"
    assert kept_below(tmp_path) == {"state/objects/configmaps/default", "memory/objects/secrets/default"}


def kept_below(directory: Path) -> set[str]:
    """The directories that hold objects; asserts that all files are private."""
    assert all(path.stat().st_mode & 0o077 == 0 for path in directory.rglob("*"))
    files = [path for path in directory.rglob("*.json") if "objects" in path.parts]
    return {str(path.parent.relative_to(directory)) for path in files}


async def test_objects_are_listed_with_kubectls_columns(alone: Command) -> None:
    await alone("apply", "-f", "-", stdin=BOTH + as_json(config_map("other", "prod")))
    maps = await alone("get", "configmaps")
    assert [line.split()[:2] for line in maps.out.splitlines()] == [["NAME", "DATA"], ["settings", "3"]]
    secrets = await alone("get", "secret", "--no-headers")
    assert secrets.out.split()[:3] == ["keys", "Opaque", "2"]
    everywhere = await alone("get", "cm", "-A", "-o", "wide")
    assert [line.split()[:3] for line in everywhere.out.splitlines()] == [
        ["NAMESPACE", "NAME", "DATA"], ["default", "settings", "3"], ["prod", "other", "0"],
    ]  # fmt: skip
    several = await alone("get", "cm,secrets")
    first, empty, second = several.out.partition("\n\n")
    assert "configmap/settings" in first and empty and "secret/keys" in second
    assert (await alone("get", "cm/settings", "secret/keys", "-o", "name")).out == "configmap/settings\nsecret/keys\n"


async def test_printed_objects_can_be_applied_again(alone: Command) -> None:
    await alone("apply", "-f", "-", stdin=BOTH)
    printed = await alone("get", "secret", "keys", "-o", "yaml")
    found = yaml.safe_load(printed.out)
    assert found["data"] == {"password": base64.b64encode(b"hunter2").decode(), "user": "bWU="}
    assert (found["type"], found["metadata"]["resourceVersion"]) == ("Opaque", "1")
    assert (await alone("apply", "-f", "-", stdin=printed.out)).out == "secret/keys unchanged\n"
    listed = json.loads((await alone("get", "cm,secret", "-o", "json")).out)
    assert [item["kind"] for item in listed["items"]] == ["ConfigMap", "Secret"]
    assert listed["kind"] == "List"


async def test_objects_are_selected_by_label(alone: Command) -> None:
    labelled = config_map("a")
    labelled["metadata"]["labels"] = {"app": "web"}
    await alone("apply", "-f", "-", stdin=as_json(labelled, config_map("b")))
    assert (await alone("get", "cm", "-l", "app=web", "-o", "name")).out == "configmap/a\n"
    shown = await alone("get", "cm", "-L", "app", "--show-labels", "--no-headers")
    assert [line.split()[-2:] for line in shown.out.splitlines()] == [["web", "app=web"], ["<none>", "<none>"]]
    assert (await alone("delete", "cm", "-l", "app=web")).out == 'configmap "a" deleted from default namespace\n'
    assert (await alone("get", "cm", "-o", "name")).out == "configmap/b\n"


async def test_missing_objects_are_reported(alone: Command) -> None:
    none = await alone("get", "cm")
    assert (none.code, none.out, none.err) == (0, "", "No resources found in default namespace.\n")
    missing = await alone("get", "secret", "x", "-n", "prod")
    assert (missing.code, missing.err) == (1, 'syncpod: secrets "x" not found in namespace prod\n')
    assert (await alone("describe", "cm", "x")).code == 1
    assert (await alone("delete", "cm", "x")).code == 1
    assert (await alone("delete", "cm", "x", "--ignore-not-found")).code == 0


async def test_describe_shows_sizes_of_a_secret_and_the_text_of_a_config_map(alone: Command) -> None:
    await alone("apply", "-f", "-", stdin=BOTH)
    of_secret = (await alone("describe", "secret", "keys")).out
    assert "password:  7 bytes" in of_secret and "Type:         Opaque" in of_secret
    assert "hunter2" not in of_secret and base64.b64encode(b"hunter2").decode() not in of_secret
    assert (await alone("describe", "cm/settings")).out == (
        "Name:         settings\nNamespace:    default\nLabels:       <none>\nAnnotations:  <none>\n"
        "\nData\n====\na:\n----\n1\n\nb:\n----\ntwo\nlines\n\n\nBinaryData\n====\nc: 3 bytes\n"
    )


async def test_objects_are_deleted_by_name_and_by_file(alone: Command) -> None:
    await alone("apply", "-f", "-", stdin=BOTH)
    assert (await alone("delete", "-f", "-", stdin=BOTH)).out == BOTH_DELETED
    await alone("apply", "-f", "-", stdin=BOTH)
    trial = await alone("delete", "cm/settings", "secret/none", "--dry-run=client")
    assert (trial.code, trial.out) == (1, 'configmap "settings" deleted (dry run) from default namespace\n')
    assert (await alone("delete", "cm/settings", "secret/keys")).code == 0
    assert (await alone("get", "cm,secrets", "-A")).out == ""


async def test_objects_are_deleted_even_if_no_server_answers_for_pods(alone: Command) -> None:
    await alone("apply", "-f", "-", stdin=BOTH)
    result = await alone("delete", "cm/settings", "pod/web")
    assert (result.code, result.out) == (1, 'configmap "settings" deleted from default namespace\n')
    assert "no Temporal server at" in result.err


async def test_a_change_of_an_immutable_object_is_refused_before_anything_is_written(alone: Command) -> None:
    await alone("apply", "-f", "-", stdin=as_json(config_map("fixed", data={"a": "1"}, immutable=True)))
    stream = as_json(config_map("first"), config_map("fixed", data={"a": "2"}, immutable=True))
    refused = await alone("apply", "-f", "-", stdin=stream)
    assert (refused.code, refused.out) == (2, "")
    assert (
        'The ConfigMap "fixed" is invalid: data: Forbidden: field is immutable when `immutable` is set' in refused.err
    )
    assert (await alone("get", "cm", "-o", "name")).out == "configmap/fixed\n"
    planned = await alone("plan", "-f", "-", stdin=stream)
    assert planned.code == 2
    withheld = "configmap/first: would not be applied, since the whole apply is refused for configmap/fixed\n"
    assert planned.out == f"{withheld}configmap/fixed: would be refused\n"


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (secret(data={"k": "%"}), "secret keys: data[k]: must be base64"),
        (secret(type="kubernetes.io/tls"), "secret keys: data[tls.crt]: required with type kubernetes.io/tls"),
        (config_map("A"), "configmap A: metadata.name: must consist of lower-case letters"),
        (config_map(data={"k": 1}), "data[k]: must be a string; put it in quotes"),
        (config_map(dta={}), "dta: unknown field; did you mean data?"),
    ],
)
async def test_an_invalid_object_is_named(alone: Command, document: dict[str, Any], sentence: str) -> None:
    refused = await alone("apply", "-f", "-", stdin=as_json(config_map("first"), document))
    assert (refused.code, refused.out) == (2, "")
    assert sentence in refused.err
    assert (await alone("get", "cm", "-o", "name")).out == ""


async def test_a_duplicate_object_is_refused_but_not_one_of_another_kind(alone: Command) -> None:
    twice = await alone("apply", "-f", "-", stdin=as_json(config_map("a"), config_map("a")))
    assert twice.code == 2 and "configmap default/a: given twice" in twice.err
    assert (await alone("apply", "-f", "-", stdin=as_json(config_map("a"), secret("a")))).code == 0


async def test_objects_and_pods_are_applied_and_planned_together(
    syncpod: Command, node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = fresh_name()
    monkeypatch.setenv("SYNCPOD_NODE", node.queue.removeprefix("node/"))
    stream = as_json(manifest(name)) + "\n" + BOTH
    planned = await syncpod("plan", "-f", "-", stdin=stream)
    assert planned.out.startswith("configmap/settings: would be created\nsecret/keys: would be created\npod/")
    made = await syncpod("apply", "-f", "-", "--wait", stdin=stream)
    assert made.out == (f"configmap/settings created\nsecret/keys created\npod/{name} created\npod/{name} ready\n"), (
        made.err
    )
    both = await syncpod("get", f"pod/{name}", "cm/settings")
    assert f"pod/{name}" in both.out and "configmap/settings" in both.out
    assert (await syncpod("describe", f"pod/{name}", "cm/settings")).out.count("Namespace:") == 2
    gone = await syncpod("delete", "-f", "-", stdin=stream)
    assert gone.out == f'pod "{name}" deleted from default namespace\n{BOTH_DELETED}'


async def test_nothing_of_an_object_is_applied_for_another_node(
    syncpod: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNCPOD_NODE", "here")
    refused = await syncpod("apply", "-f", "-", "--node", "there", stdin=BOTH + as_json(manifest("web")))
    assert (refused.code, refused.out) == (2, "")
    assert "--node there: configmaps and secrets are kept on their node itself" in refused.err
    assert "is node here's: apply them there" in refused.err
    assert (await syncpod("get", "cm,secrets")).out == ""


def test_a_pod_of_another_node_is_not_applied_with_what_it_refers_to(tmp_path: Path) -> None:
    def given(node: str, secret: str) -> Manifests:
        spec = {"nodeName": node, "imagePullSecrets": [{"name": secret}]}
        pod = Pod.model_validate({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        return Manifests([Admission(pod, ())], [admit_object(parse_secret({"metadata": {"name": "keys"}}))])

    here = settings(node="here", state_dir=str(tmp_path))
    with pytest.raises(BadInput) as refused:
        require_possible(given("there", "keys"), here)
    assert str(refused.value).startswith(
        'pod web: spec.nodeName: is there, but spec.imagePullSecrets[0] names secret "keys"; configmaps and secrets are'
    )
    require_possible(given("there", "others"), here)
    require_possible(given("here", "keys"), here)


async def test_objects_belong_to_the_node_of_the_state_directory(alone: Command, tmp_path: Path) -> None:
    prepare(tmp_path / "state")
    (tmp_path / "state/node.json").write_text(json.dumps({"node": "there"}))
    assert (await alone("apply", "-f", "-", "--node", "there", stdin=BOTH)).code == 0
    assert "is node there's" in (await alone("apply", "-f", "-", "--node", "here", stdin=BOTH)).err


async def test_a_secrets_directory_of_another_user_is_not_read(alone: Command, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "memory").symlink_to(tmp_path / "theirs")
    for command in (("get", "secrets"), ("apply", "-f", "-")):
        refused = await alone(*command, stdin=BOTH)
        assert refused.code == 2 and "is not a directory that this user owns" in refused.err
    assert not list((tmp_path / "theirs").iterdir())


def test_secrets_are_read_where_the_last_worker_kept_them_unless_overridden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SYNCPOD_MEMORY_DIR", raising=False)
    here = settings(state_dir=str(tmp_path))
    assert memory_directory_of(here, is_named=False) == here.memory_dir
    me = identify(os.getpid())
    assert me is not None
    write_worker(tmp_path, StartedWorker(me, "vm", "/logs", "unix:///a", "127.0.0.1:1", "default", True, "/before"))
    assert memory_directory_of(here, is_named=False) == Path("/before")
    named = settings(state_dir=str(tmp_path), memory_dir="/named")
    assert memory_directory_of(named, is_named=True) == Path("/named")


async def test_a_corrupt_object_file_is_named(alone: Command, tmp_path: Path) -> None:
    await alone("apply", "-f", "-", stdin=BOTH)
    (tmp_path / "memory/objects/secrets/default/keys.json").write_text("hunter2")
    spoilt = await alone("get", "secrets")
    assert spoilt.code == 1 and "keys.json: holds no Secret" in spoilt.err and "hunter2" not in spoilt.err


async def test_a_repeated_problem_is_summarised(alone: Command) -> None:
    refused = await alone("apply", "-f", "-", stdin=as_json(config_map(data={f"/{n}": "" for n in range(1000)})))
    assert refused.code == 2
    assert refused.err.count("\n") == 21
    assert refused.err.endswith("configmap settings: and 980 more\n")


def test_a_watch_of_objects_prints_a_line_for_each_change(tmp_path: Path) -> None:
    environ = {"SYNCPOD_STATE_DIR": str(tmp_path / "state"), "SYNCPOD_MEMORY_DIR": str(tmp_path / "memory")}
    make = ("create", "configmap")
    program(*make, "first", environ=environ)
    command = [sys.executable, "-m", "syncpod.cli.main", "get", "cm", "-w", "-o", "name"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environ}) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline() == "configmap/first\n"
        program(*make, "second", environ=environ)
        assert watch.stdout.readline() == "configmap/second\n"
        watch.send_signal(signal.SIGINT)
        assert watch.wait(30) == 130


async def test_an_object_may_have_up_to_one_mebibyte(alone: Command) -> None:
    assert (await alone("apply", "-f", "-", stdin=as_json(config_map(data={"a": "x" * 2**20})))).code == 0
    refused = await alone("apply", "-f", "-", stdin=as_json(config_map(data={"a": "x" * 2**20, "b": "y"})))
    assert refused.code == 2 and "data: must be no more than 1 MiB in all" in refused.err


# --- create -----------------------------------------------------------------------------------------------------------


async def test_a_config_map_is_created_of_literals_and_files(alone: Command, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/text").write_text("t")
    (tmp_path / "files/blob").write_bytes(b"\xff\x00")
    (tmp_path / "files/link").symlink_to("text")
    (tmp_path / "files/sub").mkdir()
    flags = ("--from-literal=a=1=2", "--from-literal", "q='quoted'", f"--from-file={tmp_path}/files")
    made = await alone("create", "configmap", "settings", *flags, f"--from-file=named={tmp_path}/files/text")
    assert (made.code, made.out) == (0, "configmap/settings created\n"), made.err
    found = yaml.safe_load((await alone("get", "cm", "settings", "-o", "yaml")).out)
    assert found["data"] == {"a": "1=2", "q": "quoted", "text": "t", "named": "t"}
    assert found["binaryData"] == {"blob": "/wA="}
    again = await alone("create", "cm", "settings")
    assert (again.code, again.err) == (1, 'syncpod: configmaps "settings" already exists in namespace default\n')


async def test_a_config_map_is_created_from_an_env_file(
    alone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_OUTSIDE", "o")
    (tmp_path / "env").write_bytes(b"\xef\xbb\xbf# comment\n\n  A=1\r\nB=x=y # kept\nFROM_OUTSIDE\nUNSET_ANYWHERE_\n")
    printed = await alone(
        "create", "secret", "generic", "s", f"--from-env-file={tmp_path}/env", "--dry-run=client", "-oyaml"
    )
    data = {key: base64.b64decode(text).decode() for key, text in yaml.safe_load(printed.out)["data"].items()}
    assert data == {"A": "1", "B": "x=y # kept", "FROM_OUTSIDE": "o", "UNSET_ANYWHERE_": ""}
    assert (await alone("get", "secrets")).out == "", "a dry run makes nothing"


async def test_a_pull_secret_is_created_with_its_password_from_standard_input(alone: Command) -> None:
    flags = ("--docker-server=reg.test", "--docker-username=me", "--docker-password-stdin", "--docker-email=me@a.test")
    made = await alone("create", "secret", "docker-registry", "pull", *flags, stdin="hunter2\n")
    assert (made.code, made.out) == (0, "secret/pull created\n"), made.err
    found = yaml.safe_load((await alone("get", "secret", "pull", "-o", "yaml")).out)
    assert found["type"] == "kubernetes.io/dockerconfigjson"
    assert json.loads(base64.b64decode(found["data"][".dockerconfigjson"])) == {
        "auths": {
            "reg.test": {
                "username": "me",
                "password": "hunter2",
                "email": "me@a.test",
                "auth": base64.b64encode(b"me:hunter2").decode(),
            }
        }
    }


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate and its key."""
    if shutil.which("openssl") is None:
        do_without("openssl", "there is none here to make a certificate with")
    place = tmp_path_factory.mktemp("tls")
    cert, key = str(place / "cert.pem"), str(place / "key.pem")
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-subj",
        "/CN=a.test",
    ]
    subprocess.run([*make, "-subj", "/CN=a.test", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


async def test_a_tls_secret_is_a_certificate_and_its_own_key(
    alone: Command, pair: tuple[str, str], tmp_path: Path
) -> None:
    cert, key = pair
    made = await alone("create", "secret", "tls", "web", f"--cert={cert}", f"--key={key}", "--immutable", "-o", "json")
    assert made.code == 0, made.err
    found = json.loads(made.out)
    assert base64.b64decode(found["data"]["tls.crt"]).startswith(b"-----BEGIN CERTIFICATE-----")
    assert (found["type"], found["immutable"]) == ("kubernetes.io/tls", True)
    (tmp_path / "other").write_text("no key")
    wrong = await alone("create", "secret", "tls", "other", f"--cert={cert}", f"--key={tmp_path}/other")
    assert wrong.code == 2 and "must be a PEM certificate and the private key that belongs to it" in wrong.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("configmap", "x", "--from-literal=hunter2"), "--from-literal: must be KEY=VALUE"),
        (("configmap", "x", "--from-literal=a/b=1"), "key 'a/b': must consist of"),
        (("configmap", "x", "--from-literal=a=1", "--from-literal=a=2"), "key 'a' is given twice"),
        (("configmap", "x", "--from-file=/none"), "--from-file: /none: No such file or directory"),
        (("configmap", "x", "--from-file=a=b=c"), "must be FILE, KEY=FILE or a directory"),
        (("configmap", "x", "--from-file=k=/"), "a directory takes no key"),
        (("configmap", "x", "--from-env-file=/dev/null", "--from-literal=a=1"), "does not go together"),
        (("configmap", "X"), "configmap X: metadata.name: must consist of"),
        (("configmap", "x", "--dry-run=server"), "--dry-run: must be none or client, not server"),
        (("configmap", "x", "-o", "html"), "--output: must be json, yaml, name, not html"),
        (("secret", "generic", "x", "--type=kubernetes.io/tls"), "data[tls.crt]: required with type"),
        (("secret", "docker-registry", "x", "--docker-username=me"), "give --docker-username and the password"),
        (("secret", "docker-registry", "x", "--from-file=/dev/null"), "data[.dockerconfigjson]: must be a JSON object"),
        (("secret", "docker-registry", "x", "--from-file=a", "--docker-username=b"), "either --from-file or"),
        (("secret", "tls", "x", "--cert=/none", "--key=/none"), "--cert: /none: No such file or directory"),
        (("secret", "tls", "x"), "Missing option '--cert'"),
    ],
)
async def test_an_impossible_create_is_refused_in_one_sentence(
    alone: Command, arguments: tuple[str, ...], sentence: str
) -> None:
    refused = await alone("create", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert sentence in refused.err and "hunter2" not in refused.err
    assert (await alone("get", "cm,secrets")).out == ""
