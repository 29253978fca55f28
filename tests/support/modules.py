# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module's real main() in this process, as Ansible would call it."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
from typing import Any
from unittest.mock import patch

from ansible.module_utils import _internal
from ansible.module_utils.common import warnings as module_warnings
from ansible.module_utils.testing import patch_module_args

from tests.tools.environment import COLLECTIONS, ROOT

_OFFLINE = """
import json, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("kubernetes", "urllib3", "requests"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import socket
def refuse(*arguments, **more):
    raise AssertionError("a connection was opened")
socket.socket.connect = socket.create_connection = refuse
from tests.support.modules import run_module
print(json.dumps(run_module(sys.argv[3], **json.loads(sys.stdin.readline()))))
"""


def run_module(module_name: str, /, *, check_mode: bool = False, diff: bool = False, **options: Any) -> dict[str, Any]:
    """Call the module and return its result, with `failed` when it failed. An option that is None is left out.

    `warnings` has texts, as Ansible shows them, of this call alone: within one process they would add up.
    """
    module_warnings._global_warnings.clear()
    module = importlib.import_module(f"ansible_collections.ascend.mindie.plugins.modules.{module_name}")
    given = {option: value for option, value in options.items() if value is not None}
    arguments = {**given, "_ansible_check_mode": check_mode, "_ansible_diff": diff}
    output = io.StringIO()
    # Where a module runs there is no controller, whatever of it other tests of this process have imported.
    alone = patch.object(_internal, "is_controller", False)
    with alone, patch_module_args(arguments), contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        module.main()
    result: dict[str, Any] = json.loads(output.getvalue())
    if "warnings" in result:
        result["warnings"] = [found["event"]["msg"] if isinstance(found, dict) else found for found in result["warnings"]]
    return result


def run_offline(module_name: str, /, **options: Any) -> dict[str, Any]:
    """Call the module in a process where there is no library kubernetes and no way to connect."""
    command = [sys.executable, "-c", _OFFLINE, str(COLLECTIONS), str(ROOT), module_name]
    done = subprocess.run(command, input=json.dumps(options) + "\n", capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def warm(name: str) -> None:
    """Import all that a run of the module imports. Some of it only a run does: this one fails before it connects."""
    importlib.import_module(f"ansible_collections.ascend.mindie.plugins.modules.{name}")
    run_module("motor_service_info", namespace="none", kubeconfig=os.devnull)
