# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that serves an API: its certificate is made, renewed or given, and the API server is never told what it cannot trust or reach."""

from __future__ import annotations

import base64
import json
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import certificates as library
from ansible_collections.ascend.mindie.plugins.module_utils._motor import certificates
from ansible_collections.ascend.mindie.plugins.module_utils._motor.certificates import DAY, HANDOVER, SINCE, Serving, blocks
from tests.cluster import Cluster
from tests.cluster.fault_proxy import AFTER, BEFORE, FaultProxy
from tests.cluster.kube_client import wait_for
from tests.functional.programs import NAME, Programs, everything
from tests.functional.test_modules import succeeded
from tests.functional.test_program import unchanged
from tests.support.module_process import ModuleProcess

API = {"group": "external.metrics.k8s.io", "version": "v1beta1"}
API_NAME = "v1beta1.external.metrics.k8s.io"
API_PATH = f"/apis/apiregistration.k8s.io/v1/apiservices/{API_NAME}"


class Served(Programs):
    """A program that serves an API. Nobody answers for it here, so that no run waits until it is reached."""

    def options(self, **options: Any) -> dict[str, Any]:
        """The usual ones, with an API."""
        return {**super().options(), "api": API, "wait": False, **options}

    def close(self) -> None:
        """The API goes first, as everywhere."""
        self.cluster.request("DELETE", API_PATH)
        super().close()

    def serving(self) -> Serving | None:
        """What the Secret holds."""
        found = self.get("secrets")
        return Serving.of(found) if found else None

    def api_service(self) -> dict[str, Any] | None:
        """The APIService."""
        status, found = self.cluster.request("GET", API_PATH)
        return found if status == 200 else None

    def trusted(self) -> tuple[str, ...]:
        """The authorities that the API server trusts for it."""
        return blocks(base64.b64decode((self.api_service() or {"spec": {"caBundle": ""}})["spec"]["caBundle"]).decode())

    def host(self) -> list[str]:
        """What its certificate is for."""
        return list(certificates.names(NAME, self.namespace))

    def aged(self, days: float) -> Serving:
        """Put a certificate there that was made so many days ago."""
        at = time.time() - days * DAY
        old = library.make(self.host(), at)
        data = {"tls.crt": old.certificate, "tls.key": old.private_key, "ca.crt": old.authority}
        body = {"metadata": {"annotations": {SINCE: str(int(at))}}, "data": {key: certificates.encoded(text) for key, text in data.items()}}
        self.change("secrets", body)
        spec = {"spec": {"caBundle": certificates.encoded(old.authority)}}
        self.must("PATCH", API_PATH, spec, content_type="application/merge-patch+json")
        return old

    def picture(self) -> dict[tuple[str, str, str], Any]:
        """As ever, and what there is of the API; what is random is left out."""
        found = super().picture()
        secret, service = self.get("secrets"), self.api_service()
        if secret:
            found["secrets", self.namespace, NAME] = (secret["type"], sorted(secret["data"]), secret["metadata"]["labels"])
        if service:
            spec = {key: value for key, value in service["spec"].items() if key != "caBundle"}
            found["apiservices", "", API_NAME] = (spec, service["metadata"]["labels"])
        return found


@pytest.fixture
def programs(cluster: Cluster, proxy: FaultProxy, namespace: str) -> Iterator[Served]:
    """A program with an API that is not installed yet."""
    found = Served(cluster, proxy, namespace)
    yield found
    found.close()


def kinds(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(action["verb"], action["kind"]) for action in result["actions"]]


def test_installed_there_is_a_certificate_that_the_api_server_trusts_and_a_second_run_writes_nothing(programs: Served) -> None:
    result = succeeded(programs.install())
    assert kinds(result)[-2:] == [("create", "Deployment"), ("create", "APIService")], "it is offered when everything else is there"
    serving = programs.serving()
    assert serving and programs.trusted() == blocks(serving.authority)
    facts = library.read(serving)
    assert not facts.problem and set(programs.host()) == facts.names
    assert 364 * DAY < facts.not_after - time.time() <= 365 * DAY
    assert result["program"]["api"] == {
        "name": API_NAME,
        "certificate": {"names": sorted(programs.host()), "not_after": int(facts.not_after)},
    }
    unchanged(programs.install(), programs)


