# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The installed adaptor behind the real aggregation layer: who is answered, with what certificate, and what there is when it goes."""

from __future__ import annotations

import base64
import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
from metrics_adaptor.finder import Finder
from metrics_adaptor.front import Front

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import certificates as library
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.client import connect_program
from ansible_collections.ascend.mindie.plugins.module_utils._motor import certificates
from ansible_collections.ascend.mindie.plugins.module_utils._motor.certificates import DAY
from tests.cluster.certificates import Authority
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.kube_client import wait_for
from tests.functional import rights
from tests.functional.adaptor_rights import LOOKING, TRUSTING
from tests.support.adaptor import API, API_SERVICE, Adaptor, selector
from tests.support.autoscaling import IMAGE, NAME, QUICK, Scene, Service
from tests.support.engines import Load
from tests.support.playbooks import PlaybookFailed
from tests.tools.environment import environment

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Scene(a3_nodes=12) as found:
        yield found


@pytest.fixture(scope="module")
def service(scene: Scene) -> Service:
    """A service with something to do."""
    found = scene.service()
    found.coordinator.loads = {"prefill": Load(waiting=7, running=2, finished=1), "decode": Load(running=5, finished=1)}
    return found


@pytest.fixture(scope="module")
def installed(scene: Scene, service: Service) -> Iterator[Adaptor]:
    """The adaptor as its playbook installs it; not to be changed."""
    with Adaptor(scene.cluster, f"system-{next(_NUMBERS)}") as found:
        (result,) = found.install(service.namespace).results
        assert result["program"]["missing"] == ""
        yield found
        found.remove()


def test_it_serves_the_load_of_a_service_to_who_reads_it_through_the_api_server(installed: Adaptor, service: Service) -> None:
    installed.until_value(service.namespace, "num_requests_waiting", "prefill", "7")
    installed.until_value(service.namespace, "vllm:num_requests_running", "decode", "5")
    found = json.loads(installed.cluster.kubectl("get", "--raw", API))
    assert {"num_requests_waiting", "time_to_first_token_seconds_p99"} <= {row["name"] for row in found["resources"]}
    assert "external.metrics.k8s.io/v1beta1" in installed.cluster.kubectl("api-versions")


def test_what_there_is_not_is_told_through_the_api_server(installed: Adaptor, service: Service) -> None:
    status, found = installed.metric(service.namespace, "no_such_metric", "prefill")
    assert (status, found["kind"], found["reason"]) == (404, "Status", "NotFound") and "num_requests_waiting" in found["message"]
    status, found = installed.metric("elsewhere", "num_requests_waiting", "prefill")
    assert status == 404 and "it has none" in found["message"]
    assert installed.read(service.namespace, "num_requests_waiting", "a=1=2")[0] == 400


def test_who_may_not_read_metrics_is_refused_by_the_api_server(installed: Adaptor, service: Service) -> None:
    account = f"/api/v1/namespaces/{installed.namespace}/serviceaccounts/default/token"
    token = installed.cluster.request("POST", account, {"spec": {}})[1]["status"]["token"]
    status, found = installed.read(service.namespace, "num_requests_waiting", selector("prefill"), token=token)
    assert status == 403 and "external.metrics.k8s.io" in found["message"]


def test_nobody_but_the_api_server_is_answered(installed: Adaptor) -> None:
    """Neither without a certificate, be it with a token or with the headers that the API server would send, nor with a false one."""
    account = f"/api/v1/namespaces/{installed.namespace}/serviceaccounts/{NAME}/token"
    token = installed.cluster.request("POST", account, {"spec": {}})[1]["status"]["token"]
    headers = ({}, {"Authorization": f"Bearer {token}"}, {"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"})
    for pod in installed.pods():
        for given in headers:
            status, found = installed.direct(pod, **given)
            assert (status, found["reason"]) == (401, "Unauthorized"), given


def pair(folder: Path, issued: tuple[bytes, bytes]) -> tuple[Path, Path]:
    number = next(_NUMBERS)
    paths = folder / f"{number}.crt", folder / f"{number}.key"
    for path, content in zip(paths, issued, strict=True):
        path.write_bytes(content)
    return paths


