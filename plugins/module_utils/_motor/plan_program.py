# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans to install, change and remove a program.

The ConfigMap comes first and goes last: it remembers in which namespaces there may be rights, so that whatever was interrupted is
finished by the next run. There is no lock: every write is a compare-and-swap of one object, and says what the object shall be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import plan, programs
from .certificates import PRIVATE_KEY
from .compare import differences, merged
from .errors import Refused
from .plan import ABSENT, AVAILABLE, Plan, Step, Write
from .programs import NAMESPACES, Key, Object, Program, key_of
from .secrets import HIDDEN
from .secrets import digest as mark

VERB = "program"
# What the server does not let anybody change: such an object is made anew.
_FIXED = {"RoleBinding": "roleRef", "ClusterRoleBinding": "roleRef", "Deployment": "spec.selector", "Secret": "type"}
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")
_FIRST, _LAST = "ConfigMap", "Deployment"
# The API server asks whoever it names, so that it is made when somebody answers, and goes before anything else does: what it cannot
# reach keeps namespaces from being deleted. What it trusts changes before the certificate does.
_API = "APIService"
# Values that are not shown in a diff, by kind: a digest is enough, or more than that is not for everybody.
_CODE, _SECRET = "binaryData", "Secret"


@dataclass(frozen=True)
class Live:
    """What there is of a program. `objects` has all that may be its own, by key; `namespaces` those that were looked for, None for absent ones."""

    name: str
    namespace: str
    objects: Mapping[Key, Object] = field(default_factory=dict)
    namespaces: Mapping[str, Object | None] = field(default_factory=dict)

    @property
    def ledger(self) -> Object | None:
        """The ConfigMap, if it is the program's."""
        found = self.objects.get(("ConfigMap", self.namespace, self.name))
        return found if found and self.owns(found) else None

    def owns(self, obj: Mapping[str, Any]) -> bool:
        """True for an object of this program."""
        return programs.belongs(obj, self.name, self.namespace)

    def own(self, key: Key) -> Object | None:
        """One of its objects, if it is there to stay."""
        found = self.staying().get(key)
        return found if found and self.owns(found) else None

    def going(self) -> dict[Key, str]:
        """Its objects that were deleted and are still there, with their uids."""
        leaving = ((key, found["metadata"]) for key, found in self.objects.items() if self.owns(found))
        return {key: metadata["uid"] for key, metadata in leaving if metadata.get("deletionTimestamp")}

    def staying(self) -> dict[Key, Object]:
        """What there is but for that."""
        going = self.going()
        return {key: found for key, found in self.objects.items() if key not in going}


def plan_present(live: Live, program: Program, *, create_namespace: bool) -> Plan:
    """Plan to have the program as it is wanted. Raises Refused when it would take what is somebody else's, or a namespace is not there."""
    missing = _missing_namespace(live, program, create_namespace=create_namespace)
    wanted = {key_of(obj): obj for obj in programs.objects(program)}
    _refuse_foreign(live, wanted)
    there = live.staying()
    old, new = programs.remembered(live.ledger), program.namespaces
    ledger = programs.config_map(program, {*old, *new}, programs.remembered_objects(live.ledger))
    wanted[key_of(ledger)] = ledger
    anew = tuple(_delete(there[key], "it is made anew") for key in wanted if _is_outdated(wanted[key], there.get(key)))
    gone = {(write.kind, write.namespace or "", write.name) for write in anew}
    writes = [write for key, obj in wanted.items() if (write := _write(obj, None if key in gone else there.get(key)))]
    surplus = [_delete(there[key], "it is no longer wanted") for key in _possible(live, new) if _is_surplus(live, key, wanted, there)]
    registering = tuple(write for write in writes if write.kind == _API and write.verb == "create")
    steps = (
        Step("create the namespace", (plan.create(missing, "the namespace is missing"),) if missing else ()),
        Step("take the API away", tuple(write for write in surplus if write.kind == _API)),
        Step("store code and settings", tuple(write for write in writes if write.kind == _FIRST)),
        Step("make room", anew),
        Step("trust the certificate", tuple(write for write in writes if write.kind == _API and write not in registering)),
        Step("prepare", tuple(write for write in writes if write.kind not in (_FIRST, _LAST, _API, *_BINDINGS))),
        Step("give rights", tuple(write for write in writes if write.kind in _BINDINGS)),
        Step("start pods", tuple(write for write in writes if write.kind == _LAST), until=AVAILABLE if registering else ""),
        Step("offer the API", registering),
        *_taking_away([write for write in surplus if write.kind != _API]),
        Step("forget namespaces", () if set(old) <= set(new) else (_forget(live, {*old, *new}, new),)),
    )
    return Plan(VERB, live.namespace, tuple(step for step in steps if step.writes or step.until), settles=True)