def test_pods_get_the_files_of_the_certificate_and_two_ports(programs: Served) -> None:
    succeeded(programs.install())
    spec = programs.get("deployments")["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert {"name": "certificate", "mountPath": "/certificate", "readOnly": True} in container["volumeMounts"]
    assert {(port["name"], port["containerPort"]) for port in container["ports"]} == {("http", 8080), ("api", 8443)}
    (volume,) = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
    assert (
        volume["secretName"] == NAME
        and volume["defaultMode"] == 0o440
        and {item["key"] for item in volume["items"]} == {"tls.crt", "tls.key"}
    )
    ports = {(port["port"], port["targetPort"]) for port in programs.get("services")["spec"]["ports"]}
    assert ports == {(8080, "http"), (443, "api")}


def test_with_wait_it_is_offered_when_its_pods_are_available_and_waits_until_it_is_reached(programs: Served) -> None:
    programs.cluster.behave(programs.namespace, {}, {"fake/ready-after": "2s"})
    available: list[int] = []
    programs.proxy.fault(
        method="POST",
        path="/apiservices",
        call=lambda _: available.append(programs.get("deployments")["status"].get("availableReplicas", 0)),
    )
    late = programs.install(wait=True, wait_timeout=8)
    assert available == [2]
    assert late["reason"] == "WaitTimeout" and "is not reached by the API server" in late["msg"]
    assert "network policy" in late["msg"], "its pods are well, so that the way to them is what to look at"


def test_renewed_below_thirty_days_no_pod_is_touched_and_both_authorities_are_trusted(programs: Served) -> None:
    succeeded(programs.install())
    wait_for(lambda: len(programs.pods()) == 2, 20, "its pods")
    pods = programs.pods()
    old = programs.aged(365 - 29)
    result = succeeded(programs.install())
    assert kinds(result) == [("update", "APIService"), ("update", "Secret")], "it is trusted before anybody shows it"
    new = programs.serving()
    assert new and new != old and programs.trusted() == (*blocks(new.authority), *blocks(old.authority))
    unchanged(programs.install(), programs)
    assert programs.pods() == pods


def test_with_thirty_days_left_nothing_is_renewed(programs: Served) -> None:
    succeeded(programs.install())
    old = programs.aged(365 - 31)
    unchanged(programs.install(), programs)
    assert programs.serving() == old


def test_the_old_authority_is_trusted_for_an_hour_and_not_for_longer(programs: Served) -> None:
    succeeded(programs.install())
    programs.aged(340)
    succeeded(programs.install())
    programs.change("secrets", {"metadata": {"annotations": {SINCE: str(int(time.time()) - HANDOVER + 60)}}})
    unchanged(programs.install(), programs)
    programs.change("secrets", {"metadata": {"annotations": {SINCE: str(int(time.time()) - HANDOVER - 1)}}})
    assert kinds(succeeded(programs.install())) == [("update", "APIService")]
    serving = programs.serving()
    assert serving and programs.trusted() == blocks(serving.authority)
    unchanged(programs.install(), programs)


def damaged(programs: Served, how: str) -> None:
    """Somebody has done something to the Secret."""
    if how == "deleted":
        programs.must("DELETE", programs.path("secrets", programs.namespace, NAME))
        return
    other = library.make(["elsewhere.x.svc"], time.time())
    serving = programs.serving()
    assert serving
    texts = {
        "another key": {"tls.key": other.private_key},
        "another authority": {"ca.crt": other.authority},
        "another name": {"tls.crt": other.certificate, "tls.key": other.private_key, "ca.crt": other.authority},
        "no certificate": {"tls.crt": "nonsense"},
    }[how]
    programs.change("secrets", {"data": {key: certificates.encoded(text) for key, text in texts.items()}})


@pytest.mark.parametrize("how", ["deleted", "another key", "another authority", "another name", "no certificate"])
def test_a_certificate_that_cannot_be_used_is_made_anew_and_what_pods_show_stays_trusted(programs: Served, how: str) -> None:
    succeeded(programs.install())
    shown = programs.trusted()
    damaged(programs, how)
    succeeded(programs.install())
    serving = programs.serving()
    assert serving and not certificates.unusable(library.read(serving), programs.host()[0], time.time())
    assert programs.trusted() == (*blocks(serving.authority), *shown)
    unchanged(programs.install(), programs)


def test_a_given_certificate_is_used_as_it_is(programs: Served) -> None:
    given = library.make(programs.host(), time.time())
    options = {"api": {**API, "certificate": given.certificate, "private_key": given.private_key, "ca": given.authority}}
    succeeded(programs.install(**options))
    assert programs.serving() == given and programs.trusted() == blocks(given.authority)
    unchanged(programs.install(**options), programs)
    other = library.make(programs.host(), time.time())
    options = {"api": {**API, "certificate": other.certificate, "private_key": other.private_key, "ca": other.authority}}
    assert kinds(succeeded(programs.install(**options))) == [("update", "APIService"), ("update", "Secret")]
    assert programs.trusted() == (*blocks(other.authority), *blocks(given.authority))
    unchanged(programs.install(**options), programs)


def test_a_given_certificate_that_ends_soon_is_used_with_a_warning(programs: Served) -> None:
    given = library.make(programs.host(), time.time() - 340 * DAY)
    api = {**API, "certificate": given.certificate, "private_key": given.private_key, "ca": given.authority}
    result = succeeded(programs.install(api=api))
    assert any("ends within 30 days" in text for text in result["warnings"]) and programs.serving() == given


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"certificate": None}, "write certificate, too"),
        ({"private_key": ""}, "write private_key, too"),
        ({"certificate": "nonsense"}, "cannot be read as PEM"),
        ({"key_of_another": True}, "the key is not that of the certificate"),
        ({"authority_of_another": True}, "the authority has not signed it"),
        ({"hosts": ["elsewhere.x.svc"]}, "it is not for echo."),
        ({"days": 400}, "it has expired"),
        ({"days": -2}, "it is not valid yet"),
        ({"group": "no group"}, "cannot be the group"),
        ({"version": "1"}, "cannot be the version"),
        ({"port": 8080}, "is the value of port"),
        ({"port": 80}, "is not within 1024"),
    ],
)
def test_a_certificate_that_would_not_do_is_refused_before_anything_is_asked_and_its_key_is_not_told(
    programs: Served, change: dict[str, Any], said: str
) -> None:
    given = library.make(change.pop("hosts", programs.host()), time.time() - change.pop("days", 0) * DAY)
    other = library.make(programs.host(), time.time())
    key = other.private_key if change.pop("key_of_another", False) else given.private_key
    authority = other.authority if change.pop("authority_of_another", False) else given.authority
    failed = programs.install(api={**API, "certificate": given.certificate, "private_key": key, "ca": authority, **change})
    assert failed["failed"] and said in failed["msg"] and programs.proxy.requests == []
    assert key.splitlines()[1] not in json.dumps(failed)


