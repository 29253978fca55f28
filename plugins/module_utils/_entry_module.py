# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frame of every module: options in, work, one result or one error out. It opens no connection."""

from __future__ import annotations

import atexit
import gc
import getpass
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from ._cluster.module import AUTH_ARG_SPEC, MotorModule
from ._motor.errors import MotorError


def run_module(spec: Mapping[str, Any], work: Callable[[Any], dict[str, Any]], **kwargs: Any) -> None:
    """Build the module, do the work, exit once. With `check_k8s=False` the library kubernetes may be absent."""
    _spare_collections()
    module = MotorModule(argument_spec={**spec, **AUTH_ARG_SPEC}, supports_check_mode=True, **kwargs)
    try:
        result = work(module)
    except MotorError as error:
        for warning in error.warnings:
            module.warn(warning)
        module.fail_json(msg=str(error), reason=error.reason, **error.details)
    else:
        module.exit_json(**result)


def _spare_collections() -> None:
    """What was imported lives until the process ends, and then memory goes back all at once: looking for garbage in it costs as much
    time as several requests.
    """
    gc.freeze()
    atexit.register(gc.freeze)


def who() -> str:
    """User and host, as records of who changed something have them."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