def plan_absent(live: Live, namespaces: tuple[str, ...] = (), more: tuple[str, ...] = ()) -> Plan:
    """Plan to have nothing of the program: its API first, then pods, so that nobody makes its Lease again, the ConfigMap last.

    `namespaces` are further ones in which it may have rights, `more` what else it may have.
    """
    there = live.staying()
    mine = [there[key] for key in _possible(live, namespaces, more) if key in there and live.owns(there[key])]
    lease = there.get(("Lease", live.namespace, live.name))
    if lease and (mine or live.going()):  # the name is the program's as long as anything of it is there
        mine.append(lease)
    why = "the program is removed"
    pods = tuple(_delete(obj, why, "Foreground") for obj in mine if obj["kind"] == _LAST)
    offered = tuple(_delete(obj, why) for obj in mine if obj["kind"] == _API)
    rest = [_delete(obj, why) for obj in mine if obj["kind"] not in (_FIRST, _LAST, _API)]
    ledger = tuple(_delete(obj, why) for obj in mine if obj["kind"] == _FIRST)
    steps = (
        Step("take the API away", offered),
        Step("stop pods", pods, until=ABSENT, always=True),
        *_taking_away(rest),
        Step("remove code and settings", ledger),
    )
    return Plan(VERB, live.namespace, tuple(step for step in steps if step.writes), removes=True, settles=False)


def changes(live: Live, found: Plan) -> dict[str, dict[str, Any]]:
    """What a plan changes, for a diff: objects before and after, without what the server adds. Code is shown as its digest."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for step in found.steps:
        for write in step.writes:
            place = f"{write.kind} {write.namespace}/{write.name}" if write.namespace else f"{write.kind} {write.name}"
            old = live.staying().get((write.kind, write.namespace or "", write.name))
            if old:
                before.setdefault(place, _shown(old))
            if write.verb == "delete":
                after.pop(place, None)
            elif write.patch:
                after[place] = _patched(after.get(place) or before[place], write)
            else:
                after[place] = _shown(write.body)
    return {"before": before, "after": after}


def _missing_namespace(live: Live, program: Program, *, create_namespace: bool) -> Object | None:
    """The Namespace to create, if it is the program's own and may be created."""
    for name, found in sorted(live.namespaces.items()):
        if found is not None and found["metadata"].get("deletionTimestamp"):
            raise Refused(f"Namespace {name} is being deleted. Wait until it is gone, then create it again.", reason="NamespaceTerminating")
        if found is None and name != program.namespace:
            wrong = f"Namespace {name}, in which the program is to have rights, does not exist. Create it, or leave it out."
            raise Refused(wrong, reason="NamespaceMissing", paths=(name,))
    if live.namespaces.get(program.namespace, {}) is not None:
        return None
    if not create_namespace:
        wrong = f"Namespace {program.namespace} does not exist. Create it, or set create_namespace: true."
        raise Refused(wrong, reason="NamespaceMissing", paths=(program.namespace,))
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": program.namespace}}


