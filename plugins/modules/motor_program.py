#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install, configure, upgrade and remove a program of this collection in the cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_program
short_description: Install, configure, upgrade or remove a program that runs in the cluster
version_added: 0.1.0
description:
  - Runs a zip application (see P(ascend.mindie.program_archive#lookup)) in a Deployment of its own, with its own ServiceAccount and exactly the
    rights that it is given.
  - Code and settings are in a ConfigMap. Pods are replaced, one at a time and never fewer than wanted, when code, settings or what else
    they are started from has changed, and only then.
  - What an earlier run has made and this one does not want, such as a Role in a namespace that is not watched any more, is removed.
    The ConfigMap remembers in which namespaces there are rights. It is written first and removed last, so that what was interrupted is
    finished by running the same task again, from any machine.
  - There is no lock. Each object is compared with what is wanted, and written only if nobody else has written it since.
  - The API server lets nobody give away rights that he does not have, so the user of this module needs those of the program, too.
extends_documentation_fragment:
  - ascend.mindie.auth
  - ascend.mindie.attributes
  - ascend.mindie.attributes.actiongroup_motor
requirements:
  - Python library cryptography >= 42, with O(api)
attributes:
  check_mode:
    support: full
    description: Predicts with the same plan and sends no request that changes anything; rights to read are enough.
  diff_mode:
    support: full
    description: Shows the objects before and after, without what the server adds. Code is shown as its digest.
  idempotent:
    support: full
    description: A second run changes nothing and writes nothing.
options:
  state:
    description:
      - V(present) installs the program, or changes it.
      - V(absent) removes everything of it, the Lease of its election included, and waits until its pods are gone. The namespace stays.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - Name of the program, of its objects and of the Lease by which its pods agree on a leader.
      - Objects that give rights are named C(NAME.NAMESPACE), as several programs may have some in one namespace.
    type: str
    required: true
  namespace:
    description: Namespace that the program lives in. It may be that of a service.
    type: str
    required: true
  archive:
    description: The zip application as base64 text. Required for O(state=present).
    type: str
  settings:
    description: What the program reads as C(settings.json).
    type: dict
    default: {}
  image:
    description:
      - Image with Python 3.11 or later as C(python3) and the library kubernetes >= 26.1. An image of Motor has both. Required for O(state=present).
      - It is pulled where it is not there yet. Images of Motor are large; O(node_selector) can name servers that have it.
    type: str
  image_pull_secrets:
    description: Names of Secrets in O(namespace) with which the image is pulled.
    type: list
    elements: str
    default: []
  replicas:
    description: How many pods there are, from 1 to 5. One of them leads, the others take over.
    type: int
    default: 2
  port:
    description: Port on which the program listens, from 1024 on as it does not run as root. It has to answer C(/healthz) there.
    type: int
    default: 8080
  service:
    description: Whether there is a Service (C(ClusterIP)) in front of the pods, with the same port.
    type: bool
    default: true
  api:
    description:
      - An API that the program serves over TLS, and that the API server passes on to it (an C(APIService)). A program without one has none.
      - The program finds its certificate in C(/certificate/tls.crt) and C(/certificate/tls.key), and reads them again when they change, as pods are
        not replaced for a new certificate.
      - The C(APIService) is made last, when the pods are available if O(wait=true), and removed first. One that is not this program's is refused with
        RV(reason=NotOurs).
      - Needs the Python library C(cryptography) >= 42 where the module runs.
      - Give it with O(state=absent), too, so that all is found even when the ConfigMap of the program is gone.
    type: dict
    suboptions:
      group:
        description: API group, such as C(external.metrics.k8s.io).
        type: str
        required: true
      version:
        description: Version of it, such as C(v1beta1).
        type: str
        required: true
      port:
        description: Port on which the pods serve it. The Service has it as port 443.
        type: int
        default: 8443
      certificate:
        description:
          - Certificate as PEM text, the intermediate ones below it, to be given with O(api.private_key) and O(api.ca). It has to be for
            C(NAME.NAMESPACE.svc). Nobody but you renews it; below 30 days there is a warning.
          - Left out, one is made that is valid for a year, with an authority of its own whose key is kept nowhere, and each run that finds less than 30
            days left of it makes another one. The API server then trusts both for an hour, the new one before pods show it; the first run after
            that takes the old one away.
        type: str
      private_key:
        description: Its key as PEM text, without a password.
        type: str
      ca:
        description: Certificates of the authorities that vouch for it, as PEM text.
        type: str
  node_selector:
    description: Labels of the servers on which the pods may run.
    type: dict
    default: {}
  tolerations:
    description: Tolerations of the pods, as Kubernetes writes them.
    type: list
    elements: dict
    default: []
  resources:
    description: What the pods ask for, 0.1 CPU and 128 MiB of memory (512 MiB at most) unless told otherwise.
    type: dict
    suboptions:
      requests:
        description: Requested quantities.
        type: dict
      limits:
        description: Limits.
        type: dict
  rights:
    description: What the program may do. Entries for the same namespace add up.
    type: list
    elements: dict
    default: []
    suboptions:
      namespace:
        description: Where the rules hold. Left out, they hold in the whole cluster.
        type: str
      rules:
        description: Rules of RBAC as Kubernetes writes them, with C(apiGroups), C(resources), C(resourceNames) and C(verbs).
        type: list
        elements: dict
        required: true
  create_namespace:
    description: Whether to create O(namespace) when it is missing.
    type: bool
    default: false
  wait:
    description:
      - Whether to wait until all pods are of the newest version and available, and until the API server has reached their API, with O(api).
      - That its pods are gone is waited for in any case when the program is removed.
    type: bool
    default: true
  wait_timeout:
    description:
      - How long to wait, in seconds.
      - What does not end by itself ends the wait early. That is an image that cannot be pulled, a container that crashes again and again,
        a configuration that is not there, and pods that the server refuses for 15 seconds.
    type: int
    default: 600
seealso:
  - plugin: ascend.mindie.program_archive
    plugin_type: lookup
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: Run a program that reads the pods of one namespace
  ascend.mindie.motor_program:
    name: watcher
    namespace: mindie-system
    create_namespace: true
    image: registry.example/mindie/motor:26.0
    archive: "{{ lookup('ascend.mindie.program_archive', role_path ~ '/files/watcher') }}"
    settings:
      namespaces: [chat]
    rights:
      - rules:
          - {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
      - namespace: chat
        rules:
          - {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}

- name: Run a program that serves an API
  ascend.mindie.motor_program:
    name: adaptor
    namespace: mindie-system
    image: registry.example/mindie/motor:26.0
    archive: "{{ lookup('ascend.mindie.program_archive', role_path ~ '/files/adaptor') }}"
    settings:
      namespaces: [chat]
    api:
      group: external.metrics.k8s.io
      version: v1beta1

- name: Remove it without a trace
  ascend.mindie.motor_program:
    name: watcher
    namespace: mindie-system
    state: absent
"""

RETURN = r"""
actions:
  description:
    - The writes that were made, in order; in check mode those that would be made.
    - The keys are those of RV(ascend.mindie.motor_service#module:actions).
  returned: success, and failure after the first write
  type: list
  elements: dict

program:
  description: The program after the work; in check mode as it would be, with the pods as they are.
  returned: success
  type: dict
  contains:
    name:
      description: Its name.
      type: str
    namespace:
      description: Its namespace.
      type: str
    installed:
      description: Whether it is there.
      type: bool
    image:
      description: Its image.
      type: str
    replicas:
      description: How many pods there are to be.
      type: int
    namespaces:
      description: Namespaces in which it has rights.
      type: list
      elements: str
    archive_sha256:
      description: SHA-256 of its code.
      type: str
    missing:
      description: What is still missing until all pods are of the newest version and available; empty when nothing is.
      type: str
    pods_ready:
      description: How many pods are ready.
      type: int
    api:
      description: What is served, with O(api).
      type: dict
      contains:
        name:
          description: Name of the APIService.
          type: str
        certificate:
          description:
            - The C(names) that the certificate is for, and C(not_after), until when it holds (seconds since the epoch).
            - In check mode it may be a certificate that only a run makes.
          type: dict
  sample:
    name: watcher
    namespace: mindie-system
    installed: true
    image: registry.example/mindie/motor:26.0
    replicas: 2
    namespaces: [chat]
    archive_sha256: 3f1d5f1c9c7f1d1f2f0a2b9a9f2b5a2b1f3c7d1e9a8b7c6d5e4f3a2b1c0d9e8f
    missing: ""
    pods_ready: 2

reason:
  description: Why the module failed, one word that playbooks can test.
  returned: failure
  type: str
  sample: NotOurs

failed_pods:
  description: Pods that cannot run, and the Deployment when it cannot make any, each with C(name) and C(reason).
  returned: failure, with RV(reason=InstancesFailed)
  type: list
  elements: dict

requests:
  description: Requests that were sent to the API server.
  returned: success
  type: int
  sample: 12
"""

from ansible_collections.ascend.mindie.plugins.module_utils._entry_module import run_module
from ansible_collections.ascend.mindie.plugins.module_utils._entry_program import PROGRAM_SPEC, converge


def main() -> None:
    """Run the module."""
    run_module(PROGRAM_SPEC, converge, required_if=[("state", "present", ("archive", "image"))])


if __name__ == "__main__":
    main()
