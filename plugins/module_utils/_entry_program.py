# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module for programs does: read the options, run the plan, tell what there is."""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ._cluster import certificates as library
from ._cluster import programs as cluster
from ._cluster.connection import connect
from ._motor import certificates, plan_program, program_state, programs
from ._motor.certificates import Facts, Serving
from ._motor.errors import InputError, MotorError
from ._motor.ownership import CONFIG_MAP, LEASE
from ._motor.plan_program import Live
from ._motor.programs import Object, Program, Rules, ServedApi
from ._motor.sizes import LIMIT
from ._motor.state import is_deployer_name

PROGRAM_SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "required": True},
    # No secret, but a megabyte that nobody wants to see in every log and job event.
    "archive": {"type": "str", "no_log": True},
    "settings": {"type": "dict", "default": {}},
    "image": {"type": "str"},
    "image_pull_secrets": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "replicas": {"type": "int", "default": 2},
    "port": {"type": "int", "default": 8080},
    "service": {"type": "bool", "default": True},
    "node_selector": {"type": "dict", "default": {}},
    "tolerations": {"type": "list", "elements": "dict", "default": []},
    "resources": {"type": "dict", "options": {"requests": {"type": "dict"}, "limits": {"type": "dict"}}},
    "rights": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"namespace": {"type": "str"}, "rules": {"type": "list", "elements": "dict", "required": True}},
    },
    "api": {
        "type": "dict",
        "options": {
            "group": {"type": "str", "required": True},
            "version": {"type": "str", "required": True},
            "port": {"type": "int", "default": 8443},
            "certificate": {"type": "str"},
            "private_key": {"type": "str", "no_log": True},
            "ca": {"type": "str"},
        },
    },
    "create_namespace": {"type": "bool", "default": False},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 600},
}
MAX_REPLICAS = 5
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_GIVEN = ("certificate", "private_key", "ca")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)+")
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_RULE_KEYS = ("apiGroups", "resources", "resourceNames", "verbs", "nonResourceURLs")


def converge(module: Any) -> dict[str, Any]:
    """Have the program as the options say, or nothing of it; returns the module's result."""
    params = module.params
    _require_names(params["name"], params["namespace"])
    rights = _rights(params["rights"])
    wanted = None if params["state"] == "absent" else _wanted(params, rights)
    offered = _Offered(module, time.time()) if params["api"] else None
    namespaces = tuple(place for place in rights if place)
    more = programs.api_objects(params["name"], offered.name) if offered else ()
    api = connect(module)

    def planner(live: Live) -> Any:
        if wanted is None:
            return plan_program.plan_absent(live, namespaces, more)
        program = replace(wanted, api=offered.served(live)) if offered else wanted
        return plan_program.plan_present(live, program, create_namespace=params["create_namespace"])

    outcome = cluster.run(
        api,
        lambda: cluster.observe_program(api, params["name"], params["namespace"], namespaces, more),
        planner,
        wait=params["wait"],
        wait_timeout=float(params["wait_timeout"]),
        check_mode=module.check_mode,
        offered=offered.name if offered and wanted else "",
    )
    result: dict[str, Any] = {"changed": bool(outcome.actions), "actions": outcome.actions}
    result["program"] = _facts(params, wanted, outcome.deployment)
    if wanted and offered:
        result["program"]["api"] = offered.shown
    if module._diff:
        result["diff"] = plan_program.changes(outcome.before, outcome.plan)
    return {**result, "requests": api.requests}


