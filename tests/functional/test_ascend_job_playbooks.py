# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of AscendJobs by playbooks and roles; their manifests, prepared for somebody else to apply."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.kube_client import wait_for
from tests.functional.jobs import EXAMPLES, JOBS, RULE, TEMPLATES, JobDriver
from tests.functional.test_modules import succeeded
from tests.functional.test_playbooks import Site
from tests.functional.test_roles import ansible_playbook, holds, play
from tests.support.modules import run_offline
from tests.support.playbooks import PlaybookFailed

# What a server adds to an object.
OF_THE_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
RECORD = "ascend.mindie/applied"


class JobSite(Site):
    """An inventory with one service of AscendJobs, whose instances have one NPU so that many fit."""

    def __init__(self, driver: JobDriver, path: str = "") -> None:
        given = {"mindie_user_config_content": driver.config, "mindie_job_templates": TEMPLATES, "mindie_wait_timeout": 60}
        super().__init__(driver, path, given)
        self.jobs = driver
        driver.config["motor_deploy_config"].update(p_pod_npu_num=1, d_pod_npu_num=1)

    def objects(self) -> dict[str, Any]:
        """Everything that was created for the service, as it was sent; what others create is left out."""
        found: dict[str, Any] = {}
        for kind, api in (("configmaps", "v1"), ("services", "v1"), ("ascendjobs", JOBS)):
            for name, obj in self.jobs.get(kind, api).items():
                if not obj["metadata"].get("ownerReferences") and name != "kube-root-ca.crt":
                    found[f"{kind} {name}"] = _as_sent(obj)
        return found


def _as_sent(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in OF_THE_SERVER}
    notes = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key not in (LAST_APPLIED, RECORD)}
    sent = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "status")}
    if obj["metadata"]["name"].startswith("rings-config-"):  # the operator writes into it, and removes the label of ClusterD's in between
        sent.pop("data")
    if "clusterIP" in sent.get("spec", {}):
        sent["spec"] = {key: value for key, value in sent["spec"].items() if key not in ("clusterIP", "clusterIPs")}
    return {**sent, "metadata": {**metadata, "annotations": notes}}


@pytest.fixture
def site(job_cluster: Cluster, job_namespace: str) -> Iterator[JobSite]:
    with FaultProxy(job_cluster) as proxy:
        yield JobSite(JobDriver(job_cluster, proxy, job_namespace))


def rendered(site: JobSite, **options: Any) -> dict[str, Any]:
    """motor_manifests_info, where there is neither a connection nor the library kubernetes."""
    return run_offline("motor_manifests_info", **{"user_config_content": site.jobs.config, "job_templates": TEMPLATES, **options})


def written(folder: Path, site: JobSite) -> list[dict[str, Any]]:
    """What the file of the service holds."""
    return list(yaml.safe_load_all((folder / f"{site.jobs.namespace}.yaml").read_text()))