def _refuse_foreign(live: Live, wanted: Mapping[Key, Object]) -> None:
    foreign = [key for key in wanted if key in live.objects and not live.owns(live.objects[key])]
    if foreign:
        names = tuple(f"{kind} {place}/{name}" if place else f"{kind} {name}" for kind, place, name in foreign)
        wrong = f"Cannot install the program {live.namespace}/{live.name}: {', '.join(names)} exists and is not one of its objects"
        todo = "Give the program another name, or remove what is in its way."
        if any(kind == _API for kind, dummy, other in foreign):
            todo = f"{_who_serves(live, foreign)} serves this API: go on with that one (mindie_adaptor: existing), or remove it first."
        raise Refused(f"{wrong} (by its labels). {todo}", reason="NotOurs", paths=names)


def _who_serves(live: Live, foreign: Iterable[Key]) -> str:
    """Whom the API server passes requests for an API on to, which is not this program."""
    found = next(live.objects[key] for key in foreign if key[0] == _API)
    service = (found.get("spec") or {}).get("service") or {}
    return f"Service {service.get('namespace')}/{service['name']}" if service.get("name") else "Another program"


def _is_outdated(wanted: Object, live: Object | None) -> bool:
    """True when what cannot be changed would have to be."""
    fixed = _FIXED.get(wanted["kind"])
    return bool(live and fixed and any(path.startswith(fixed) for path in differences(wanted, live)))


def _write(wanted: Object, live: Object | None) -> Write | None:
    """The write that makes the live object what is wanted; None when it is that already."""
    if live is None:
        return plan.create(wanted, "it is missing")
    paths = differences(wanted, live)
    return plan.update(merged(wanted, live), f"other values: {', '.join(paths)}") if paths else None


def _possible(live: Live, namespaces: tuple[str, ...], more: tuple[str, ...] = ()) -> tuple[Key, ...]:
    places = {*programs.remembered(live.ledger), *namespaces}
    others = (*programs.remembered_objects(live.ledger), *more)
    return tuple(key for key in programs.possible(live.name, live.namespace, places, others) if key[0] != "Lease")


def _is_surplus(live: Live, key: Key, wanted: Mapping[Key, Object], there: Mapping[Key, Object]) -> bool:
    return key in there and key not in wanted and live.owns(there[key])


def _taking_away(writes: list[Write]) -> tuple[Step, ...]:
    """Bindings go before roles, as they refer to them."""
    bindings = tuple(write for write in writes if write.kind in _BINDINGS)
    return Step("take rights", bindings), Step("remove what is left", tuple(write for write in writes if write not in bindings))


def _forget(live: Live, old: set[str], new: tuple[str, ...]) -> Write:
    """Stop remembering namespaces, provided that nobody else remembers others by now."""
    path = f"/metadata/annotations/{NAMESPACES.replace('/', '~1')}"
    body = [{"op": "test", "path": path, "value": programs.told(old)}, {"op": "replace", "path": path, "value": programs.told(new)}]
    return Write("update", "ConfigMap", live.namespace, live.name, "there are no rights in other namespaces any more", body, patch=True)


def _delete(obj: Object, why: str, propagation: str = "Background") -> Write:
    """Delete exactly what was seen. A Deployment changes its status all the time, so that it goes by its uid."""
    return plan.delete(obj["kind"], obj, why, propagation)


def _shown(obj: Mapping[str, Any]) -> Object:
    kept = {key: value for key, value in obj.items() if key not in ("status", "apiVersion", "kind", "binaryData")}
    kept["metadata"] = {key: value for key, value in obj["metadata"].items() if key in ("labels", "annotations")}
    if _CODE in obj:
        kept[_CODE] = {key: f"sha256:{programs.digest(value)}" for key, value in obj[_CODE].items()}
    if obj["kind"] == _SECRET:
        kept["data"] = {key: HIDDEN if key == PRIVATE_KEY else mark(value) for key, value in (obj.get("data") or {}).items()}
    if obj["kind"] == _API:
        kept["spec"] = {**obj["spec"], "caBundle": mark(obj["spec"].get("caBundle", ""))}
    return kept


def _patched(shown: Object, write: Write) -> Object:
    """The shown object with an annotation replaced."""
    annotations = {**shown["metadata"]["annotations"], NAMESPACES: write.body[-1]["value"]}
    return {**shown, "metadata": {**shown["metadata"], "annotations": annotations}}
