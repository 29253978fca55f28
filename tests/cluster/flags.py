# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command-line flags of the control plane's programs. Dead nodes are found in ten seconds, and their pods evicted five later."""

from __future__ import annotations

from pathlib import Path

CONTROLLER_MANAGER = [
    "--leader-elect=false",
    "--secure-port=0",
    "--service-account-private-key-file=sa.key",
    "--root-ca-file=ca.crt",
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
    "--node-monitor-period=2s",
    "--node-monitor-grace-period=10s",
    "--horizontal-pod-autoscaler-sync-period=2s",
    "--horizontal-pod-autoscaler-downscale-stabilization=5s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
]


def etcd(client: str, peer: str, directory: Path) -> list[str]:
    """etcd with two URLs and its data in a directory."""
    return [
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def api_server(etcd: str, port: int, egress: bool) -> list[str]:
    """kube-apiserver with the URL of etcd; files are in its working directory."""
    return [
        f"--etcd-servers={etcd}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--tls-cert-file=api.crt",
        "--tls-private-key-file=api.key",
        "--client-ca-file=ca.crt",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        "--allow-privileged",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=sa.pub",
        "--service-account-signing-key-file=sa.key",
        "--requestheader-client-ca-file=front-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--proxy-client-cert-file=front.crt",
        "--proxy-client-key-file=front.key",
        "--enable-aggregator-routing=true",
        "--default-not-ready-toleration-seconds=5",
        "--default-unreachable-toleration-seconds=5",
        *(["--egress-selector-config-file=egress.yaml"] if egress else []),
    ]