def test_an_api_of_somebody_else_is_left_alone_and_the_message_says_how_to_go_on(programs: Served) -> None:
    spec = {**API, "groupPriorityMinimum": 100, "versionPriority": 100, "service": {"name": "keda", "namespace": "keda"}}
    body = {"metadata": {"name": API_NAME}, "spec": {**spec, "insecureSkipTLSVerify": True}}
    programs.must("POST", API_PATH.rsplit("/", 1)[0], body)
    for check_mode in (True, False):
        refused = programs.install(check_mode=check_mode)
        assert refused["reason"] == "NotOurs" and f"APIService {API_NAME}" in refused["msg"]
        assert "mindie_adaptor: existing" in refused["msg"] and programs.proxy.mutating() == []
    unchanged(programs.remove(api=API), programs)
    assert (programs.api_service() or {})["spec"]["service"]["name"] == "keda"


def test_a_secret_of_somebody_else_is_left_alone(programs: Served) -> None:
    programs.must("POST", programs.path("secrets", programs.namespace), {"metadata": {"name": NAME}, "data": {"x": "eQ=="}})
    refused = programs.install()
    assert refused["reason"] == "NotOurs" and f"Secret {programs.namespace}/{NAME}" in refused["msg"] and programs.proxy.mutating() == []


def test_removed_the_api_goes_before_anything_else_and_nothing_is_left(programs: Served, cluster: Cluster) -> None:
    before = everything(cluster)
    succeeded(programs.install())
    result = succeeded(programs.remove())
    assert kinds(result)[:2] == [("delete", "APIService"), ("delete", "Deployment")] and ("delete", "Secret") in kinds(result)
    assert kinds(result)[-1] == ("delete", "ConfigMap")
    assert programs.left_behind(before) == set()
    unchanged(programs.remove(), programs)


