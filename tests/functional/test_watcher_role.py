# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watcher is installed, changed and removed by its playbook, with the rights of what is switched on and no others."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.functional.programs import Programs, everything
from tests.support import playbooks
from tests.support.playbooks import Outcome, PlaybookFailed
from tests.tools.environment import ROOT

ROLE = ROOT / "roles" / "motor_rescheduling_watcher"
NAME = "mindie-watcher"
TABLE = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())
OBSERVING = TABLE["__motor_rescheduling_watcher_observing"]
ACTING = TABLE["__motor_rescheduling_watcher_acting"]


class Watcher(Programs):
    """The watcher in a namespace of its own, which watches two others."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy, namespace: str) -> None:
        super().__init__(cluster, proxy, namespace)
        self.rights_name = f"{NAME}.{namespace}"

    def play(self, *, check: bool = False, **variables: Any) -> Outcome:
        """Run the playbook; variables are those of the role without their prefix. None leaves one out."""
        usual = {"image": "registry.example/motor:1", "namespace": self.namespace, "namespaces": self.watched, "wait_timeout": 60}
        given = {f"mindie_watcher_{name}": value for name, value in {**usual, **variables}.items() if value is not None}
        self.proxy.clear()
        return playbooks.run("watcher", {"all": {"hosts": {"localhost": given}}}, self.proxy.kubeconfig, check=check)

    def settings(self) -> dict[str, Any]:
        """What the program reads."""
        found = self.get("configmaps", NAME)
        assert found
        return json.loads(found["data"]["settings.json"])

    def rules(self, kind: str, namespace: str) -> list[dict[str, Any]]:
        """The rights that it has there."""
        found = self.get(kind, self.rights_name, namespace)
        return found["rules"] if found else []


@pytest.fixture
def watcher(cluster: Cluster, proxy: FaultProxy, namespace: str) -> Iterator[Watcher]:
    """A watcher that is not installed yet."""
    found = Watcher(cluster, proxy, namespace)
    yield found
    found.close()


def test_installed_changed_and_removed_it_leaves_nothing_behind(watcher: Watcher, cluster: Cluster) -> None:
    before = everything(cluster)
    done = watcher.play()
    assert done.results[0]["program"]["pods_ready"] == 2
    assert watcher.settings() == {
        "namespaces": watcher.watched,
        "acts": {"nudge": False, "release_stuck": False, "recreate_failed": False, "restore_missing": False},
        "language": "en",
        "port": 8080,
    }
    again = watcher.play()
    assert not again.results[0]["changed"] and watcher.proxy.mutating() == []
    pods = watcher.pods()
    watcher.play(nudge=True, stuck_after="600", language="zh")  # a survey gives text
    assert watcher.settings()["acts"]["nudge"] and watcher.settings()["stuck_after"] == 600 and watcher.settings()["language"] == "zh"
    assert not watcher.pods() & pods
    predicted = watcher.play(check=True, state="absent", image=None, namespaces=None)
    assert predicted.actions and watcher.proxy.mutating() == []
    removed = watcher.play(state="absent", image=None, namespaces=None)
    assert removed.actions == predicted.actions
    assert watcher.left_behind(before) == set()
    assert not watcher.play(state="absent", image=None, namespaces=None).results[0]["changed"]


@pytest.mark.parametrize("acts", [(), ("nudge", "recreate_failed"), ("release_stuck", "restore_missing"), tuple(ACTING)])
def test_it_has_the_rights_of_the_acts_that_are_switched_on_in_the_namespaces_that_it_watches(
    watcher: Watcher, acts: tuple[str, ...]
) -> None:
    watcher.play(wait=False, **dict.fromkeys(acts, True))
    wanted = [*OBSERVING, *(rule for act in ACTING if act in acts for rule in ACTING[act])]
    assert [watcher.rules("roles", place) for place in watcher.watched] == [wanted, wanted]
    assert [(rule["resources"], rule["verbs"]) for rule in watcher.rules("clusterroles", "")] == [(["nodes"], ["get", "list", "watch"])]
    own = watcher.rules("roles", watcher.namespace)
    assert [(rule["resources"], rule["verbs"], rule.get("resourceNames")) for rule in own] == [
        (["leases"], ["create"], None),
        (["leases"], ["get", "update"], [NAME]),
    ]


def test_switching_an_act_off_takes_its_rights_at_once(watcher: Watcher) -> None:
    watcher.play(wait=False, release_stuck=True)
    assert {"delete"} <= {verb for rule in watcher.rules("roles", watcher.watched[0]) for verb in rule["verbs"]}
    watcher.play(wait=False)
    assert watcher.rules("roles", watcher.watched[0]) == OBSERVING


def test_for_all_namespaces_it_has_one_role_in_the_cluster_and_back_again(watcher: Watcher) -> None:
    watcher.play(wait=False)
    watcher.play(wait=False, namespaces=["*"], nudge=True)
    assert [watcher.rules("roles", place) for place in watcher.watched] == [[], []]
    assert watcher.rules("clusterroles", "")[1:] == [*OBSERVING, *ACTING["nudge"]]
    assert watcher.settings()["namespaces"] == ["*"]
    watcher.play(wait=False, namespaces=",".join(watcher.watched))
    assert [watcher.rules("roles", place) for place in watcher.watched] == [OBSERVING, OBSERVING]
    assert len(watcher.rules("clusterroles", "")) == 1


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"image": None}, "Set mindie_watcher_image"),
        ({"namespaces": ["*", "chat"]}, "alone for all of them"),
        ({"stuck_after": "5m"}, "stuck_after"),
        ({"stuck_after": 0}, "no positive integer"),
        ({"language": "fr"}, "language"),
    ],
)
def test_what_is_missing_or_wrong_is_said_before_anything_is_written(watcher: Watcher, variables: dict[str, Any], said: str) -> None:
    with pytest.raises(PlaybookFailed) as failed:
        watcher.play(**variables)
    assert said in str(failed.value)
    assert watcher.proxy.mutating() == []


def test_a_collection_that_may_not_be_written_will_do(watcher: Watcher, tmp_path: Path) -> None:
    """As an execution environment has it; whoever is root may write everywhere, so it is looked at afterwards, too."""
    copy = tmp_path / "collections" / "ansible_collections" / "ascend" / "mindie"
    for part in ("plugins", "roles", "playbooks", "meta"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "galaxy.yml", copy / "galaxy.yml")
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*") if "__pycache__" not in path.parts and path.is_file()}
    for path in [copy, *copy.rglob("*")]:
        os.chmod(path, 0o555 if path.is_dir() else 0o444)
    others = ROOT / ".cache" / "collections"
    settings = {"ANSIBLE_COLLECTIONS_PATH": f"{copy.parents[2]}{os.pathsep}{others}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(playbooks, "environment", lambda: {**_environment(), **settings})
            watcher.play(wait=False)
            watcher.play(state="absent")
    finally:
        for path in [copy, *copy.rglob("*")]:
            os.chmod(path, 0o755 if path.is_dir() else 0o644)
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*") if "__pycache__" not in path.parts and path.is_file()} == before


def _environment() -> dict[str, str]:
    from tests.tools.environment import environment

    return environment()
