# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`motor-config`: the user config, byte for byte, and the scripts with the environment in them."""

from __future__ import annotations

import re
from typing import Any

from ..ownership import CONFIG_MAP, metadata_labels
from ..record import USER_CONFIG_KEY
from ..shell_environment import inject
from ..sizes import check_size
from . import environment, kv
from .context import Context

COMPONENT = "config"
BOOT = "boot.sh"

# Releases of shape 2026-05 patch vLLM at start when KV pool and KV conductor are both on. The image brings the patch.
_PATCH_BEGIN, _PATCH_END = "# patch_begin", "# patch_end"
_PATCH_BLOCK = re.compile(rf"^{_PATCH_BEGIN}\n.*?^{_PATCH_END}\n", re.MULTILINE | re.DOTALL)
_PATCH = f"""{_PATCH_BEGIN}
patch -p0 -N /usr/local/python3.11.10/lib/python3.11/site-packages/vllm/distributed/kv_transfer/kv_connector/v1/multi_connector.py \\
    /tmp/motor/examples/deployer/patch/kv_vllm_multi_connector.patch
{_PATCH_END}
"""


def config_map(context: Context) -> dict[str, Any]:
    """The whole ConfigMap object. Raises InputError when it would be too large."""
    data = dict(context.release.scripts)
    if context.is_2026_05:
        data[BOOT] = _patched(context, data[BOOT])
    for script, name, text in environment.functions(context):
        data[script] = inject(data[script], name, text)
    data[USER_CONFIG_KEY] = context.config.text
    check_size(data, source=context.config.document.source)
    metadata = {"name": CONFIG_MAP, "namespace": context.namespace, "labels": metadata_labels(COMPONENT)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _patched(context: Context, boot: str) -> str:
    """boot.sh with the patch if this service needs it, and without one that a deployer left in the release for another service."""
    clean = _PATCH_BLOCK.sub("", boot)
    return _PATCH + clean if kv.tier(context).enabled and kv.conductor_port(context) else clean