def test_what_is_left_when_the_config_map_has_gone_is_found_by_the_same_options(programs: Served, cluster: Cluster) -> None:
    before = everything(cluster)
    succeeded(programs.install())
    programs.must("DELETE", programs.path("configmaps", programs.namespace, NAME))
    result = succeeded(programs.remove(api=API, rights=programs.rights()))
    assert {("delete", "APIService"), ("delete", "Secret")} <= set(kinds(result))
    assert programs.left_behind(before) == set()


def test_without_an_api_any_more_the_program_stays(programs: Served) -> None:
    succeeded(programs.install())
    result = succeeded(programs.install(api=None))
    assert kinds(result)[0] == ("delete", "APIService") and kinds(result)[-1] == ("delete", "Secret")
    assert programs.api_service() is None and programs.serving() is None and programs.get("deployments")
    unchanged(programs.install(api=None), programs)


def test_what_somebody_changed_of_the_api_is_put_right(programs: Served) -> None:
    succeeded(programs.install())
    picture, trusted = programs.picture(), programs.trusted()
    wrong = {"spec": {"caBundle": certificates.encoded(library.make(["x.y.svc"], time.time()).authority), "versionPriority": 7}}
    programs.change("secrets", {"metadata": {"annotations": {SINCE: "0"}}})
    programs.must("PATCH", API_PATH, wrong, content_type="application/merge-patch+json")
    succeeded(programs.install())
    assert programs.picture() == picture and programs.trusted() == trusted


ACTS = ("install", "renew", "upgrade", "remove")


def act(programs: Served, name: str, **options: Any) -> dict[str, Any]:
    if name == "remove":
        return programs.remove(**options)
    return programs.install(**options, **({"settings": {"port": 8080, "x": 1}, "replicas": 1} if name == "upgrade" else {}))


def prepare(programs: Served, name: str) -> Serving | None:
    """From wherever it is to where the act starts; returns the certificate that pods show then."""
    if name == "install":
        succeeded(programs.remove())
        return None
    succeeded(programs.install())
    return programs.aged(340) if name in ("renew", "upgrade") else programs.serving()


def consistent(programs: Served, shown: Serving | None) -> None:
    """The API server trusts what pods show, and what they will show; and it never has an API to ask for that nobody serves."""
    if not programs.api_service():
        return
    serving = programs.serving()
    assert serving and programs.get("deployments") and programs.get("services")
    assert set(blocks(serving.authority)) <= set(programs.trusted())
    assert shown is None or set(blocks(shown.authority)) <= set(programs.trusted())


