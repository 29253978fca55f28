# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User configs that were recorded together with what Motor's own deployer made of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils import _inputs
from ansible_collections.ascend.mindie.plugins.module_utils._motor import baseline, user_config
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError

SHARED = Path(os.environ.get("MINDIE_SHARED") or Path(__file__).resolve().parents[5].parent / "shared")
UPSTREAM = SHARED / "upstream"
CONFIGS = sorted(
    str(path.relative_to(UPSTREAM)) for folder in ("rendered", "releases") for path in (UPSTREAM / folder).rglob("user_config*.json")
)

pytestmark = pytest.mark.skipif(not CONFIGS, reason="needs the recorded configs of ../shared/upstream (MINDIE_SHARED)")

DEPLOY = "motor_deploy_config"
NO_IMAGE = (f"{DEPLOY}.image_name", "this is empty")
NO_SUCH_POD = (f"{DEPLOY}.p_pod_npu_num", "a 800I_A2 server has 8 NPUs, so a pod with 16 fits nowhere")
# The configs that we refuse, with path and words of the error. Some the deployer refused, too, others it deployed although nothing
# of it could run. A job_id of 30 characters (f16) is not among them: our labels hold no unique id, so they are short enough.
REFUSED: dict[str, tuple[str, str]] = {
    "rendered/e03-p-zero": (f"{DEPLOY}.p_instances_num", "0 is out of range"),
    "rendered/e04-p-17": (f"{DEPLOY}.p_instances_num", "17 is out of range"),
    "rendered/e07-p-missing": (f"{DEPLOY}.p_instances_num", "missing"),
    "rendered/e09-p-notint": (f"{DEPLOY}.p_instances_num", '"abc" is a string'),
    "rendered/e10-p-float": (f"{DEPLOY}.p_instances_num", "1.9 is no integer"),
    "rendered/e12-bad-deploy-mode": (f"{DEPLOY}.deploy_mode", '"helm" is unknown'),
    "rendered/f09-job-id-injection": (f"{DEPLOY}.job_id", "cannot name a namespace"),
    "rendered/jul-e01-hybrid-mixed-keys": (f"{DEPLOY}.p_instances_num", "no prefill instances"),
    "rendered/jul-e02-hybrid-missing": (f"{DEPLOY}.hybrid_pod_npu_num", "missing"),
    "rendered/jul-e05-hybrid-notint": (f"{DEPLOY}.hybrid_instances_num", '"x" is a string'),
    "rendered/jul-e08-unknown-hardware": (f"{DEPLOY}.hardware_type", '"300I" is unknown'),
    "rendered/jul-u01-update-config/step6-e-changed-ignored": (f"{DEPLOY}.e_pod_npu_num", "missing"),
    "rendered/d02-vllm-iss-a2": NO_SUCH_POD,
    "rendered/jul-d04-vllm-md-a2": NO_SUCH_POD,
    "releases/2026-05/infer_engines/vllm": NO_IMAGE,
    "releases/2026-05/infer_engines/vllm/single_container": NO_IMAGE,
    "releases/2026-07/infer_engines/vllm": NO_IMAGE,
    "releases/2026-07/infer_engines/vllm/pd_hybrid": NO_IMAGE,
    "releases/2026-07/infer_engines/vllm/single_container": NO_IMAGE,
}


def parse(name: str) -> user_config.UserConfig:
    document = _inputs.read_user_config(str(UPSTREAM / name), None)
    assert document is not None
    return user_config.parse(document)


@pytest.mark.parametrize("name", CONFIGS)
def test_recorded_configs(name: str) -> None:
    refused = REFUSED.get(os.path.dirname(name))
    if refused is None:
        config = parse(name)
        given = json.loads((UPSTREAM / name).read_text(encoding="utf-8"))
        assert config.data == given
        assert config.counts == {role: given[DEPLOY][key] for role, key in user_config.COUNT_KEYS.items() if key in given[DEPLOY]}
        return
    with pytest.raises(InputError) as caught:
        parse(name)
    assert caught.value.path == refused[0]
    assert refused[1] in str(caught.value)
    assert caught.value.line
    assert caught.value.column


def test_every_refused_config_is_there() -> None:
    assert set(REFUSED) <= {os.path.dirname(name) for name in CONFIGS}


# Steps of update and scale cases: how the config of the step differs from that of the first step.
COMPARED = {
    "s01-scale-md-out-then-in/step2-out-3p2d": ("counts",),
    "s02-scale-iss-out-then-in/step3-in-1p1d": (),
    "jul-s04-scale-hybrid-md": ("counts",),
    "e30-scale-other-change/step2": ("counts", "restart"),
    "e30-scale-other-change/step3-deploymode": ("counts", "not_allowed"),
    "e30-scale-other-change/step4-added-empty-section": ("counts",),
    "jul-s09-scale-other-change/step3-mode": ("counts", "not_allowed"),
    "u01-update-config-loglevel/step2-loglevel": ("updatable",),
    "u02-update-config-all-whitelisted/step2-all": ("updatable",),
    "u03-update-config-nonwhitelisted/step2-image": ("restart",),
    "u03-update-config-nonwhitelisted/step3-exception-other-key": ("restart",),
    "u03-update-config-nonwhitelisted/step4-engine-list": ("restart",),
    "u03-update-config-nonwhitelisted/step5-new-toplevel": ("restart",),
    "u03-update-config-nonwhitelisted/step6-whitelisted-plus-other": ("updatable", "restart"),
    "u03-update-config-nonwhitelisted/step7-empty-dict-added": (),
    "u03-update-config-nonwhitelisted/step8-null-added": (),
    "u05-update-config-deploymode/step2-explicit-iss": (),
    "u05-update-config-deploymode/step3-explicit-md": ("not_allowed",),
    "jul-u02-update-config-removed-key/step2-removed": ("updatable",),
}


@pytest.mark.parametrize("case", COMPARED)
def test_recorded_changes(case: str) -> None:
    first = sorted((UPSTREAM / "rendered" / case.partition("/")[0]).glob("step1*"))[0]
    step = UPSTREAM / "rendered" / case if "/" in case else sorted((UPSTREAM / "rendered" / case).glob("step2*"))[0]
    old, new = (parse(str(path.relative_to(UPSTREAM) / "user_config.json")) for path in (first, step))
    found = baseline.compare(old.data, new.data)
    assert tuple(name for name in ("counts", "updatable", "restart", "not_allowed") if getattr(found, name)) == COMPARED[case]


def test_all_keys_of_the_white_list_at_once() -> None:
    folder = UPSTREAM / "rendered" / "u02-update-config-all-whitelisted"
    old, new = (parse(str(path.relative_to(UPSTREAM) / "user_config.json")) for path in sorted(folder.glob("step*")))
    assert set(baseline.compare(old.data, new.data).updatable) <= baseline.UPDATABLE
    assert len(baseline.compare(old.data, new.data).updatable) > 15


@pytest.mark.parametrize("shape", ["2026-05", "2026-07"])
def test_templates_of_real_releases_are_read(shape: str) -> None:
    files = _inputs.read_release(str(UPSTREAM / "releases" / shape))
    assert isinstance(files["yaml_template/engine_template.yaml"], list)
    assert "360" in str(files["yaml_template/engine_template.yaml"])
