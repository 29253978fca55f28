# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Motor release brings: the templates of its objects and the scripts that its pods run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .errors import InputError

SHAPE_2026_05 = "2026-05"
SHAPE_2026_07 = "2026-07"

TEMPLATES = "yaml_template"
CONTROLLER = "controller_template.yaml"
COORDINATOR = "coordinator_template.yaml"
ENGINE = "engine_template.yaml"
INFER_SERVICE_SET = "infer_service_template.yaml"
SINGLE_CONTAINER = "single_container_template.yaml"
KV_POOL = "kv_pool_template.yaml"
KV_STORE = "kv_cache_store_template.yaml"
KV_CONDUCTOR = "kv_conductor_template.yaml"
MF_STORE = "mf_store_template.yaml"
STORAGE = "storage_pvc_template.yaml"

_BOTH = {
    "boot.sh": "startup/boot.sh",
    "common.sh": "startup/common.sh",
    "hccl_tools.py": "startup/hccl_tools.py",
    "controller.sh": "startup/roles/controller.sh",
    "coordinator.sh": "startup/roles/coordinator.sh",
    "engine.sh": "startup/roles/engine.sh",
    "kv_conductor.sh": "startup/roles/kv_conductor.sh",
    "mf_store.sh": "startup/roles/mf_store.sh",
    "all_combine_in_single_container.sh": "startup/roles/all_combine_in_single_container.sh",
    "probe.sh": "probe/probe.sh",
    "probe.py": "probe/probe.py",
}
_BACKENDS = "startup/roles/kv_store_backends"

# Which file of a release becomes which key of `motor-config`.
SCRIPTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        SHAPE_2026_05: MappingProxyType(
            {**_BOTH, "mooncake_config.py": "startup/mooncake_config.py", "kv_pool.sh": "startup/roles/kv_pool.sh"}
        ),
        SHAPE_2026_07: MappingProxyType(
            {
                **_BOTH,
                "mooncake_config.py": f"{_BACKENDS}/mooncake/mooncake_config.py",
                "kv_cache_store.sh": "startup/roles/kv_cache_store.sh",
                "kv_store_backends.mooncake.mooncake.sh": f"{_BACKENDS}/mooncake/mooncake.sh",
                "kv_store_backends.memcache.memcache.sh": f"{_BACKENDS}/memcache/memcache.sh",
                "kv_store_backends.memcache.memcache_meta_service.py": f"{_BACKENDS}/memcache/memcache_meta_service.py",
                "kv_store_backends.memcache.mmc-local.conf": f"{_BACKENDS}/memcache/mmc-local.conf",
                "prestop.sh": "prestop/prestop.sh",
                "prestop.py": "prestop/prestop.py",
            }
        ),
    }
)


@dataclass(frozen=True)
class Release:
    """One release. `shape` is `2026-05` or `2026-07`, `templates` `{file name: (document, ...)}`, `scripts` `{motor-config key: text}`.

    `source` names the release in errors: the option or the directory.
    """

    shape: str
    templates: Mapping[str, tuple[Mapping[str, Any], ...]] = field(repr=False)
    scripts: Mapping[str, str] = field(repr=False)
    source: str = "release"

    def documents(self, file: str) -> tuple[Mapping[str, Any], ...]:
        """The documents of one template. Raises InputError when the release has no such template."""
        if file not in self.templates:
            raise InputError.at("the release has no such template: take a complete release", source=self.place(file))
        return self.templates[file]

    def document(self, file: str, kind: str) -> Mapping[str, Any]:
        """The first document of a kind in one template. Raises InputError when there is none."""
        for found in self.documents(file):
            if found["kind"] == kind:
                return found
        raise InputError.at(f"the template has no {kind}", source=self.place(file))

    def place(self, file: str) -> str:
        """How errors name a template."""
        return f"{self.source}: {TEMPLATES}/{file}"


def understand(files: Mapping[str, object], source: str = "release") -> Release:
    """The release that these files are.

    `files` maps a path relative to the release's directory to its text, or for `yaml_template/*.yaml` to the list of its
    documents. The shape follows from what is there: the KV store came with 2026-07. Raises InputError naming the file when
    this is no release, when a script that pods need is missing, or when a template holds no Kubernetes objects.
    """
    templates = dict(_templates(files, source))
    if not templates:
        wrong = f"this is no Motor release: it has no {TEMPLATES}/*.yaml (give the release's deployer directory)"
        raise InputError.at(wrong, source=source)
    shape = SHAPE_2026_07 if KV_STORE in templates else SHAPE_2026_05
    scripts = {key: _script(files, path, source) for key, path in SCRIPTS[shape].items()}
    return Release(shape, MappingProxyType(templates), MappingProxyType(scripts), source)


def _templates(files: Mapping[str, object], source: str) -> Iterator[tuple[str, tuple[Mapping[str, Any], ...]]]:
    for path, content in files.items():
        folder, _slash, name = path.rpartition("/")
        if folder != TEMPLATES or not name.endswith((".yaml", ".yml")):
            continue
        documents = [found for found in content if found is not None] if isinstance(content, list) else [content]
        for found in documents:
            if not (isinstance(found, dict) and isinstance(found.get("kind"), str) and isinstance(found.get("metadata"), dict)):
                raise InputError.at("a document that is no Kubernetes object", source=f"{source}: {path}")
        yield name, tuple(found for found in documents if isinstance(found, dict))


def _script(files: Mapping[str, object], path: str, source: str) -> str:
    text = files.get(path)
    if not isinstance(text, str):
        raise InputError.at("the release lacks this script, which pods need: take a complete release", source=f"{source}: {path}")
    return text
