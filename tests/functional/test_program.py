# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program in the cluster: installed, run as installed, changed, removed without a trace, whatever comes in between."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.lookup.program_archive import build
from tests.cluster import Cluster
from tests.cluster.fault_proxy import AFTER, BEFORE, FaultProxy
from tests.cluster.kube_client import KubeClient, wait_for
from tests.cluster.pod_runner import PodRunner
from tests.functional.conftest import Driver
from tests.functional.programs import ARCHIVE, ECHO, NAME, PODS, Programs, everything
from tests.functional.test_modules import succeeded
from tests.support.module_process import ModuleProcess
from tests.tools.environment import CACHE

LEDGER = "ascend.mindie/namespaces"


@pytest.fixture
def programs(cluster: Cluster, proxy: FaultProxy, namespace: str) -> Iterator[Programs]:
    """A program that is not installed yet."""
    found = Programs(cluster, proxy, namespace)
    yield found
    found.close()


def other_archive(folder: Path) -> str:
    """The program with another word in it."""
    copy = Path(shutil.copytree(ECHO, folder / "echo"))
    (copy / "words.txt").write_text("other words\n")
    return base64.b64encode(build(copy)).decode()


def unchanged(result: dict[str, Any], programs: Programs) -> None:
    assert not succeeded(result)["changed"] and result["actions"] == []
    assert programs.proxy.mutating() == [], "nothing is written when nothing is to be changed"


def test_installed_it_runs_as_its_pod_says_and_a_second_run_writes_nothing(programs: Programs) -> None:
    result = succeeded(programs.install())
    assert result["changed"] and result["program"]["pods_ready"] == 2 and result["program"]["missing"] == ""
    unchanged(programs.install(), programs)
    with PodRunner(KubeClient.from_kubeconfig(programs.cluster.kubeconfig), CACHE) as runner:
        names = [pod["metadata"]["name"] for pod in programs.cluster.get(programs.path("pods", programs.namespace))["items"]]
        running = [runner.start(programs.namespace, name) for name in names]
        for pod in running:
            pod.wait_port(8080)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            answer = json.loads(opener.open(f"http://{pod.address}:8080/healthz", timeout=5).read())
            wanted = {"settings": {"port": 8080}, "words": "hello from the archive", "manager": "ascend.mindie", "PROGRAM_NAME": NAME}
            assert wanted.items() <= answer.items()
            assert (answer["POD_NAME"], answer["POD_NAMESPACE"], answer["POD_IP"]) == (pod.name, programs.namespace, pod.address)
        running[0].stop(5)
        assert [process.returncode for process in running[0].processes.values()] == [0], "SIGTERM ends it in order"


def test_its_pods_have_no_privileges(programs: Programs) -> None:
    succeeded(programs.install())
    spec = programs.get("deployments")["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["readOnlyRootFilesystem"] and not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {probe: container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")} == dict.fromkeys(
        ("startupProbe", "readinessProbe", "livenessProbe"), "/healthz"
    )
    assert container["resources"]["requests"] and container["resources"]["limits"]
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
    assert not programs.get("serviceaccounts")["automountServiceAccountToken"]


def test_the_pod_security_standard_restricted_lets_its_pods_in(programs: Programs) -> None:
    programs.change("namespaces", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}, programs.namespace, "")
    assert succeeded(programs.install())["program"]["pods_ready"] == 2


