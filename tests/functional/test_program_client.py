# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program connects as the ServiceAccount of its pod or with a kubeconfig, with the oldest supported client library, too."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import client, metadata_list
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import ApiError
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.client import connect_program
from tests.cluster import Cluster
from tests.cluster.pod_runner import program_venv
from tests.tools.environment import CACHE, COLLECTIONS


@pytest.fixture
def account(cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a ServiceAccount, and the environment of a pod."""
    server = urlsplit(cluster.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(server.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    monkeypatch.setattr(client, "ACCOUNT", tmp_path)
    (tmp_path / "ca.crt").write_bytes(cluster.ca_file.read_bytes())
    (tmp_path / "token").write_text(token(cluster, namespace))
    return tmp_path


def token(cluster: Cluster, namespace: str) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    return str(cluster.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token", body)[1]["status"]["token"])


def test_in_a_pod_it_is_the_service_account_of_the_pod(account: Path, namespace: str) -> None:
    api = connect_program()
    assert {"apps", "coordination.k8s.io"} <= api.groups and api.requests == 1
    with pytest.raises(ApiError, match=f"system:serviceaccount:{namespace}:default") as error:
        api.list_objects("ConfigMap", namespace)
    assert error.value.status == 403


def test_a_token_that_was_renewed_is_used(account: Path, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api = connect_program()
    monkeypatch.setattr(client, "TOKEN_SECONDS", 0.0)
    (account / "token").write_text("not-a-token")
    with pytest.raises(ApiError) as refused:
        api.list_objects("ConfigMap", namespace)
    assert refused.value.status == 401, "the server does not know whose token it is"
    (account / "token").write_text(token(cluster, namespace) + "\n")
    with pytest.raises(ApiError) as refused:
        api.list_objects("ConfigMap", namespace)
    assert refused.value.status == 403, "it does, and this account may not"


def test_the_authority_of_the_cluster_is_checked(account: Path, cluster: Cluster) -> None:
    (account / "ca.crt").write_bytes((cluster.directory / "front-ca.crt").read_bytes())
    with pytest.raises(ApiError) as error:
        connect_program()
    assert error.value.reason == "CertificateInvalid"


def test_outside_of_a_pod_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ApiError, match="Name a kubeconfig") as error:
        connect_program()
    assert error.value.reason == "NoConfiguration"
    with pytest.raises(ApiError, match="absent") as error:
        connect_program(str(tmp_path / "absent"))
    assert error.value.reason == "NoConfiguration"


PROGRAM = """
import json, sys, threading, time
sys.path.insert(0, sys.argv[1])
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.client import connect_program
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.election import Election
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.watch import Watch
kubeconfig, namespace = sys.argv[2:]
api, changed = connect_program(kubeconfig), threading.Event()
watch = Watch(api, "Lease", namespace, changed, relist_every=300.0, lasting=())
election = Election(api, namespace, "watcher", "pod-a", 5.0)
election.start()
until = time.monotonic() + 20
while not (election.leading and watch.objects()) and time.monotonic() < until:
    changed.wait(0.05)
election.note("noted")
election.stop()
import kubernetes
foreign = sorted({name.partition(".")[0] for name in sys.modules} & {"ansible", "jsonpatch"})
holders = [lease["metadata"]["name"] for lease in watch.objects()]
print(json.dumps({"version": kubernetes.__version__, "leases": holders, "foreign": foreign, "errors": watch.health.errors}))
"""


def test_everything_works_with_the_oldest_client_and_without_ansible(cluster: Cluster, namespace: str) -> None:
    command = [str(program_venv(CACHE) / "bin" / "python"), "-c", PROGRAM, str(COLLECTIONS), cluster.kubeconfig, namespace]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"version": "26.1.0", "leases": ["watcher"], "foreign": [], "errors": ""} and ended.stderr == ""


# Besides the version, in which an operator may have made another one since.
TOLD = ("name", "namespace", "uid")


@pytest.mark.parametrize(("kind", "made"), [("ConfigMap", "v1"), ("AscendJob", "mindxdl.gitee.com/v1")])
def test_a_list_of_metadata_has_no_more_than_says_which_objects_there_are(cluster: Cluster, namespace: str, kind: str, made: str) -> None:
    """In pages, as the server writes them in protobuf, whether the kind is one of its own or of a CRD."""
    api = connect_program(str(cluster.kubeconfig))
    content = {"data": {"text": "long " * 1000}} if kind == "ConfigMap" else {"spec": {"replicaSpecs": {}}}
    for number in range(3):
        api.create({"apiVersion": made, "kind": kind, "metadata": {"name": f"one-{number}", "namespace": namespace}, **content})
    whole = api.list_objects(kind, namespace)
    pages = list(api.pages(kind, namespace, form=metadata_list.FORM))
    items = [item for page in pages for item in page.items]
    wanted = [{"kind": kind, "apiVersion": made, "metadata": {name: item["metadata"][name] for name in TOLD}} for item in whole.items]
    versions = [item["metadata"].pop("resourceVersion") for item in items]
    assert items == wanted and len(items) >= 3
    assert all(version.isdecimal() for version in (*versions, pages[-1].resource_version))
