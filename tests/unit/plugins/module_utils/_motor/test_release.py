# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the files of a release are understood as."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.release import SCRIPTS, SHAPE_2026_05, SHAPE_2026_07, understand

from . import releases


@pytest.mark.parametrize(("shape", "keys"), [(SHAPE_2026_05, 13), (SHAPE_2026_07, 19)])
def test_shape_scripts_and_templates(shape: str, keys: int) -> None:
    found = releases.release(shape)
    assert found.shape == shape
    assert len(found.scripts) == len(SCRIPTS[shape]) == keys
    assert [document["kind"] for document in found.documents("infer_service_template.yaml")][-1] == "InferServiceSet"
    assert found.document("controller_template.yaml", "Service")["metadata"]["name"] == "mindie-motor-controller-service"


def test_mooncake_config_is_that_of_the_backend_since_2026_07() -> None:
    assert SCRIPTS[SHAPE_2026_05]["mooncake_config.py"] == "startup/mooncake_config.py"
    assert SCRIPTS[SHAPE_2026_07]["mooncake_config.py"] == "startup/roles/kv_store_backends/mooncake/mooncake_config.py"


def test_other_files_do_not_count() -> None:
    files = {**releases.files(SHAPE_2026_05), "README.md": "x", "yaml_template/notes.txt": "x", "deep/yaml_template/x.yaml": [{}]}
    assert sorted(understand(files).templates) == sorted(releases.release(SHAPE_2026_05).templates)


@pytest.mark.parametrize("files", [{}, {"startup/boot.sh": "x"}])
def test_no_release_at_all(files: dict[str, object]) -> None:
    with pytest.raises(InputError, match="this is no Motor release") as caught:
        understand(files, source="release /here")
    assert caught.value.source == "release /here"


@pytest.mark.parametrize(
    "document", ["text", {"kind": "Service"}, {"metadata": {}}, {"kind": 1, "metadata": {}}, {"kind": "Service", "metadata": []}]
)
def test_a_document_that_is_no_object(document: Any) -> None:
    files = {**releases.files(SHAPE_2026_05), "yaml_template/engine_template.yaml": [document]}
    with pytest.raises(InputError, match="no Kubernetes object") as caught:
        understand(files)
    assert caught.value.source == "release: yaml_template/engine_template.yaml"


def test_a_template_that_was_not_decoded() -> None:
    with pytest.raises(InputError, match="no Kubernetes object"):
        understand({**releases.files(SHAPE_2026_05), "yaml_template/engine_template.yaml": "kind: Deployment"})


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_a_missing_script_is_named(shape: str) -> None:
    for path in SCRIPTS[shape].values():
        files = releases.files(shape)
        del files[path]
        with pytest.raises(InputError, match="lacks this script") as caught:
            understand(files)
        assert caught.value.source == f"release: {path}"


def test_a_missing_template_or_document_is_named() -> None:
    found = releases.release(SHAPE_2026_05)
    with pytest.raises(InputError, match="no such template") as caught:
        found.documents("kv_cache_store_template.yaml")
    assert caught.value.source == "release 2026-05: yaml_template/kv_cache_store_template.yaml"
    with pytest.raises(InputError, match="the template has no InferServiceSet"):
        found.document("engine_template.yaml", "InferServiceSet")
