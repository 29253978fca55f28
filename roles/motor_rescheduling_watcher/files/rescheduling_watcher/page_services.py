# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the script of the status page that judges services and shows them: what is wrong, tiers as steps, instances, findings."""

from __future__ import annotations

SERVICES = r"""
// ---- how a service is; what is told `below` anyway, at the instance or the rule, is not told again when a service is opened ----
const STATES = ["running", "starting", "pending", "held", "terminating", "failed", "missing", "surplus", "foreign"];
const STATE_LEVEL = { starting: "busy", pending: "warn", held: "warn", terminating: "busy", failed: "bad", missing: "bad", surplus: "warn", foreign: "warn" };
const ROLES = ["prefill", "decode", "union", "encode"];
const stateOf = (instance) => (STATES.includes(instance.state) ? instance.state : "foreign");
const running = (instances) => instances.filter((one) => one.state === "running").length;

function judge(service) {
  const problems = [...service.tasks.flatMap(taskProblems), ...instanceProblems(service), ...controlProblems(service), ...changeProblems(service)];
  problems.sort((one, other) => LEVELS.indexOf(one.level) - LEVELS.indexOf(other.level));
  return { service, problems, level: worst(problems) };
}

function told(problems) {
  return names(problems.map((one) => one.text), 2, "semicolon");
}

function byLevel(one, other) {
  return LEVELS.indexOf(one.level) - LEVELS.indexOf(other.level) || (one.service.namespace < other.service.namespace ? -1 : 1);
}

function taskProblems(task) {
  const found = [], facts = { rule: task.rule, tier: task.tier_now };
  if (task.crashes) found.push({ level: "bad", text: say("p_crash", facts) });
  if (!task.readable) found.push({ level: "bad", text: say("p_unreadable", facts) });
  else if (task.tiers.length && task.tier_now === null) found.push({ level: "bad", text: say("p_below", facts) });
  else if (task.tier_now > 0) found.push({ level: "warn", text: say("p_tier", facts) });
  const of = (severity) => (task.findings || []).filter((finding) => finding.severity === severity).length;
  if (of("error") && !found.some((one) => one.level === "bad")) found.push({ level: "bad", text: count("p_errors", of("error")), below: true });
  if (of("warning")) found.push({ level: "warn", text: count("p_warnings", of("warning")), below: true });
  return found;
}

function instanceProblems(service) {
  const found = [];
  for (const [state, level] of Object.entries(STATE_LEVEL)) {
    const all = service.instances.filter((one) => stateOf(one) === state);
    if (all.length) {
      const text = count("p_state", all.length, { name: all[0].name, names: names(all.map((one) => one.name)), is: say(`is_${state}`) });
      found.push({ level, text: all.length === 1 && all[0].reason ? `${text}: ${all[0].reason}` : text, below: true });
    }
  }
  const altered = service.instances.filter((one) => one.altered);
  if (altered.length) found.push({ level: "warn", text: say("p_altered", { names: names(altered.map((one) => one.name)) }), below: true });
  return found;
}

function controlProblems(service) {
  const down = service.control.filter((one) => !one.pods_ready);
  return down.map((one) => ({ level: "bad", text: say("p_control", { name: say(one.name), reason: one.reason || say("p_control_none") }), below: true }));
}

function changeProblems(service) {
  if (service.lock && service.lock.holder) return [{ level: "busy", text: say("p_going_on", { verb: service.lock.verb }) }];
  if (service.unfinished) return [{ level: "warn", text: say("p_unfinished", { verb: service.unfinished }) }];
  if (service.standing === "unfinished") return [{ level: "warn", text: say("standing_unfinished") }];
  if (service.standing === "absent") return [{ level: "warn", text: say("p_absent") }];
  return [];
}

// ---- one service: a line, and more when it is opened ----
const chosen = new Map();
const MOST_OPEN = 4;

function services(judged) {
  const troubled = judged.filter((one) => one.level === "bad" || one.level === "warn");
  const few = judged.length <= MOST_OPEN;
  const open = new Set((few ? judged : troubled.slice(0, MOST_OPEN)).map((one) => one.service.namespace));
  const items = judged.map((one) => ({ ...one, open: open.has(one.service.namespace) }));
  sync(byId("service-list"), items, (item) => item.service.namespace, serviceNode);
  const counts = { all: judged.length, troubled: troubled.length, fine: judged.length - troubled.length };
  for (const button of byId("filters").children) setText(button.lastElementChild, number(counts[button.dataset.filter]));
  choose();
}

function serviceNode(item, old) {
  const node = old || newService(item.service.namespace);
  const open = chosen.get(item.service.namespace) ?? item.open;
  node.item = item;
  node.words = [item.service.namespace, ...item.service.instances.flatMap((one) => [one.name, say(`is_${stateOf(one)}`), ...one.nodes]),
    ...item.service.tasks.map((task) => task.rule)].join("\n").toLowerCase();
  node.className = `service ${item.level}`;
  node.dataset.namespace = item.service.namespace;
  node.firstElementChild.replaceChildren(...summary(item));
  node.open = open;
  if (open) fill(node);
  return node;
}

function newService(namespace) {
  const node = el("details", {}, el("summary"), el("div", { class: "body" }, el("div"), el("div")));
  node.firstElementChild.addEventListener("click", () => chosen.set(namespace, !node.open));
  node.addEventListener("toggle", () => node.open && fill(node));
  return node;
}

function showService(namespace) {
  filter = "all";
  byId("search").value = "";
  choose();
  const node = [...byId("service-list").children].find((one) => one.dataset.namespace === namespace);
  if (!node) return;
  chosen.set(namespace, true);
  node.open = true;
  fill(node);
  node.scrollIntoView({ block: "start" });
  node.firstElementChild.focus({ preventScroll: true });
}

function summary({ service, problems, level }) {
  const badges = service.tasks.filter((task) => task.readable && task.tiers.length && task.tier_now !== 0).slice(0, 1).map(tierBadge);
  if (service.hold) badges.push(el("span", { class: "badge warn", title: say("hold_hint") }, say("hold")));
  if (service.lock && service.lock.holder) badges.push(el("span", { class: "badge busy" }, say("locked", { verb: service.lock.verb })));
  return [
    icon(level), el("strong", {}, service.namespace), el("span", { class: "visually-hidden" }, say(level)),
    el("span", { class: "count" }, say("count", { ready: running(service.instances), n: service.instances.length })),
    ...badges, problems.length ? el("span", { class: "wrong" }, told(problems)) : null,
  ].filter(Boolean);
}

function tierBadge(task) {
  const [level, text] = task.tier_now === null ? ["bad", "tier_none_short"] : ["warn", "tier_short"];
  return el("span", { class: `badge ${level}`, title: tierWords(task) }, say(text, { tier: task.tier_now }));
}

function fill(node) {
  const { service, problems } = node.item;
  const roles = [...new Set(service.instances.map((one) => one.engine_role))];
  const left = [
    { key: "problems", make: problemList, data: problems.filter((one) => !one.below) },
    ...service.tasks.map((task) => ({ key: `task ${task.rule} ${task.task}`, make: taskPart, data: task })),
    { key: "about", make: aboutPart, data: { ...service, instances: null, tasks: null, control: null } },
  ];
  const right = [
    ...roles.map((role) => ({ key: `role ${role}`, make: rolePart, data: { role, instances: service.instances.filter((one) => one.engine_role === role) } })),
    { key: "control", make: controlPart, data: service.control },
  ];
  const make = (part, old) => part.make(part.data, old);
  sync(node.lastElementChild.firstElementChild, left, (part) => part.key, make);
  sync(node.lastElementChild.lastElementChild, right, (part) => part.key, make);
}

function problemList(problems) {
  return el("ul", { class: "problems" }, problems.map((one) => el("li", { class: one.level }, icon(one.level), el("span", {}, one.text))));
}

// ---- instances ----
function rolePart({ role, instances }, old) {
  const node = old || el("section", { class: "role" }, el("h4"), el("ul", { class: "tiles" }), el("ul", { class: "chips" }));
  const [head, tiles, chips] = node.children;
  head.replaceChildren(say(role), " ", el("span", { class: "dim" }, say("count", { ready: running(instances), n: instances.length })));
  const quiet = (one) => one.state === "running" && !one.altered && !one.reason;
  sync(tiles, instances.filter((one) => !quiet(one)), (one) => one.name, tile);
  sync(chips, instances.filter(quiet), (one) => one.name, chip);
  return node;
}

function tile(instance) {
  const state = stateOf(instance);
  const facts = state === "missing" ? [] : [say("pods_ready", { ready: instance.pods_ready, n: instance.pods })];
  if (instance.nodes.length) facts.push(say("on", { nodes: names(instance.nodes, 2) }));
  return el("li", { class: `tile ${state}`, "data-name": instance.name },
    el("p", { class: "what" }, icon(state), el("strong", {}, instance.name), el("span", { class: "is" }, say(`is_${state}`)),
      instance.altered ? el("span", { class: "badge warn" }, say("altered")) : null),
    instance.reason ? el("p", { class: "why" }, instance.reason) : null,
    el("p", { class: "dim" }, time(instance.since, "since"), instance.since && facts.length ? " \u00b7 " : null, facts.join(" \u00b7 ")));
}

function chip(instance) {
  const where = instance.nodes.length ? names(instance.nodes, 1) : "";
  return el("li", { class: "chip running", "data-name": instance.name, title: say("on", { nodes: instance.nodes.join(say("list")) }) },
    icon("running"), el("strong", {}, instance.name), el("span", { class: "visually-hidden" }, say("is_running")), el("span", { class: "dim" }, where));
}

function controlPart(control) {
  const chips = control.map((one) => {
    const good = one.pods_ready > 0;
    return el("li", { class: `chip ${good ? "running" : "failed"}` }, icon(good ? "running" : "failed"), el("strong", {}, say(one.name)),
      el("span", { class: "dim" }, [say("pods_ready", { ready: one.pods_ready, n: one.pods }), one.reason].filter(Boolean).join(say("semicolon"))));
  });
  return el("section", { class: "role" }, el("h4", {}, say("control")), el("ul", { class: "chips" }, chips));
}

// ---- tiers as steps ----
const MOST_STEPS = 12;
const sizes = (tier) => Object.entries(tier).map(([group, n]) => `${n} ${group}`).join(say("and"));

const groupName = (group, groups) => (groups[group] ? `${say(groups[group])} (${group})` : group);
const only = (group, groups) => Object.values(groups).filter((role) => role === groups[group]).length === 1;
const shortName = (group, groups) => (only(group, groups) ? say(groups[group]) : groupName(group, groups));
const named = (tier, groups) => Object.fromEntries(Object.entries(tier).map(([group, n]) => [shortName(group, groups), n]));

function taskPart(task) {
  const head = el("h4", {}, say("tiers", { rule: task.rule }), " ", el("span", { class: "dim" }, say("of_task", { task: task.task })));
  const body = !task.readable ? [el("p", {}, say("unreadable"))] : task.tiers.length ? [stairs(task), el("p", {}, tierWords(task)), groupLegend(task)] : [];
  return el("section", { class: "task" }, head, ...body, findingList(task.findings || []));
}

// The best tier that there is room for; null: for none, undefined: that is not known.
const possible = (task) => (task.tier_possible ?? (task.tier_possible === null && task.tier_now === null && shown.servers.length ? null : undefined));

function tierWords(task) {
  const last = task.tiers.length - 1, text = (index) => sizes(named(task.tiers[index], task.groups));
  const here = task.tier_now === null ? say("now_none", { sizes: text(last) })
    : say(task.tier_now ? "now_tier" : "now_full", { tier: task.tier_now, last, sizes: text(task.tier_now) });
  const most = possible(task);
  const room = most === undefined ? "" : most === null ? say("room_none") : say("room_tier", { tier: most, sizes: text(most) });
  const runs = task.tier_now === 0 ? "" : say("running_now", { sizes: sizes(named(task.running, task.groups)) });
  return [here, runs, task.tier_now === 0 && most === 0 ? "" : room].filter(Boolean).join(words.lang === "en" ? " " : "");
}

function groupLegend(task) {
  const all = Object.keys(task.tiers[0]);
  const steps = ["runs", "room", "none"].map((kind) => el("li", {}, el("span", { class: `swatch sample ${kind}` }), say(`step_${kind}`)));
  const groups = all.map((group, index) => el("li", {}, el("span", { class: `swatch g${index % 4}` }), groupName(group, task.groups)));
  return el("ul", { class: "legend" }, groups, steps);
}

function chosenSteps(task) {
  const last = task.tiers.length - 1;
  if (last < MOST_STEPS) return task.tiers.map((tier, index) => ({ first: index, last: index }));
  const marks = [0, last, task.tier_now, possible(task)].filter((mark) => mark !== null && mark !== undefined);
  const shownSteps = [...new Set(marks.flatMap((mark) => [mark - 1, mark, mark + 1]))].filter((index) => index >= 0 && index <= last).sort((a, b) => a - b);
  const found = [];
  let next = 0;
  for (const index of shownSteps) {
    if (index > next) found.push({ first: next, last: index - 1, left_out: index - 1 > next || null });
    found.push({ first: index, last: index });
    next = index + 1;
  }
  return found;
}

function stairs(task) {
  const total = (tier) => Object.values(tier).reduce((sum, n) => sum + Math.max(0, n), 0);
  const whole = total(task.tiers[0]) || 1;
  const groups = Object.keys(task.tiers[0]), most = possible(task) ?? Infinity;
  const columns = chosenSteps(task).map(({ first, last, left_out }) => {
    if (left_out) return el("li", { class: "step gap", title: say("tiers_between", { first, last }) }, "\u22ef");
    const tier = task.tiers[first];
    const kind = task.tier_now !== null && first >= task.tier_now ? "runs" : first >= most ? "room" : "none";
    const segments = groups.filter((group) => tier[group] > 0).map((group) =>
      grown(el("span", { class: `seg g${groups.indexOf(group) % 4}` }, number(tier[group])), tier[group]));
    const block = el("div", { class: "block" }, segments);
    block.style.setProperty("--part", total(tier) / whole);
    const mark = first === task.tier_now ? "now" : first === most ? "room" : "";
    return el("li", { class: `step ${kind} ${mark ? `is-${mark}` : ""}`, title: say("tier", { tier: first, sizes: sizes(named(tier, task.groups)) }) },
      el("span", { class: "mark" }, mark ? say(mark) : ""), block, el("span", { class: "tier" }, String(first)));
  });
  return el("ol", { class: "stairs", role: "img", "aria-label": tierWords(task) }, columns);
}

// ---- findings and facts ----
const SEVERITIES = ["error", "warning", "note"];

function findingList(findings) {
  if (!findings.length) return null;
  const lines = findings.map((finding) => {
    const severity = SEVERITIES.includes(finding.severity) ? finding.severity : "note";
    const at = finding.line ? say("place", { line: finding.line, column: finding.column }) : "";
    const place = [at, finding.path, finding.name].filter((part) => part && !finding.message.includes(part)).join(" \u00b7 ");
    return el("li", { class: severity },
      el("p", {}, icon(severity), el("b", {}, `${say(severity)} ${finding.code}`), " ", el("span", {}, finding.message),
        place ? el("span", { class: "place" }, place) : null),
      el("p", { class: "dim" }, finding.effect), el("p", {}, el("b", {}, say("remedy")), " ", finding.remedy));
  });
  return el("div", { class: "findings" }, el("h4", {}, say("findings")), el("ul", {}, lines));
}

function aboutPart(service) {
  const drift = ["missing", "surplus", "altered", "foreign"].filter((kind) => (service.drift?.[kind] || []).length)
    .map((kind) => say(`${kind}_names`, { names: names(service.drift[kind].map((one) => one.name || String(one)), 8) }));
  const held = service.lock && service.lock.holder ? service.lock : null;
  const lock = held ? say("locked_by", { verb: held.verb, holder: held.holder, time: held.since ? moment(held.since) : "?" }) : "";
  const order = ([one], [other]) => ROLES.indexOf(one) - ROLES.indexOf(other);
  const roleSizes = (counts) => sizes(Object.fromEntries(Object.entries(counts).sort(order).map(([role, n]) => [say(role), n])));
  const facts = [
    [say("backend"), service.backend],
    [say("standing"), say(`standing_${service.standing}`)],
    [say("baseline"), service.baseline ? roleSizes(service.baseline) : say("no_baseline")],
    ...Object.entries(service.owners || {}).map(([role, owner]) => [say("owner", { role: say(role) }), owner]),
    ...(drift.length ? [[say("drift"), drift.join(say("semicolon"))]] : []),
    ...(held ? [[say("lock"), lock]] : []),
    ...(service.hold ? [[say("hold"), service.hold_text ? `${service.hold_text} \u2014 ${say("hold_hint")}` : say("hold_hint")]] : []),
  ];
  return el("section", { class: "about" }, el("h4", {}, say("about")), el("dl", {}, facts.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])));
}

// ---- search and filter; where services are many and nothing is chosen, those that are well are only shown when something is searched ----
let filter = "", typing = 0;
const MANY = 24;

function startServices() {
  const box = byId("filters");
  box.setAttribute("aria-label", say("filter"));
  for (const name of ["all", "troubled", "fine"]) {
    const button = el("button", { type: "button", "data-filter": name }, say(name), " ", el("span", { class: "dim" }));
    button.addEventListener("click", () => {
      filter = name;
      choose();
    });
    box.append(button);
  }
  const search = byId("search");
  search.setAttribute("aria-label", say("search"));
  search.placeholder = say("search");
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(choose, 120);
  });
}

function choose() {
  const text = byId("search").value.trim().toLowerCase();
  const all = [...byId("service-list").children];
  const troubled = (node) => node.item.level === "bad" || node.item.level === "warn";
  const which = filter || (all.length > MANY && !text && all.some(troubled) ? "troubled" : "all");
  for (const button of byId("filters").children) {
    const pressed = String(button.dataset.filter === which);
    if (button.getAttribute("aria-pressed") !== pressed) button.setAttribute("aria-pressed", pressed);
  }
  let found = 0;
  for (const node of all) {
    const show = (which === "all" || troubled(node) === (which === "troubled")) && node.words.includes(text);
    setHidden(node, !show);
    found += show;
  }
  setHidden(byId("nothing"), found > 0 || !all.length);
  chooseServers(text);
}
"""