def test_it_has_the_rights_that_it_was_given_and_no_others(programs: Programs) -> None:
    succeeded(programs.install())
    user = f"system:serviceaccount:{programs.namespace}:{NAME}"

    def may(verb: str, resource: str, namespace: str = "") -> bool:
        attributes = {"verb": verb, "group": "", "resource": resource, "namespace": namespace}
        body = {"spec": {"user": user, "resourceAttributes": attributes}}
        return bool(programs.must("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)["status"]["allowed"])

    wait_for(lambda: may("watch", "nodes") and all(may("list", "pods", place) for place in programs.watched), 10, "the rights")
    assert not may("list", "pods", programs.namespace) and not may("list", "pods") and not may("delete", "pods", programs.watched[0])


def test_who_may_escalate_and_bind_does_not_need_the_rights_that_he_gives(programs: Programs) -> None:
    resources = ["configmaps", "serviceaccounts", "services", "deployments", "poddisruptionbudgets", "namespaces", "leases", "pods"]
    verbs = ["get", "list", "create", "update"]
    roles = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": [*verbs, "escalate", "bind"]}
    held = [{"apiGroups": ["", "apps", "policy", "coordination.k8s.io"], "resources": resources, "verbs": verbs}, roles]
    kubeconfig = programs.cluster.user_kubeconfig(f"installer-of-{programs.namespace}", held)
    wait_for(lambda: not programs.install(kubeconfig=kubeconfig, check_mode=True).get("failed"), 10, "the rights")
    asking_for_more = [{"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}]
    succeeded(programs.install(kubeconfig=kubeconfig, rights=asking_for_more))


def test_other_code_or_settings_replace_the_pods_and_nothing_else_does(programs: Programs, tmp_path: Path) -> None:
    succeeded(programs.install())
    before = programs.pods()
    succeeded(programs.install(rights=programs.rights(programs.watched[:1])))
    succeeded(programs.install(service=False))
    succeeded(programs.install(archive="\n".join(ARCHIVE[at : at + 76] for at in range(0, len(ARCHIVE), 76))))
    assert programs.pods() == before
    succeeded(programs.install(settings={"port": 8080, "more": True}))
    between = programs.pods()
    assert not between & before and len(between) == 2
    succeeded(programs.install(settings={"port": 8080, "more": True}, archive=other_archive(tmp_path)))
    assert not programs.pods() & between


def test_never_fewer_pods_than_wanted_are_ready_while_it_is_upgraded(programs: Programs, tmp_path: Path) -> None:
    succeeded(programs.install())
    programs.cluster.behave(programs.namespace, {}, {"fake/ready-after": "2s"})
    fewest = 2

    def count(*_: Any) -> None:
        nonlocal fewest
        fewest = min(fewest, int(programs.get("deployments")["status"].get("availableReplicas", 0)))

    programs.proxy.fault(method="GET", path="/deployments/", call=count)
    succeeded(programs.install(archive=other_archive(tmp_path)))
    assert fewest == 2


def test_namespaces_that_are_not_watched_any_more_lose_their_rights(programs: Programs) -> None:
    succeeded(programs.install())
    result = succeeded(programs.install(rights=programs.rights(programs.watched[1:])))
    assert [(action["verb"], action["kind"], action["namespace"]) for action in result["actions"]] == [
        ("delete", "RoleBinding", programs.watched[0]),
        ("delete", "Role", programs.watched[0]),
        ("update", "ConfigMap", programs.namespace),
    ]
    assert json.loads(programs.get("configmaps")["metadata"]["annotations"][LEDGER]) == programs.watched[1:]
    unchanged(programs.install(rights=programs.rights(programs.watched[1:])), programs)
    succeeded(programs.install(rights=[{"namespace": programs.watched[1], "rules": PODS}]))
    assert programs.get("clusterroles", programs.rights_name, "") is None
    assert programs.get("clusterrolebindings", programs.rights_name, "") is None


def test_a_namespace_that_was_deleted_is_forgotten(programs: Programs) -> None:
    succeeded(programs.install())
    gone = programs.watched[0]
    programs.must("DELETE", f"/api/v1/namespaces/{gone}")
    wait_for(lambda: programs.get("namespaces", gone, "") is None, 30, "the namespace is gone")
    refused = programs.install()
    assert refused["reason"] == "NamespaceMissing" and gone in refused["msg"] and not refused.get("changed")
    succeeded(programs.install(rights=programs.rights(programs.watched[1:])))
    unchanged(programs.install(rights=programs.rights(programs.watched[1:])), programs)


def test_what_somebody_changed_is_put_right_and_no_pod_is_touched(programs: Programs) -> None:
    succeeded(programs.install())
    before, picture = programs.pods(), programs.picture()
    more = [*PODS, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
    programs.change("roles", {"rules": more}, programs.rights_name, programs.watched[0])
    programs.change("clusterroles", {"rules": [{**PODS[0], "resourceNames": ["only-this"]}]}, programs.rights_name, "")
    programs.change("configmaps", {"data": {"more": "x"}})
    programs.change("services", {"spec": {"selector": {"app": "other"}}})
    programs.must("DELETE", programs.path("rolebindings", programs.watched[1], programs.rights_name))
    succeeded(programs.install())
    assert programs.picture() == picture and programs.pods() == before


def test_what_cannot_be_changed_is_made_anew(programs: Programs) -> None:
    succeeded(programs.install())
    picture = programs.picture()
    path = programs.path("rolebindings", programs.watched[0], programs.rights_name)
    binding = programs.cluster.get(path)
    programs.must("DELETE", path)
    reference = {**binding["roleRef"], "name": "other"}
    programs.must("POST", path.rsplit("/", 1)[0], {**binding, "metadata": _plain(binding["metadata"]), "roleRef": reference})
    result = succeeded(programs.install())
    assert [(action["verb"], action["kind"]) for action in result["actions"]] == [("delete", "RoleBinding"), ("create", "RoleBinding")]
    assert programs.picture() == picture


def _plain(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: metadata[key] for key in ("name", "namespace", "labels")}


def test_removed_nothing_is_left_of_it_in_the_whole_cluster(programs: Programs, cluster: Cluster) -> None:
    before = everything(cluster)
    succeeded(programs.install())
    assert len(programs.left_behind(before, 0)) > 10, "the comparison sees what was made"
    programs.elect()
    result = succeeded(programs.remove())
    assert result["actions"][0]["kind"] == "Deployment" and result["actions"][-1]["kind"] == "ConfigMap"
    assert ("delete", "Lease") in {(action["verb"], action["kind"]) for action in result["actions"]}
    assert programs.left_behind(before) == set()
    unchanged(programs.remove(), programs)


def test_removal_waits_for_the_pods_before_their_lease_and_rights_go(programs: Programs) -> None:
    programs.cluster.behave(programs.namespace, {}, {"fake/stop-after": "2s"})
    succeeded(programs.install())
    programs.elect()
    left: list[int] = []
    counted = {"method": "DELETE", "path": "/(leases|rolebindings|serviceaccounts)/"}
    programs.proxy.fault(
        **counted, call=lambda _: left.append(len(programs.cluster.get(programs.path("pods", programs.namespace))["items"]))
    )
    succeeded(programs.remove(wait=False))
    assert left and set(left) == {0}


def test_pods_that_do_not_stop_are_named_when_it_cannot_be_removed(programs: Programs) -> None:
    programs.cluster.behave(programs.namespace, {}, {"fake/stop-after": "600s"})
    succeeded(programs.install())
    failed = programs.remove(wait_timeout=2)
    assert failed["reason"] == "WaitTimeout" and "which do not stop" in failed["msg"] and failed["changed"]
    for pod in programs.cluster.get(programs.path("pods", programs.namespace))["items"]:
        assert f"{pod['metadata']['name']} on {pod['spec']['nodeName']}" in failed["msg"]
        body = {"gracePeriodSeconds": 0}
        programs.cluster.request("DELETE", programs.path("pods", programs.namespace, pod["metadata"]["name"]), body)
    succeeded(programs.remove())
    assert programs.picture() == {}


def test_what_is_somebody_elses_is_neither_taken_nor_removed(programs: Programs) -> None:
    body = {"metadata": {"name": NAME, "namespace": programs.namespace}, "data": {"x": "y"}}
    programs.must("POST", programs.path("configmaps", programs.namespace), body)
    refused = programs.install()
    assert refused["reason"] == "NotOurs" and f"ConfigMap {programs.namespace}/{NAME}" in refused["msg"]
    assert programs.proxy.mutating() == []
    unchanged(programs.remove(), programs)
    assert programs.get("configmaps")["data"] == {"x": "y"}


def test_two_programs_of_one_name_in_two_namespaces_do_not_mix(programs: Programs, cluster: Cluster, proxy: FaultProxy) -> None:
    second = Programs(cluster, proxy, cluster.create_namespace(f"{programs.namespace}-second"), watched=0)
    second.watched = programs.watched
    succeeded(programs.install())
    picture = programs.picture()
    succeeded(second.install())
    succeeded(second.remove())
    assert second.picture() == {} and programs.picture() == picture
    unchanged(programs.install(), programs)


def test_in_the_namespace_of_a_service_neither_touches_the_other(on_deployments: Driver, cluster: Cluster, proxy: FaultProxy) -> None:
    driver = on_deployments
    programs = Programs(cluster, proxy, driver.namespace, watched=0)
    succeeded(driver.deploy())
    service = succeeded(driver.run("motor_service_info", namespace=driver.namespace))["service"]
    rights = [*programs.rights(), {"namespace": driver.namespace, "rules": PODS}]
    succeeded(programs.install(rights=rights))
    picture = programs.picture()
    assert succeeded(driver.run("motor_service_info", namespace=driver.namespace))["service"] == service
    assert not succeeded(driver.deploy())["changed"]
    succeeded(driver.scale(prefill=1, decode=1))
    succeeded(driver.remove())
    assert programs.picture() == picture
    unchanged(programs.install(rights=rights), programs)
    succeeded(programs.remove())
    programs.close()


@pytest.mark.parametrize("verb", ["install", "change", "remove"])
def test_check_mode_predicts_what_is_done_and_sends_no_write(programs: Programs, verb: str) -> None:
    acts: dict[str, Callable[..., dict[str, Any]]] = {
        "install": programs.install,
        "change": lambda **options: programs.install(
            rights=programs.rights(programs.watched[1:]), settings={"port": 8080, "x": 1}, replicas=1, service=False, **options
        ),
        "remove": programs.remove,
    }
    if verb != "install":
        succeeded(programs.install())
    predicted = succeeded(acts[verb](check_mode=True, diff=True))
    assert programs.proxy.mutating() == [] and predicted["changed"]
    done = succeeded(acts[verb](diff=True))
    assert done["actions"] == predicted["actions"] and done["diff"] == predicted["diff"]
    assert not succeeded(acts[verb](check_mode=True))["changed"]


def test_the_diff_shows_what_changes_and_code_as_its_digest(programs: Programs) -> None:
    succeeded(programs.install())
    config_map = f"ConfigMap {programs.namespace}/{NAME}"
    diff = succeeded(programs.install(settings={"port": 8080, "x": 1}, diff=True))["diff"]
    assert set(diff["before"]) == set(diff["after"]) == {config_map, f"Deployment {programs.namespace}/{NAME}"}
    assert json.loads(diff["before"][config_map]["data"]["settings.json"]) == {"port": 8080}
    assert json.loads(diff["after"][config_map]["data"]["settings.json"]) == {"port": 8080, "x": 1}
    assert diff["after"][config_map]["binaryData"]["program.pyz"].startswith("sha256:")
    gone = succeeded(programs.remove(diff=True))["diff"]
    assert gone["after"] == {} and config_map in gone["before"]


def test_a_missing_namespace_is_created_only_when_that_is_wanted(programs: Programs, cluster: Cluster) -> None:
    programs.namespace = f"{programs.namespace}-new"
    for options in ({}, {"check_mode": True}):
        refused = programs.install(**options)
        assert refused["reason"] == "NamespaceMissing" and "create_namespace: true" in refused["msg"]
    unchanged(programs.remove(), programs)
    result = succeeded(programs.install(create_namespace=True))
    assert result["actions"][0]["kind"] == "Namespace"
    unchanged(programs.install(create_namespace=True), programs)
    succeeded(programs.remove())
    assert programs.get("namespaces", programs.namespace, "") is not None, "the namespace may be of use to others"
    cluster.request("DELETE", f"/api/v1/namespaces/{programs.namespace}")


ACTS = ("install", "change", "remove")


def act(programs: Programs, name: str, **options: Any) -> dict[str, Any]:
    if name == "remove":
        return programs.remove(**options)
    if name == "install":
        return programs.install(**options)
    changed = {"rights": programs.rights(programs.watched[1:]), "settings": {"port": 9090}, "port": 9090, "service": False, "replicas": 1}
    return programs.install(**changed, **options)


def prepare(programs: Programs, name: str) -> None:
    """From wherever it is to where the act starts."""
    if name == "install":
        succeeded(programs.remove())
        return
    succeeded(programs.install(wait=False))
    if not programs.get("leases"):
        programs.elect()


@pytest.mark.parametrize("how", [BEFORE, AFTER])
@pytest.mark.parametrize("name", ACTS)
def test_ended_at_any_write_it_is_finished_by_the_same_task(programs: Programs, name: str, how: str, show: Callable[[str], None]) -> None:
    """Ended before, or after the server has done it: from then on no request of this run comes through."""
    prepare(programs, name)
    succeeded(act(programs, name))
    wanted, total = programs.picture(), len(programs.proxy.mutating())
    for number in range(1, total + 1):
        prepare(programs, name)
        if how == AFTER:
            programs.proxy.fault(mutating=True, nth=number, drop=AFTER)
        programs.proxy.fault(mutating=True, since=number + (how == AFTER), status=403)
        ended = act(programs, name, wait=False)
        programs.proxy.heal()
        assert ended.get("failed") or how == AFTER, f"{name} at write {number}"
        succeeded(act(programs, name, wait=False))
        assert programs.picture() == wanted, f"{name} ended {how} write {number}"
        unchanged(act(programs, name, wait=False), programs)
    show(f"{name}, ended {how} each of {total} writes: finished by the same task")


@pytest.mark.parametrize("how", [BEFORE, AFTER])
def test_killed_amid_its_writes_it_is_finished_by_the_same_task(programs: Programs, how: str) -> None:
    succeeded(programs.install(wait=False))
    wanted = programs.picture()
    succeeded(programs.remove())
    with ModuleProcess("motor_program") as process:
        programs.proxy.fault(method="POST", path="/rolebindings", nth=1, drop=how, when=how, call=lambda _: process.send(signal.SIGKILL))
        process.start(**programs.options())
        with pytest.raises(RuntimeError):
            process.result()
    programs.proxy.heal()
    assert programs.get("configmaps") and not programs.get("deployments")
    succeeded(programs.install(wait=False))
    assert programs.picture() == wanted


def test_told_to_stop_while_it_waits_it_ends_in_order_and_says_how_to_go_on(programs: Programs) -> None:
    programs.cluster.behave(programs.namespace, {}, {"fake/never-ready": "true"})
    with ModuleProcess("motor_program") as process:
        process.start(**programs.options(wait_timeout=60))
        wait_for(lambda: programs.get("deployments"), 30, "it waits")
        time.sleep(1)
        process.send(signal.SIGTERM)
        told = process.result(20)
    assert told["reason"] == "Interrupted" and "while waiting for its pods" in told["msg"] and "Run the task again" in told["msg"]
    assert told["changed"] and told["actions"][-1]["kind"] == "Deployment"


@pytest.mark.parametrize(("first", "then"), [("install", "remove"), ("remove", "install"), ("change", "remove"), ("change", "install")])
def test_ended_at_any_write_another_task_goes_on_from_there(programs: Programs, cluster: Cluster, first: str, then: str) -> None:
    before = everything(cluster)
    prepare(programs, then)
    succeeded(act(programs, then))
    wanted = programs.picture()
    prepare(programs, first)
    succeeded(act(programs, first))
    total = len(programs.proxy.mutating())
    for number in range(1, total + 1):
        prepare(programs, first)
        programs.proxy.fault(mutating=True, since=number, status=403)
        act(programs, first, wait=False)
        programs.proxy.heal()
        succeeded(act(programs, then, wait=False))
        found = {place: obj for place, obj in programs.picture().items() if place[0] != "leases"}
        assert found == {place: obj for place, obj in wanted.items() if place[0] != "leases"}, f"{first} ended at write {number}"
    succeeded(programs.remove())
    assert programs.left_behind(before) == set()


@pytest.mark.parametrize("name", ACTS)
def test_what_passes_at_any_write_is_overcome(programs: Programs, name: str) -> None:
    prepare(programs, name)
    succeeded(act(programs, name))
    wanted, total = programs.picture(), len(programs.proxy.mutating())
    faults: tuple[dict[str, Any], ...] = ({"status": 409}, {"drop": AFTER})
    for number in range(1, total + 1):
        fault = faults[number % 2]
        prepare(programs, name)
        programs.proxy.fault(mutating=True, nth=number, **fault)
        result = succeeded(act(programs, name, wait=False))
        programs.proxy.heal()
        assert programs.picture() == wanted, f"{name}, {fault} at write {number}"
        assert result["changed"]


def test_somebody_who_writes_at_the_same_time_is_not_overwritten_unseen(programs: Programs) -> None:
    succeeded(programs.install())
    other = {"metadata": {"annotations": {"example.com/note": "kept"}}}
    programs.proxy.fault(method="PUT", path="/deployments/", nth=1, call=lambda _: programs.change("deployments", other))
    succeeded(programs.install(settings={"port": 8080, "x": 1}))
    assert programs.get("deployments")["metadata"]["annotations"]["example.com/note"] == "kept"
    assert json.loads(programs.get("configmaps")["data"]["settings.json"]) == {"port": 8080, "x": 1}


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [({"fake/image-pull-error": "true"}, "ImagePullBackOff"), ({"fake/crash-loop": "1"}, "CrashLoopBackOff after 3 restarts")],
)
def test_a_wait_ends_early_when_its_pods_cannot_run(programs: Programs, behaviour: dict[str, str], said: str) -> None:
    programs.cluster.behave(programs.namespace, {}, behaviour)
    failed = programs.install(wait_timeout=300)
    assert failed["reason"] == "InstancesFailed" and said in failed["msg"] and failed["changed"]
    assert len(failed["failed_pods"]) == 2


def test_an_image_that_is_put_right_is_waited_for_although_old_pods_are_ill(programs: Programs) -> None:
    policy = programs.cluster.behave(programs.namespace, {}, {"fake/image-pull-error": "true"})
    assert programs.install(image="registry.example/program:wrong")["reason"] == "InstancesFailed"
    programs.cluster.stop_behaving(programs.namespace, policy)
    assert succeeded(programs.install())["program"]["pods_ready"] == 2


def test_a_quota_that_refuses_its_pods_is_told(programs: Programs) -> None:
    body = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    programs.must("POST", f"/api/v1/namespaces/{programs.namespace}/resourcequotas", body)
    wait_for(lambda: (programs.get("resourcequotas", "none") or {}).get("status", {}).get("hard"), 10, "the quota")
    failed = programs.install(wait_timeout=120)
    assert failed["reason"] == "InstancesFailed" and "exceeded quota" in failed["msg"]


def test_a_wait_in_vain_tells_what_is_missing(programs: Programs) -> None:
    programs.cluster.behave(programs.namespace, {}, {"fake/never-ready": "true"})
    failed = programs.install(wait_timeout=2)
    assert failed["reason"] == "WaitTimeout" and "0 of 2 pods are available" in failed["msg"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "Echo"}, "name: 'Echo' cannot be the name of a program"),
        ({"name": "ascend-mindie"}, "belongs to a service"),
        ({"name": "mindie-motor-x"}, "belongs to a service"),
        ({"namespace": "a.b"}, "namespace: 'a.b' cannot be the name"),
        ({"archive": "@@"}, "use the lookup ascend.mindie.program_archive"),
        ({"archive": base64.b64encode(b"no zip").decode()}, "use the lookup ascend.mindie.program_archive"),
        ({"image": "a b"}, "image: 'a b' is no image"),
        ({"replicas": 0}, "replicas: 0 is not within 1 and 5"),
        ({"port": 80}, "port: 80 is not within 1024 and 65535"),
        ({"node_selector": {"x": True}}, "node_selector.x: True is no text"),
        ({"rights": [{"rules": [{"verbs": []}]}]}, "rights[0].rules: a rule needs verbs"),
        ({"rights": [{"rules": [{"verb": ["get"]}]}]}, "a rule has no verb"),
        ({"rights": [{"rules": [{"verbs": "get"}]}]}, "verbs is a list of texts"),
        ({"rights": [{"namespace": "A", "rules": []}]}, "rights[0].namespace: 'A' cannot be"),
        ({"settings": {"x": "y" * (1 << 20)}}, "a ConfigMap holds at most"),
    ],
)
def test_bad_options_are_named_before_anything_is_asked_of_the_cluster(programs: Programs, options: dict[str, Any], said: str) -> None:
    failed = programs.install(**options)
    assert failed["failed"] and said in failed["msg"] and failed["reason"] == "InvalidInput"
    assert programs.proxy.requests == []