@pytest.mark.parametrize("how", [BEFORE, AFTER])
@pytest.mark.parametrize("name", ACTS)
def test_ended_at_any_write_nothing_is_broken_and_the_same_task_finishes_it(
    programs: Served, name: str, how: str, show: Callable[[str], None]
) -> None:
    """Ended before, or after the server has done it: from then on no request of this run comes through."""
    prepare(programs, name)
    total = len(succeeded(act(programs, name))["actions"])
    wanted = programs.picture()
    for number in range(1, total + 1):
        shown = prepare(programs, name)
        if how == AFTER:
            programs.proxy.fault(mutating=True, nth=number, drop=AFTER)
        programs.proxy.fault(mutating=True, since=number + (how == AFTER), status=403)
        ended = act(programs, name)
        programs.proxy.heal()
        assert ended.get("failed") or how == AFTER, f"{name} at write {number}"
        consistent(programs, shown)
        succeeded(act(programs, name))
        assert programs.picture() == wanted, f"{name} ended {how} write {number}"
        consistent(programs, shown)
        unchanged(act(programs, name), programs)
    show(f"{name} with an API, ended {how} each of {total} writes: finished by the same task")


def given(programs: Served, name: str) -> dict[str, Any]:
    """The options of an act, for a process of its own."""
    if name != "remove":
        return programs.options()
    return {**{key: programs.options()[key] for key in ("kubeconfig", "name", "namespace")}, "state": "absent"}


@pytest.mark.parametrize("name", ["install", "renew", "remove"])
def test_killed_around_the_writes_of_the_api_nothing_is_broken_and_the_same_task_finishes_it(
    programs: Served, name: str, show: Callable[[str], None]
) -> None:
    """The process is gone from one moment to the next (SIGKILL), when the server has just done it; around the writes of the API."""
    prepare(programs, name)
    total = len(succeeded(act(programs, name))["actions"])
    wanted = programs.picture()
    numbers = {"install": range(total - 3, total + 1), "renew": range(1, total + 1), "remove": range(1, 4)}[name]
    for number in numbers:
        shown = prepare(programs, name)
        with ModuleProcess("motor_program") as process:
            programs.proxy.fault(
                mutating=True, nth=number, drop=AFTER, when=AFTER, call=lambda _, process=process: process.send(signal.SIGKILL)
            )
            process.start(**given(programs, name))
            with pytest.raises(RuntimeError):
                process.result()
        programs.proxy.heal()
        consistent(programs, shown)
        succeeded(act(programs, name))
        assert programs.picture() == wanted, f"{name} killed after write {number}"
        consistent(programs, shown)
    show(f"{name} with an API, killed after {len(numbers)} of {total} writes: finished by the same task")


def test_check_mode_predicts_what_is_done_and_sends_no_write(programs: Served) -> None:
    for name in ACTS:
        prepare(programs, name)
        predicted = succeeded(act(programs, name, check_mode=True))
        assert programs.proxy.mutating() == [] and predicted["changed"]
        done = succeeded(act(programs, name))
        assert done["actions"] == predicted["actions"]
        assert not succeeded(act(programs, name, check_mode=True))["changed"]


def test_no_key_is_in_results_or_diffs(programs: Served) -> None:
    told: list[Any] = [programs.install(check_mode=True, diff=True), programs.install(diff=True)]
    keys = [programs.serving()]
    keys.append(programs.aged(340))
    told.append(programs.install(diff=True))
    keys.append(programs.serving())
    given = library.make(programs.host(), time.time())
    api = {**API, "certificate": given.certificate, "private_key": given.private_key, "ca": given.authority}
    told += [programs.install(diff=True, api=api), programs.remove(diff=True)]
    text = json.dumps([succeeded(result) for result in told])
    assert f"Secret {programs.namespace}/{NAME}" in text and "********" in text
    for serving in (*keys, given):
        assert serving
        plain = serving.private_key.splitlines()[1:-1]
        hidden = certificates.encoded(serving.private_key)
        assert not [part for part in (*plain, hidden, hidden[100:140]) if part in text]


@pytest.mark.parametrize("state", ["present", "absent"])
def test_without_the_library_the_message_names_it_and_what_needs_none_works(
    programs: Served, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(library, "CRYPTOGRAPHY_IMPORT_ERROR", "No module named 'cryptography'")
    if state == "absent":
        unchanged(programs.remove(api=API), programs)
        return
    failed = programs.install()
    assert failed["reason"] == "LibraryMissing" and "cryptography >= 42" in failed["msg"] and programs.proxy.requests == []
    assert succeeded(programs.install(api=None))["changed"]
