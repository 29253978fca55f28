# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV store of releases of shape 2026-07, with backend memcache or mooncake."""

from __future__ import annotations

from types import MappingProxyType

from .. import release
from . import addresses
from .context import Context
from .kv_tier import KvTier, required

SECTION = "kv_cache_store_config"
ROLE = "kv-store"
MASTER = "KVS_MASTER_SERVICE"
MEMCACHE = "memcache"
# The ports of its Service, in the template's order.
DEFAULT_PORTS = MappingProxyType({"port": 50088, "config_store_port": 50089, "metrics_port": 50090})
DEFAULT_LEASE_TTL = 11000

_LOCAL_CONFIG = {"MMC_LOCAL_CONFIG_PATH": "/usr/local/Ascend/pyMotor/conf/mmc-local.conf"}


def tier(context: Context) -> KvTier:
    """The KV store. Its section or the prefill engine's MultiConnector turns it on.

    The coordinator is told of it in every service, and always of backend memcache: so does the deployer.
    """
    master = {MASTER: addresses.host(context, release.KV_STORE, ROLE)}
    coordinator = {**master, "KV_STORE_BACKEND": MEMCACHE, **_LOCAL_CONFIG}
    if not (context.section(SECTION) or context.uses_multi_connector):
        return KvTier(release.KV_STORE, ROLE, MASTER, enabled=False, coordinator_env=coordinator)
    section = context.section(SECTION)
    backend = section.get("backend") or MEMCACHE
    engine = {**master, "KV_STORE_BACKEND": backend, **(_LOCAL_CONFIG if backend == MEMCACHE else {})}
    ports = tuple(int(section.get(key, default)) for key, default in DEFAULT_PORTS.items())
    own = {**master, "KV_STORE_BACKEND": backend, "KV_CACHE_STORE_PORT": str(ports[0]), **_backend_env(context, backend, ports)}
    return KvTier(
        release.KV_STORE,
        ROLE,
        MASTER,
        enabled=True,
        own_env=own,
        engine_env=engine,
        coordinator_env=coordinator,
        ports=ports,
    )


def _backend_env(context: Context, backend: str, ports: tuple[int, ...]) -> dict[str, str]:
    if backend == MEMCACHE:
        return {"MMC_CONFIG_STORE_URL": f"tcp://0.0.0.0:{ports[1]}", "MMC_METRICS_URL": f"http://0.0.0.0:{ports[2]}"}
    return {
        "KV_STORE_EVICTION_HIGH_WATERMARK_RATIO": required(context, SECTION, "eviction_high_watermark_ratio"),
        "KV_STORE_EVICTION_RATIO": required(context, SECTION, "eviction_ratio"),
        "DEFAULT_KV_LEASE_TTL": str(context.section(SECTION).get("default_kv_lease_ttl", DEFAULT_LEASE_TTL)),
    }