def test_only_the_front_proxys_authority_and_name_are_good(installed: Adaptor, tmp_path: Path) -> None:
    (pod, *dummy) = installed.pods()
    folder = installed.cluster.directory
    assert installed.direct(pod, certificate=(folder / "front.crt", folder / "front.key"))[0] == 200
    front = Authority.load("front-proxy", folder / "front-ca.crt", folder / "front-ca.key")
    status, found = installed.direct(pod, certificate=pair(tmp_path, front.issue("somebody")))
    assert (status, found["reason"]) == (403, "Forbidden") and "'somebody'" in found["message"]
    with pytest.raises(OSError):
        installed.direct(pod, certificate=pair(tmp_path, Authority.new("front-proxy").issue("front-proxy-client")))
    authority = installed.cluster._authority  # that of the cluster's users, administrators among them
    assert authority
    with pytest.raises(OSError):
        installed.direct(pod, certificate=pair(tmp_path, authority.issue("front-proxy-client", organizations=("system:masters",))))


def test_health_and_metrics_are_told_in_plain_http_and_nothing_else_is(installed: Adaptor, service: Service) -> None:
    installed.until_value(service.namespace, "num_requests_waiting", "prefill", "7")
    for pod in installed.pods():
        status, text = installed.plain(pod, "/healthz")
        assert status == 200 and json.loads(text)["alive"]
        assert installed.plain(pod, f"{API}/namespaces/{service.namespace}/num_requests_waiting")[0] == 404
        assert f'motor_adaptor_scrapes_total{{namespace="{service.namespace}",service="vllm-0"}}' in installed.plain(pod, "/metrics")[1]
    told = "".join(installed.plain(pod, "/metrics")[1] for pod in installed.pods())
    assert 'motor_adaptor_requests_total{asked="value",code="200"}' in told and "motor_adaptor_ready 1" in told


def test_its_rights_are_those_of_the_roles_table_and_no_secret_is_among_them(installed: Adaptor, service: Service) -> None:
    user = f"system:serviceaccount:{installed.namespace}:{NAME}"

    def may(verb: str, resource: str, namespace: str, group: str = "", name: str = "") -> bool:
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name}
        body = {"spec": {"user": user, "resourceAttributes": attributes}}
        return bool(installed.cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)[1]["status"]["allowed"])

    assert may("watch", "pods", service.namespace) and may("list", "inferservicesets", service.namespace, "mindcluster.huawei.com")
    assert may("get", "configmaps", "kube-system", name="extension-apiserver-authentication")
    assert not may("get", "configmaps", "kube-system", name="other") and not may("list", "configmaps", "kube-system")
    for place in (service.namespace, installed.namespace, "kube-system"):
        assert not may("get", "secrets", place) and not may("create", "pods", place) and not may("patch", "deployments", place, "apps")


@pytest.fixture
def adaptor(scene: Scene) -> Iterator[Adaptor]:
    """An adaptor that is not installed yet, in the place of the one for all tests."""
    number = next(_NUMBERS)
    scene.cluster.request("DELETE", API_SERVICE)
    with Adaptor(scene.cluster, f"system-{number}") as found:
        yield found


class Reader:
    """Reads one metric all the time, from several threads, and keeps what was not an answer."""

    def __init__(self, adaptor: Adaptor, service: Service) -> None:
        self._adaptor, self._service = adaptor, service
        self._end = threading.Event()
        self.good, self.bad = 0, list[Any]()
        self._threads = [threading.Thread(target=self._run) for dummy in range(3)]

    def __enter__(self) -> Reader:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.02):
            status, found = self._adaptor.metric(self._service.namespace, "num_requests_waiting", "prefill")
            if status == 200:
                self.good += 1
            else:
                self.bad.append((status, found))