class _Offered:
    """The API of a program, and the certificate that it is served with: the given one, the one there is, or one that is made once."""

    def __init__(self, module: Any, now: float) -> None:
        self._module, self._now = module, now
        params = module.params
        self._options, self._host = params["api"], certificates.names(params["name"], params["namespace"])
        _require_api(params)
        self.name = programs.api_name(self._options["group"], self._options["version"])
        self._made: Serving | None = None
        self.shown: dict[str, Any] = {"name": self.name}
        if params["state"] == "present":
            if library.CRYPTOGRAPHY_IMPORT_ERROR:
                wrong = "The option api needs the Python library cryptography >= 42 where the module runs: install it there."
                raise MotorError(wrong, reason="LibraryMissing", exception=library.CRYPTOGRAPHY_IMPORT_ERROR)
            self._given = self._given_certificate()

    def served(self, live: Live) -> ServedApi:
        """The API as it is wanted beside what there is."""
        secret, service = (live.own(key) for key in (("Secret", live.namespace, live.name), ("APIService", "", self.name)))
        there = Serving.of(secret) if secret else None
        serving, facts = self._chosen(there)
        begun = certificates.since(secret, self._now) if there == serving else self._now
        trusted = certificates.decoded(((service or {}).get("spec") or {}).get("caBundle"))
        self.shown["certificate"] = certificates.told(facts)
        bundle = certificates.bundle(serving.authority, trusted, begun, self._now)
        options = self._options
        return ServedApi(options["group"], options["version"], options["port"], serving, bundle, begun)

    def _chosen(self, there: Serving | None) -> tuple[Serving, Facts]:
        if self._given:
            return self._given
        facts = library.read(there) if there else None
        if there and facts and not certificates.renewal(facts, self._host[0], self._now):
            return there, facts
        if self._made is None:
            self._made = library.make(self._host, self._now)
            self._hide(self._made)
        return self._made, library.read(self._made)

    def _given_certificate(self) -> tuple[Serving, Facts] | None:
        if not self._options["certificate"]:
            return None
        given = Serving(*(f"{self._options[name].strip()}\n" for name in _GIVEN))
        self._hide(given)
        facts = library.read(given)
        wrong = certificates.unusable(facts, self._host[0], self._now)
        if wrong:
            raise InputError.at(f"nobody can be served with this certificate: {wrong}", source="api", path="api.certificate")
        if certificates.ends_soon(facts, self._now):
            self._module.warn("The certificate in api.certificate ends within 30 days. Nobody but you renews it.")
        return given, facts

    def _hide(self, serving: Serving) -> None:
        """Whatever is told, by whomever, the key is not in it: neither the whole nor one of its lines."""
        # A short line would hide what has nothing to do with it.
        lines = (line for line in serving.private_key.splitlines() if len(line) > 15 and not line.startswith("-----"))
        self._module._module.no_log_values.update({serving.private_key, certificates.encoded(serving.private_key), *lines})


def _require_api(params: Mapping[str, Any]) -> None:
    given = params["api"]
    for option, form in (("group", _GROUP), ("version", _VERSION)):
        if not form.fullmatch(given[option]):
            raise InputError.at(f"{given[option]!r} cannot be the {option} of an API", source="api", path=f"api.{option}")
    if _number("api.port", given["port"], 1024, 65535) == params["port"]:
        raise InputError.at(f"{given['port']} is the value of port, too: two things listen", source="api", path="api.port")
    missing = [option for option in _GIVEN if not given[option]]
    if missing and len(missing) < len(_GIVEN):
        raise InputError.at(f"write {' and '.join(missing)}, too, or none of {', '.join(_GIVEN)}", source="api")
    if not params["service"]:
        raise InputError.at("the API server reaches an API by its Service: leave out service: false", source="api")


def _facts(params: Mapping[str, Any], wanted: Program | None, deployment: Object | None) -> dict[str, Any]:
    """The program after the work."""
    found: dict[str, Any] = {"name": params["name"], "namespace": params["namespace"], "installed": wanted is not None}
    if wanted is None:
        return {**found, "pods_ready": 0}
    status = (deployment or {}).get("status") or {}
    found.update(
        image=wanted.image, replicas=wanted.replicas, namespaces=list(wanted.namespaces), archive_sha256=programs.digest(wanted.archive)
    )
    found["missing"] = program_state.missing(deployment) if deployment else "the Deployment has not been looked at yet"
    return {**found, "pods_ready": int(status.get("readyReplicas") or 0)}


