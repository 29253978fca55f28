# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module reaches the cluster: the options that kubernetes.core understands, in this collection's words."""

from __future__ import annotations


class ModuleDocFragment:
    """The options of C(AUTH_ARG_SPEC); a unit test compares names, types and aliases."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig file, or its content as a mapping.
      - If not given, E(K8S_AUTH_KUBECONFIG) is used, then the configuration of the pod that the module runs in, then C(~/.kube/config).
    type: raw
  context:
    description:
      - Context of the kubeconfig to use instead of its current one. See also E(K8S_AUTH_CONTEXT).
    type: str
  host:
    description:
      - URL of the API server, for example V(https://10.0.0.1:6443). See also E(K8S_AUTH_HOST).
    type: str
  api_key:
    description:
      - Bearer token for the API server. See also E(K8S_AUTH_API_KEY).
    type: str
  username:
    description:
      - User name for HTTP basic authentication, for servers or proxies that offer it. See also E(K8S_AUTH_USERNAME).
    type: str
  password:
    description:
      - Password that goes with O(username). See also E(K8S_AUTH_PASSWORD).
    type: str
  validate_certs:
    description:
      - Whether the certificate of the API server has to be valid.
      - See also E(K8S_AUTH_VERIFY_SSL) and E(K8S_AUTH_VALIDATE_CERTS). The certificate is checked unless one of these says otherwise.
    type: bool
    aliases: [verify_ssl]
  ca_cert:
    description:
      - Path of a PEM file with the certificate authorities that may have signed the certificate of the API server.
      - See also E(K8S_AUTH_SSL_CA_CERT) and E(K8S_AUTH_CA_CERT).
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description:
      - Path of a PEM file with the certificate that the module authenticates with.
      - See also E(K8S_AUTH_CERT_FILE) and E(K8S_AUTH_CLIENT_CERT).
    type: path
    aliases: [cert_file]
  client_key:
    description:
      - Path of a PEM file with the private key of O(client_cert).
      - See also E(K8S_AUTH_KEY_FILE) and E(K8S_AUTH_CLIENT_KEY).
    type: path
    aliases: [key_file]
  proxy:
    description:
      - URL of the HTTP proxy through which the API server is reached. See also E(K8S_AUTH_PROXY).
    type: str
  no_proxy:
    description:
      - Hosts, separated by commas, that are reached without O(proxy). See also E(K8S_AUTH_NO_PROXY).
      - Names match with everything below them, a port or an address range (CIDR) may be part of an entry.
    type: str
  proxy_headers:
    description:
      - Headers sent to O(proxy).
    type: dict
    suboptions:
      proxy_basic_auth:
        description:
          - User and password for the proxy, as V(user:password). See also E(K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH).
        type: str
      basic_auth:
        description:
          - User and password for HTTP basic authentication, as V(user:password). See also E(K8S_AUTH_PROXY_HEADERS_BASIC_AUTH).
        type: str
      user_agent:
        description:
          - What the module calls itself towards the proxy. See also E(K8S_AUTH_PROXY_HEADERS_USER_AGENT).
        type: str
  persist_config:
    description:
      - Whether refreshed tokens are written back to the kubeconfig file. See also E(K8S_AUTH_PERSIST_CONFIG).
      - Matters only for kubeconfigs whose credentials expire and are refreshed.
    type: bool
  impersonate_user:
    description:
      - User to act as; the authenticated one needs the right to impersonate it. See also E(K8S_AUTH_IMPERSONATE_USER).
    type: str
  impersonate_groups:
    description:
      - Groups to act as a member of, together with O(impersonate_user).
      - In E(K8S_AUTH_IMPERSONATE_GROUPS) they are separated by commas.
    type: list
    elements: str
requirements:
  - Python >= 3.11
  - Python library kubernetes >= 26.1
notes:
  - O(validate_certs=false) hands the credentials to whoever answers at the address of the API server. Name the authority with O(ca_cert) instead.
"""