def age(adaptor: Adaptor, days: float) -> None:
    """Have the adaptor, its pods and the API server use a certificate that was made so many days ago."""
    at = time.time() - days * DAY
    old = library.make(certificates.names(NAME, adaptor.namespace), at)
    merge = "application/merge-patch+json"
    texts = {"tls.crt": old.certificate, "tls.key": old.private_key, "ca.crt": old.authority}
    data = {"data": {name: certificates.encoded(text) for name, text in texts.items()}}
    data["metadata"] = {"annotations": {certificates.SINCE: str(int(at))}}
    path = f"/api/v1/namespaces/{adaptor.namespace}/secrets/{NAME}"
    assert adaptor.cluster.request("PATCH", path, data, content_type=merge)[0] == 200
    spec = {"spec": {"caBundle": certificates.encoded(old.authority)}}
    assert adaptor.cluster.request("PATCH", API_SERVICE, spec, content_type=merge)[0] == 200
    deliver(adaptor)


def deliver(adaptor: Adaptor) -> None:
    """What a kubelet does within two minutes, and what the pods then do."""
    for pod in adaptor.pods():
        adaptor.runner.refresh(pod)
    wanted = adaptor.secret()["tls.crt"]
    wait_for(lambda: all(adaptor.shown(pod).strip() == wanted.strip() for pod in adaptor.pods()), 15, "the pods show the certificate")


def test_a_certificate_is_renewed_without_a_restart_and_without_a_gap(adaptor: Adaptor, service: Service) -> None:
    adaptor.install(service.namespace)
    age(adaptor, 340)
    adaptor.until_value(service.namespace, "num_requests_waiting", "prefill", "7")
    before = {(pod.name, process.pid) for pod in adaptor.pods() for process in pod.processes.values()}
    old = adaptor.secret()
    with Reader(adaptor, service) as reader:
        done = adaptor.play(namespaces=[service.namespace], image=IMAGE, **QUICK)
        assert [action["kind"] for action in done.actions] == ["APIService", "Secret"]
        time.sleep(2)
        first, *others = adaptor.pods()
        adaptor.runner.refresh(first)  # servers bring it at their own time: one pod shows the new one, the other the old one
        wait_for(lambda: adaptor.shown(first).strip() == adaptor.secret()["tls.crt"].strip(), 15, "the first pod shows it")
        assert all(adaptor.shown(pod).strip() == old["tls.crt"].strip() for pod in others)
        time.sleep(1)
        deliver(adaptor)
        time.sleep(1)
    assert reader.good > 20 and reader.bad == []
    assert {(pod.name, process.pid) for pod in adaptor.pods() for process in pod.processes.values()} == before
    assert not adaptor.play(namespaces=[service.namespace], image=IMAGE, **QUICK).actions
    adaptor.remove()


def test_a_pod_that_is_told_to_stop_answers_a_moment_longer_and_ends_in_order(adaptor: Adaptor, service: Service) -> None:
    adaptor.install(service.namespace, replicas=1)
    (pod,) = adaptor.pods()
    front = adaptor.cluster.directory / "front.crt", adaptor.cluster.directory / "front.key"
    adaptor.signal(signal.SIGTERM)
    time.sleep(0.5)
    assert adaptor.direct(pod, certificate=front)[0] == 200
    wait_for(lambda: not pod.alive(), 10, "it has ended")
    assert [process.returncode for process in pod.processes.values()] == [0] and "stopped in order" in pod.log()
    adaptor.remove()


def test_uninstalled_the_api_goes_first_and_namespaces_can_be_deleted(adaptor: Adaptor, scene: Scene, service: Service) -> None:
    adaptor.install(service.namespace)
    other = scene.cluster.create_namespace(f"other-{next(_NUMBERS)}")
    actions = adaptor.remove().actions
    assert (actions[0]["verb"], actions[0]["kind"]) == ("delete", "APIService")
    assert adaptor.cluster.request("GET", API_SERVICE)[0] == 404
    for namespace in (other, adaptor.namespace):
        assert scene.cluster.request("DELETE", f"/api/v1/namespaces/{namespace}")[0] == 200
    for namespace in (other, adaptor.namespace):
        wait_for(lambda namespace=namespace: scene.cluster.request("GET", f"/api/v1/namespaces/{namespace}")[0] == 404, 30, "it is gone")