def documents(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The sample templates as documents, with prefill changed."""
    found: dict[str, Any] = {role: list(yaml.safe_load_all(Path(path).read_text())) for role, path in TEMPLATES.items()}
    change(found["prefill"][0])
    return found


def test_every_playbook_and_role_on_a_service_of_ascend_jobs(site: JobSite) -> None:
    jobs = site.jobs
    site.predicted_and_done("deploy")
    assert set(jobs.workloads()) == {"mindie-server-p0", "mindie-server-p1", "mindie-server-d0"} and jobs.tiers() == [(2, 1), (1, 1)]
    scaled = site.predicted_and_done("scale", mindie_instances={"prefill": 3, "decode": 1})
    assert scaled.service["counts"] == {"prefill": 3, "decode": 1} and scaled.actions[0]["name"] == RULE
    jobs.config["motor_deploy_config"].update(p_instances_num=3)
    for playbook in ("deploy", "scale", "update_config", "site", "adopt"):
        assert site.play(playbook).actions == []
        assert jobs.proxy.mutating() == [], f"an unchanged {playbook} writes nothing"
    back = site.predicted_and_done("roll_back", mindie_revision=1, mindie_namespace=jobs.namespace)
    assert back.service["counts"] == {"prefill": 2, "decode": 1}
    site.predicted_and_done("site", mindie_state="absent")
    assert jobs.jobs() == {} and jobs.rank_tables() == set()


def test_names_of_the_inventory_are_those_of_rule_groups_and_jobs(site: JobSite) -> None:
    names = {"mindie_scaling_rule": "chat-rule", "mindie_groups": {"prefill": "first", "decode": "second"}, "mindie_name_prefix": "chat"}
    site.variables.update(names)
    site.play("deploy")
    labels = site.jobs.jobs()["chat-p0"]["metadata"]["labels"]
    assert (labels["mind-cluster/scaling-rule"], labels["mind-cluster/group-name"]) == ("chat-rule", "first")
    # The other verbs know them from the service.
    for name in names:
        site.variables.pop(name)
    site.play("scale", mindie_instances={"prefill": 3, "decode": 1})
    assert "chat-p2" in site.jobs.workloads()
    site.play("remove")
    assert site.jobs.jobs() == {}


def test_the_roles_in_a_play_of_the_user_s_own(site: JobSite, tmp_path: Path) -> None:
    connection = {"mindie_kubeconfig": site.driver.proxy.kubeconfig}
    named = {"mindie_namespace": site.jobs.namespace, **connection}
    done = ansible_playbook(
        tmp_path,
        play(["motor_deploy"], {**site.variables, **connection}, holds("motor_deploy_result.service.backend == 'ascend_jobs'")),
        play(
            ["motor_scale"],
            {**named, "mindie_instances": {"prefill": 1, "decode": 1}},
            holds("motor_scale_result.removed | map(attribute='name') | list == ['mindie-server-p1']"),
        ),
        play(["motor_remove"], named, holds("motor_remove_result.service.standing == 'absent'")),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_updating_the_config_refuses_what_pods_read_only_when_they_start(site: JobSite) -> None:
    site.play("deploy")
    site.jobs.config["motor_deploy_config"].update(p_pod_npu_num=2)
    with pytest.raises(PlaybookFailed, match="p_pod_npu_num of the live service"):
        site.play("update_config")
    assert site.jobs.proxy.mutating() == []


def test_drifted_jobs_are_adopted_by_their_counts(site: JobSite) -> None:
    site.play("deploy")
    site.jobs.cluster.request("DELETE", f"/apis/{JOBS}/namespaces/{site.jobs.namespace}/ascendjobs/mindie-server-p1")
    wait_for(lambda: "mindie-server-p1" not in site.jobs.phases(), 10, "the PodGroup is gone")
    with pytest.raises(PlaybookFailed, match="p_instances_num"):
        site.play("adopt")
    adopted = site.predicted_and_done("adopt", mindie_instances={"prefill": 1, "decode": 1})
    assert [action["name"] for action in adopted.actions] == ["motor-config"]


def test_jobs_without_a_motor_config_are_not_adopted_but_taken_over_by_deploying(site: JobSite) -> None:
    site.play("deploy")
    before = site.jobs.workloads()
    site.jobs.cluster.request("DELETE", f"/api/v1/namespaces/{site.jobs.namespace}/configmaps/motor-config")
    with pytest.raises(PlaybookFailed, match="motor-config does not exist"):
        site.play("adopt")
    assert site.play("deploy").service["standing"] == "applied" and site.jobs.workloads() == before


def test_prepared_manifests_are_what_deploying_creates(site: JobSite, tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    foretold = site.play("prepare_ascend_jobs", check=True, mindie_manifests_folder=str(folder))
    assert not folder.exists() and foretold.results[-1]["manifests"]
    site.play("prepare_ascend_jobs", mindie_manifests_folder=str(folder))
    assert site.driver.proxy.requests == [], "no cluster is asked"
    manifests = written(folder, site)
    assert manifests == foretold.results[-1]["manifests"] == succeeded(rendered(site))["manifests"]
    site.play("deploy")
    by_kind = {"ConfigMap": "configmaps", "Service": "services", "AscendJob": "ascendjobs"}
    wanted = {f"{by_kind[obj['kind']]} {obj['metadata']['name']}" for obj in manifests}
    created = site.objects()
    assert set(created) == wanted
    first = site.driver.cluster.create_namespace(f"{site.jobs.namespace}-by-hand")
    text = (folder / f"{site.jobs.namespace}.yaml").read_text()
    assert site.driver.cluster.kubectl("apply", "-f", "-", stdin=text.replace(site.jobs.namespace, first)).count("created") == len(
        manifests
    )
    other = JobSite(JobDriver(site.driver.cluster, site.driver.proxy, first))
    assert json.loads(json.dumps(other.objects()).replace(first, site.jobs.namespace)) == created


def test_prepared_manifests_come_to_run_and_deploying_takes_them_over(site: JobSite, tmp_path: Path) -> None:
    jobs = site.jobs
    site.play("prepare_ascend_jobs", mindie_manifests_folder=str(tmp_path), mindie_instances={"prefill": 3, "decode": 2})
    before = site.play("prepare_ascend_jobs", mindie_manifests_folder=str(tmp_path), mindie_instances={"prefill": 2, "decode": 2})
    assert len(before.results[-1]["manifests"]) == 13, "nothing of the larger service is left in the folder"
    assert [path.name for path in tmp_path.iterdir()] == [f"{jobs.namespace}.yaml"]
    jobs.cluster.kubectl("apply", "-f", str(tmp_path))
    wait_for(lambda: list(jobs.phases().values()).count("Running") == 6, 30, "all jobs run")
    started = jobs.workloads()
    taken = site.play("deploy", mindie_instances={"prefill": 2, "decode": 2})
    assert [action["name"] for action in taken.actions] == ["motor-config"] and taken.service["standing"] == "applied"
    assert jobs.workloads() == started
    site.play("scale", mindie_instances={"prefill": 1, "decode": 1})
    assert jobs.tiers() == [(1, 1)] and set(jobs.workloads()) == {"mindie-server-p0", "mindie-server-d0"}


def test_applying_is_deploying(site: JobSite) -> None:
    done = site.predicted_and_done("prepare_ascend_jobs", mindie_apply=True)
    assert done.service["counts"] == {"prefill": 2, "decode": 1} and done.service["standing"] == "applied"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "mindie_manifests_folder"),
        ({"mindie_manifests_folder": "manifests", "mindie_job_templates": {"prefill": TEMPLATES["prefill"]}}, "job_templates.decode"),
        ({"mindie_manifests_folder": "manifests", "mindie_job_templates": None}, "mindie_job_templates"),
        ({"mindie_manifests_folder": "manifests", "mindie_user_config_content": None}, "mindie_user_config"),
        ({"mindie_manifests_folder": "manifests", "mindie_instances": {"prefill": 2, "decode": 99}}, "decode"),
    ],
)
def test_what_is_missing_for_preparing_is_named(site: JobSite, variables: dict[str, Any], said: str) -> None:
    site.variables = {name: value for name, value in {**site.variables, **variables}.items() if value is not None}
    with pytest.raises(PlaybookFailed) as failed:
        site.play("prepare_ascend_jobs")
    assert said in str(failed.value)


def test_jobs_that_would_not_come_back_are_told_and_bad_ones_are_not_written(site: JobSite, tmp_path: Path) -> None:
    def few(job: dict[str, Any]) -> None:
        job["spec"]["runPolicy"] = {"backoffLimit": 3}

    def none(job: dict[str, Any]) -> None:
        job["metadata"]["labels"]["fault-retry-times"] = "often"

    result = succeeded(rendered(site))
    assert result["findings"] == [] and "warnings" not in result
    result = succeeded(rendered(site, job_templates=documents(few)))
    assert [(found["code"], found["name"]) for found in result["findings"]] == [
        ("R617", f"AscendJob {site.jobs.namespace}/mindie-server-p{index}") for index in range(2)
    ]
    assert "backoffLimit 3" in result["warnings"][0]
    site.play("prepare_ascend_jobs", mindie_manifests_folder=str(tmp_path), mindie_job_templates=documents(few))
    (tmp_path / f"{site.jobs.namespace}.yaml").unlink()
    with pytest.raises(PlaybookFailed, match=r"metadata\.labels\.fault-retry-times"):
        site.play("prepare_ascend_jobs", mindie_manifests_folder=str(tmp_path), mindie_job_templates=documents(none))
    assert list(tmp_path.iterdir()) == []


def test_texts_that_look_like_something_else_stay_texts(site: JobSite) -> None:
    odd = {"A": "1e3", "B": "0o17", "C": "y", "D": "no", "E": "1_000", "F": " two\nlines ", "G": "", "H": "0x1f", "I": "12:30:45", "J": "~"}

    def vary(job: dict[str, Any]) -> None:
        job["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["env"] = [
            {"name": name, "value": value} for name, value in odd.items()
        ]

    result = succeeded(rendered(site, job_templates=documents(vary)))
    read = list(documents_of(site.driver.cluster.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", stdin=result["text"])))
    job = next(item for item in read if item["metadata"]["name"] == "mindie-server-p0")
    env = job["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["env"]
    assert {item["name"]: item["value"] for item in env} == odd
    assert read == result["manifests"]


def documents_of(text: str) -> Iterator[Any]:
    """JSON documents one after the other, as kubectl prints them."""
    position = 0
    while position < len(text):
        found, position = json.JSONDecoder().raw_decode(text, position)
        position += len(text[position:]) - len(text[position:].lstrip())
        yield found


def test_the_rule_comes_first_then_controls_and_each_job_follows_its_rank_table() -> None:
    options = {"instances": {"prefill": 2, "decode": 2}, "job_templates": TEMPLATES, "user_config": str(EXAMPLES / "user_config.json")}
    found = [obj["metadata"]["name"] for obj in succeeded(run_offline("motor_manifests_info", **options))["manifests"]]
    controls = ["mindie-ms-controller", "mindie-ms-coordinator"]
    engines = [f"mindie-server-{name}" for name in ("d0", "d1", "p0", "p1")]
    assert found[:5] == [RULE, "motor-config", "mindie-ms-infer", *controls]
    assert found[5:] == [name for engine in engines for name in (f"rings-config-{engine}", engine)]


def test_servers_in_super_pods_are_scheduled_as_such() -> None:
    config = json.loads((EXAMPLES / "user_config.json").read_text())
    config["motor_deploy_config"].update(hardware_type="800I_A3", p_pod_npu_num=16, d_pod_npu_num=16)
    given = {"user_config_content": config, "job_templates": TEMPLATES}
    policies = []
    for accelerator_type in ("module-a3-16-super-pod", "module-a3-16"):
        made = succeeded(run_offline("motor_manifests_info", accelerator_type=accelerator_type, **given))["manifests"]
        job = next(obj for obj in made if obj["metadata"]["name"] == "mindie-server-p0")
        notes = job["metadata"]["annotations"]
        policies.append((notes["huawei.com/schedule_policy"], notes.get("sp-block")))
    assert policies == [("chip2-node16-sp", "16"), ("chip2-node16", None)]


def test_other_deploy_modes_are_refused_clearly() -> None:
    config = EXAMPLES.parent / "configs" / "multi_deployment" / "user_config.json"
    refused = run_offline("motor_manifests_info", user_config=str(config), job_templates=TEMPLATES)
    assert refused["failed"] and refused["reason"] == "InvalidInput"
    assert "deploy mode ascend_jobs alone, this user config has deploy mode multi_deployment" in refused["msg"]
