# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV pool of releases of shape 2026-05."""

from __future__ import annotations

from .. import release
from . import addresses
from .context import Context
from .kv_tier import KvTier, required

SECTION = "kv_cache_pool_config"
ROLE = "kv-pool"
MASTER = "KVP_MASTER_SERVICE"
DEFAULT_PORT = 50088


def tier(context: Context) -> KvTier:
    """The KV pool. Only the prefill engine's MultiConnector turns it on; the section alone does not."""
    if not context.uses_multi_connector:
        return KvTier(release.KV_POOL, ROLE, MASTER, enabled=False)
    if not context.section(SECTION):
        raise context.error((SECTION,), "this section is missing: the kv_connector MultiConnector needs it")
    pool_port = int(context.section(SECTION).get("port", DEFAULT_PORT))
    master = {MASTER: addresses.host(context, release.KV_POOL, ROLE)}
    own = {
        **master,
        "KV_POOL_PORT": str(pool_port),
        "KV_POOL_EVICTION_HIGH_WATERMARK_RATIO": required(context, SECTION, "eviction_high_watermark_ratio"),
        "KV_POOL_EVICTION_RATIO": required(context, SECTION, "eviction_ratio"),
    }
    return KvTier(release.KV_POOL, ROLE, MASTER, enabled=True, own_env=own, engine_env=master, ports=(pool_port,))