def test_an_api_of_another_provider_is_refused_and_works_on(adaptor: Adaptor, service: Service) -> None:
    spec = {"group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100}
    spec.update(service={"name": "keda", "namespace": "default"}, insecureSkipTLSVerify=True)
    body = {"metadata": {"name": API_SERVICE.rsplit("/", 1)[1]}, "spec": spec}
    assert adaptor.cluster.request("POST", API_SERVICE.rsplit("/", 1)[0], body)[0] == 201
    with pytest.raises(PlaybookFailed, match="mindie_adaptor: existing"):
        adaptor.play(namespaces=[service.namespace], image=IMAGE, create_namespace=True)
    assert adaptor.cluster.get(API_SERVICE)["spec"]["service"]["name"] == "keda"
    assert adaptor.cluster.request("GET", f"/api/v1/namespaces/{adaptor.namespace}")[0] == 404, "nothing was made"


@pytest.mark.parametrize("given", [False, True])
def test_no_key_is_in_anything_that_a_run_at_vvv_prints_or_stores(adaptor: Adaptor, service: Service, tmp_path: Path, given: bool) -> None:
    mine = library.make(certificates.names(NAME, adaptor.namespace), time.time())
    variables: dict[str, Any] = {"namespace": adaptor.namespace, "namespaces": [service.namespace], "image": IMAGE, "wait": False}
    variables["create_namespace"] = True
    if given:
        variables.update(certificate=mine.certificate, private_key=mine.private_key, ca=mine.authority)
    said = [vvv(adaptor, tmp_path / name, variables, check=name == "predicted") for name in ("predicted", "installed", "again")]
    serving = adaptor.secret()
    assert not given or serving["tls.key"] == mine.private_key
    said.append(vvv(adaptor, tmp_path / "removed", {**variables, "state": "absent"}))
    key = serving["tls.key"]
    parts = [*key.splitlines()[1:-1], base64.b64encode(key.encode()).decode()[60:120]]
    for text in said:
        assert "invocation" in text and not [part for part in parts if part in text]
    assert f"Secret {adaptor.namespace}/{NAME}" in said[1], "the diff was shown"


def vvv(adaptor: Adaptor, place: Path, variables: dict[str, Any], *, check: bool = False) -> str:
    """Everything that a run with -vvv and --diff prints and keeps."""
    place.mkdir()
    hosts = {"here": {f"mindie_adaptor_{name}": value for name, value in variables.items()}}
    done = ansible_runner.run(
        private_data_dir=str(place),
        playbook="ascend.mindie.adaptor",
        inventory={"all": {"children": {"motor_clusters": {"hosts": hosts}}}},
        envvars={**environment(), "K8S_AUTH_KUBECONFIG": str(adaptor.cluster.kubeconfig)},
        cmdline="--diff --check" if check else "--diff",
        verbosity=3,
        quiet=True,
    )
    assert done.status == "successful", done.stdout.read()[-2000:]
    files = [file for file in (place / "artifacts").rglob("*") if file.is_file() and "fact_cache" not in str(file)]
    return "\n".join(file.read_text(errors="replace") for file in files)


def test_it_uses_every_right_of_the_roles_table_and_needs_no_other(scene: Scene, service: Service, tmp_path: Path) -> None:
    name = f"adaptor-{next(_NUMBERS)}"
    for rules, namespace in ((LOOKING, service.namespace), (TRUSTING, "kube-system")):
        kubeconfig = scene.cluster.user_kubeconfig(name, rules, namespace)
    serving = library.make(["adaptor.system.svc"], time.time())
    (tmp_path / "tls.crt").write_text(serving.certificate)
    (tmp_path / "tls.key").write_text(serving.private_key)
    with FaultProxy(scene.cluster, kubeconfig=kubeconfig) as proxy:
        api = connect_program(proxy.kubeconfig)
        finder, front = Finder(api, [service.namespace]), Front(api, tmp_path)
        front.start()
        try:
            wait_for(lambda: all(health.synced for health in finder.health()), 20, "everything is listed")
            assert front.ready and front.problems == {} and [found.name for found in finder.services()] == ["vllm-0"]
            wanted = {(verb, resource) for rule in (*LOOKING, *TRUSTING) for resource in rule["resources"] for verb in rule["verbs"]}
            wait_for(lambda: {(right.verb, right.resource) for right in rights.of_requests(proxy.requests)} == wanted, 10, "all are used")
        finally:
            front.stop()
            finder.stop()
