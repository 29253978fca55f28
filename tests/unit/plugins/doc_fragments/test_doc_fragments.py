# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What several files have to say alike: the connection options, the shared options, the action group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ansible_collections.ascend.mindie.plugins.doc_fragments import auth, wait
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.module import AUTH_ARG_SPEC
from ansible_collections.ascend.mindie.plugins.module_utils._entry import WAIT_SPEC

ROOT = Path(__file__).parents[4]


def _comparable(options: dict[str, dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Name -> type, aliases, type of elements, default, suboptions."""
    return {
        name: (
            option.get("type", "str"),
            tuple(sorted(option.get("aliases", ()))),
            option.get("elements"),
            option.get("default"),
            _comparable(option.get("suboptions") or option.get("options") or {}),
        )
        for name, option in options.items()
    }


def test_the_connection_options_are_those_of_kubernetes_core() -> None:
    assert _comparable(yaml.safe_load(auth.ModuleDocFragment.DOCUMENTATION)["options"]) == _comparable(AUTH_ARG_SPEC)


def test_the_waiting_options_are_those_of_the_modules() -> None:
    assert _comparable(yaml.safe_load(wait.ModuleDocFragment.DOCUMENTATION)["options"]) == _comparable(WAIT_SPEC)


def test_the_action_group_has_every_module() -> None:
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    assert sorted(runtime["action_groups"]["motor"]) == sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("motor_*.py"))
