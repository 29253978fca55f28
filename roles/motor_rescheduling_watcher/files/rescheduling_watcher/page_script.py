# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script of the status page: reads the report, renders what has changed, and says when the watcher no longer answers."""

from __future__ import annotations

from .page_servers import SERVERS
from .page_services import SERVICES
from .page_tools import TOOLS

_FRAME = r"""
// ---- the head of the page ----
const LEVELS = ["bad", "warn", "busy", "ok"];
const worst = (found) => LEVELS.find((level) => found.some((one) => one.level === level)) || "ok";

function header(report, judged) {
  const program = report.program;
  setText(byId("program"), say("program", { name: program.name, namespace: program.namespace, version: program.version }));
  const beside = clusterProblems(report);
  const level = worst([...judged, ...beside]);
  const sentence = verdict(judged);
  const box = byId("verdict");
  if (box.dataset.told !== level + sentence) {
    box.dataset.told = level + sentence;
    box.className = level;
    box.firstElementChild.replaceChildren(icon(level));
    setText(box.lastElementChild, sentence);
  }
  const troubled = judged.filter((one) => one.level === "bad" || one.level === "warn");
  const lines = [
    ...beside,
    ...troubled.slice(0, 3).map((one) => ({ level: one.level, text: told(one.problems), service: one.service.namespace })),
  ];
  if (troubled.length > 3) lines.push({ level: "more", text: say("more", { n: troubled.length - 3 }) });
  sync(byId("troubles"), troubled.length || beside.length ? lines : [], (line) => line.text + line.service, troubleLine);
  sync(byId("facts"), programFacts(program), (fact) => fact.name, (fact) => el("li", {}, el("b", {}, say(fact.name)), " ", el("span", {}, fact.text)));
  document.title = (troubled.length ? `(${troubled.length}) ` : "") + words.title;
}

function verdict(judged) {
  const of = judged.length;
  const troubled = judged.filter((one) => one.level === "bad" || one.level === "warn");
  const moving = judged.filter((one) => one.level === "busy");
  if (!of) return say("no_services");
  if (of === 1 && troubled.length) return say("not_well_only", { name: judged[0].service.namespace });
  if (troubled.length) return count("not_well", troubled.length, { of: number(of), names: names(troubled.map((one) => one.service.namespace)) });
  if (moving.length) return count("moving", moving.length, { of: number(of) });
  return count("all_well", of);
}

function clusterProblems(report) {
  const found = [];
  if (!report.program.synced) found.push({ level: "warn", text: say("not_synced") });
  for (const watch of report.watches.filter((one) => one.error).slice(0, 3)) {
    found.push({ level: "warn", text: say("watch_error", { kind: watch.kind, namespace: watch.namespace || say("whole_cluster"), error: watch.error }) });
  }
  const down = report.servers.filter((server) => !server.ready);
  if (down.length) found.push({ level: "warn", text: count("servers_down", down.length, { names: names(down.map((one) => one.name)) }) });
  const sick = report.servers.filter((server) => server.ready && server.healthy < server.npus);
  const npus = sick.reduce((sum, server) => sum + server.npus - server.healthy, 0);
  if (npus) found.push({ level: "warn", text: count("npus_bad", npus, { names: names(sick.map((one) => one.name)) }) });
  return found;
}

function troubleLine(line) {
  const text = line.service ? `${line.service}: ${line.text}` : line.text;
  if (!line.service) return el("li", { class: line.level }, line.level === "more" ? null : icon(line.level), el("span", {}, text));
  const button = el("button", { type: "button" }, text);
  button.addEventListener("click", () => showService(line.service));
  return el("li", { class: line.level }, icon(line.level), button);
}

function programFacts(program) {
  const on = Object.keys(program.acts).filter((act) => program.acts[act]);
  const where = program.namespaces.includes("*") || !program.namespaces.length ? say("all_namespaces") : names(program.namespaces, 6);
  return [
    { name: "leader", text: program.leader || say("nobody") },
    { name: "acts", text: on.map((act) => say(`act_${act}`)).join(say("list")) || say("no_acts") },
    { name: "namespaces", text: where },
  ];
}

function overview(report) {
  const states = {};
  for (const service of report.services) {
    for (const instance of service.instances) states[stateOf(instance)] = (states[stateOf(instance)] || 0) + 1;
  }
  const sum = (read) => report.servers.reduce((total, server) => total + read(server), 0);
  const npus = {
    used: sum((server) => server.used),
    reserved: sum((server) => server.reserved),
    free: sum((server) => server.free),
    unhealthy: sum((server) => idle(server).unhealthy),
    closed: sum((server) => idle(server).closed),
  };
  const cards = [
    { name: "instances", parts: STATES.map((state) => ({ style: state, icon: state, text: say(`is_${state}`), n: states[state] || 0 })) },
    { name: "npus", parts: Object.keys(npus).map((kind) => ({ style: kind, text: say(kind), n: npus[kind] })) },
  ];
  sync(byId("overview"), cards, (card) => card.name, overviewCard);
}

function overviewCard(card) {
  const parts = card.parts.filter((part) => part.n > 0), total = parts.reduce((sum, part) => sum + part.n, 0);
  const bar = el("div", { class: "stack", "aria-hidden": "true" }, parts.map((part) => grown(el("span", { class: `part ${part.style}` }), part.n)));
  const keys = parts.map((part) =>
    el("li", {}, part.icon ? icon(part.icon) : el("span", { class: `swatch part ${part.style}` }), el("b", {}, number(part.n)), el("span", {}, part.text)));
  return el("div", { class: "card" }, el("h3", {}, say(card.name), el("span", { class: "dim" }, number(total))), bar, el("ul", { class: "keys" }, keys));
}

// ---- repairs and watches ----
const OUTCOMES = { done: "ok", failed: "bad", given_up: "bad" };

function repairLine(repair) {
  const outcome = ["done", "given up", "failed"].find((word) => repair.outcome.startsWith(word)) || "failed";
  const kind = outcome.replace(" ", "_");
  const rest = repair.outcome.slice(outcome.length).replace(/^[:\s]+/, "");
  return el("li", { class: OUTCOMES[kind] }, icon(OUTCOMES[kind]),
    el("div", {},
      el("p", {}, el("strong", {}, say(`act_${repair.act}`)), " ", el("span", {}, `${repair.kind} ${repair.namespace}/${repair.name}`), " ",
        el("span", { class: "outcome" }, say(`outcome_${kind}`) + (rest ? `: ${rest}` : ""))),
      el("p", { class: "dim" }, time(repair.at, "ago"), repair.why ? ` \u2013 ${repair.why}` : "")));
}

// Behind a Service now this, now that replica answers. Only the one that leads knows of repairs.
let told_by = "", told_last = [];

function repairs(report) {
  const program = report.program;
  if (program.leading || program.leader !== told_by) [told_by, told_last] = [program.pod, report.repairs];
  const all = told_last;
  sync(byId("repair-list"), all, (one) => `${one.at} ${one.act} ${one.namespace}/${one.name}`, repairLine);
  setHidden(byId("no-repairs"), all.length > 0);
}

const WATCH_COLUMNS = ["kind", "namespace", "state", "objects", "heard", "restarts", "relists", "listed"];

function watchRow(watch) {
  const state = watch.error || say(watch.synced ? "watch_ok" : "watch_filling");
  const seconds = (value) => (value === null || value === undefined ? "\u2013" : say("seconds", { n: Number(value).toFixed(1) }));
  const cells = [watch.kind, watch.namespace || say("whole_cluster"), state, number(watch.objects),
    seconds(watch.silent_seconds), number(watch.restarts), number(watch.relists), seconds(watch.relist_seconds)];
  return el("tr", { class: watch.error ? "bad" : "" }, cells.map((cell, index) => el("td", { "data-label": say(WATCH_COLUMNS[index]) }, cell)));
}

function watches(report) {
  const bad = report.watches.filter((watch) => watch.error || !watch.synced).length;
  setText(byId("watches").firstElementChild, count(bad ? "watches_bad" : "watches_well", report.watches.length, { bad: number(bad) }));
  const list = byId("watch-list");
  if (!list.firstElementChild) {
    const heads = WATCH_COLUMNS.map((name) => el("th", { scope: "col" }, say(name)));
    list.append(el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody")));
  }
  sync(list.querySelector("tbody"), report.watches, (watch) => `${watch.kind} ${watch.namespace}`, watchRow);
}

// ---- the state, and how it is kept up to date ----
const PERIOD = 2000, PATIENCE = 10000;
let tags = [], timer = 0, asking = false, heard = null;

function render(report) {
  shown = report;
  const judged = report.services.map(judge).sort(byLevel);
  header(report, judged);
  overview(report);
  services(judged);
  servers(report);
  repairs(report);
  watches(report);
  root.dataset.revision = report.program.revision;
  tick();
}

async function ask() {
  const stop = new AbortController();
  const limit = setTimeout(() => stop.abort(), PATIENCE);
  try {
    const answer = await fetch("state.json", { headers: tags.length ? { "If-None-Match": tags.join(", ") } : {}, cache: "no-store", signal: stop.signal });
    if (!answer.ok && answer.status !== 304) throw new Error(`state.json: ${answer.status}`);
    const date = Date.parse(answer.headers.get("Date"));
    if (date) behind = date - Date.now();
    if (answer.status === 200) {
      const report = await answer.json();
      render(report);
      remember(answer.headers.get("ETag"));
    }
  } finally {
    clearTimeout(limit);
  }
}

// The last tag of each replica: what comes before its first hyphen is the replica's own.
function remember(tag) {
  const replica = (text) => text.split("-")[0];
  if (tag) tags = [tag, ...tags.filter((other) => replica(other) !== replica(tag))].slice(0, 5);
}

async function poll() {
  clearTimeout(timer);
  if (document.hidden || asking) return;
  asking = true;
  try {
    await ask();
    heard = new Date();
    fresh();
  } catch (error) {
    console.warn(error);
    stale();
  }
  asking = false;
  timer = setTimeout(poll, PERIOD);
}

function fresh() {
  root.classList.remove("is-stale");
  byId("stale").hidden = true;
  setText(byId("footer"), `${say("updated", { time: clock(heard), pod: shown.program.pod })} \u00b7 ${say("footer")}`);
  tick();
}

function stale() {
  root.classList.add("is-stale");
  const banner = byId("stale");
  setText(banner, heard ? say("stale", { time: clock(heard) }) : say("never"));
  banner.hidden = false;
}

function start() {
  root.lang = words.lang;
  for (const node of document.querySelectorAll("[data-say]")) setText(node, say(node.dataset.say));
  for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", say(node.dataset.label));
  byId("language").href = `?lang=${words.other}`;
  byId("language").lang = allWords[words.other].lang;
  setText(byId("no-repairs"), say("no_repairs"));
  startServices();
  startServers();
  const given = byId("state");
  if (given) {
    const report = JSON.parse(given.textContent);
    fixed = Date.parse(report.program.at);
    render(report);
    setText(byId("footer"), say("fixed", { time: moment(report.program.at) }));
    return;
  }
  setText(byId("verdict").lastElementChild, say("loading"));
  document.addEventListener("visibilitychange", poll);
  poll();
}

start();
"""

SCRIPT = "\n" + '"use strict";\n' + TOOLS + SERVICES + SERVERS + _FRAME