def _wanted(params: Mapping[str, Any], rights: Mapping[str, Rules]) -> Program:
    given = params["resources"]
    resources = programs.DEFAULT_RESOURCES if given is None else {key: value for key, value in given.items() if value}
    program = Program(
        name=params["name"],
        namespace=params["namespace"],
        image=_image(params["image"]),
        archive=_archive(params["archive"]),
        settings=_settings(params["settings"]),
        port=_number("port", params["port"], 1024, 65535),
        replicas=_number("replicas", params["replicas"], 1, MAX_REPLICAS),
        service=params["service"],
        rights=rights,
        image_pull_secrets=tuple(params["image_pull_secrets"]),
        node_selector=_texts("node_selector", params["node_selector"]),
        tolerations=tuple(params["tolerations"]),
        resources=resources,
    )
    size = programs.size(program)
    if size > LIMIT:
        wrong = f"code and settings have {size} bytes; a ConfigMap holds at most {LIMIT} bytes (1 MiB)"
        raise InputError.at(wrong, source="archive")
    return program


def _require_names(name: str, namespace: str) -> None:
    if not _LABEL.fullmatch(name):
        wrong = f"{name!r} cannot be the name of a program: write at most 63 lower-case letters, digits and -, a letter first"
        raise InputError.at(wrong, source="name")
    if name in (LEASE, CONFIG_MAP) or is_deployer_name(name):
        raise InputError.at(f"{name} is, or looks like, a name of what belongs to a service: give the program another one", source="name")
    if not _NAMESPACE.fullmatch(namespace):
        raise InputError.at(f"{namespace!r} cannot be the name of a namespace", source="namespace")


def _archive(text: str) -> str:
    """The archive as the API server shows it again. Raises InputError when it is no zip application."""
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    except (binascii.Error, ValueError, zipfile.BadZipFile) as error:
        wrong = f"this is no zip application as base64 text ({error}): use the lookup ascend.mindie.program_archive"
        raise InputError.at(wrong, source="archive") from error
    if "__main__.py" not in names:
        raise InputError.at("there is no __main__.py at the top of the archive, so that Python cannot run it", source="archive")
    return base64.b64encode(content).decode("ascii")


def _settings(given: Mapping[str, Any]) -> str:
    """The text of settings.json, the same for the same settings."""
    try:
        return json.dumps(given, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise InputError.at(f"this cannot be written as JSON: {error}", source="settings") from error


def _image(given: str) -> str:
    if not given or given.split() != [given]:
        raise InputError.at(f"{given!r} is no image", source="image")
    return given


def _number(option: str, given: int, least: int, most: int) -> int:
    if not least <= given <= most:
        raise InputError.at(f"{given} is not within {least} and {most}", source=option)
    return given


def _texts(option: str, given: Mapping[str, Any]) -> dict[str, str]:
    for key, value in given.items():
        if not isinstance(value, str):
            raise InputError.at(f"{value!r} is no text: put it into quotation marks", source=option, path=f"{option}.{key}")
    return dict(given)


def _rights(given: Sequence[Mapping[str, Any]]) -> dict[str, Rules]:
    """Rules by namespace, "" for the whole cluster."""
    found: dict[str, Rules] = {}
    for number, entry in enumerate(given):
        place = entry["namespace"] or ""
        if place and not _NAMESPACE.fullmatch(place):
            raise InputError.at(f"{place!r} cannot be the name of a namespace", source="rights", path=f"rights[{number}].namespace")
        for rule in entry["rules"]:
            _require_rule(rule, f"rights[{number}].rules")
        found.setdefault(place, []).extend(entry["rules"])
    return {place: rules for place, rules in found.items() if rules}


def _require_rule(rule: Mapping[str, Any], path: str) -> None:
    unknown = [key for key in rule if key not in _RULE_KEYS]
    if unknown:
        raise InputError.at(f"a rule has no {', '.join(unknown)}: write {', '.join(_RULE_KEYS)}", source="rights", path=path)
    for key, value in rule.items():
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError.at(f"{key} is a list of texts", source="rights", path=path)
    if not rule.get("verbs"):
        raise InputError.at("a rule needs verbs", source="rights", path=path)
