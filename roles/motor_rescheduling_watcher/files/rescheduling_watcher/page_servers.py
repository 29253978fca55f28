# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the script of the status page that shows servers x NPUs, and the pods of the server that was chosen."""

from __future__ import annotations

SERVERS = r"""
// ---- servers, in super pods or in racks of so many ----
const RACK = 40, ROWS = 8, CELL = 8, WIDE = 28, NARROW = 19;
const PATTERNS = ["used_moving", "reserved", "unhealthy"];
const serverState = (server) => (!server.ready ? "not_ready" : server.cordoned ? "cordoned" : "ready");
let open_server = null;

function servers(report) {
  const all = report.servers, prefix = commonPrefix(all.map((server) => server.name));
  sync(byId("server-list"), racks(all), (rack) => rack.title, (rack, old) => rackNode(rack, old, prefix));
  setHidden(byId("no-servers"), all.length > 0);
  detail();
}

function racks(all) {
  const pods = [...new Set(all.map((server) => server.super_pod))];
  if (pods.length > 1 || pods[0]) {
    pods.sort((one, other) => (one === "") - (other === "") || one.localeCompare(other, "en", { numeric: true }));
    const title = (pod) => (pod ? say("super_pod", { name: pod }) : say("no_super_pod"));
    return pods.map((pod) => ({ title: title(pod), members: all.filter((server) => server.super_pod === pod) }));
  }
  const found = [];
  for (let at = 0; at < all.length; at += RACK) {
    const members = all.slice(at, at + RACK);
    found.push({ title: say("rack", { first: members[0].name, last: members[members.length - 1].name }), members });
  }
  return found;
}

function commonPrefix(all) {
  if (all.length < 2) return 0;
  let length = 0;
  while (all[0][length] !== undefined && all.every((name) => name[length] === all[0][length])) length += 1;
  while (length && /[a-z0-9]/i.test(all[0][length - 1])) length -= 1;  // words and numbers stay whole
  return length;
}

function rackNode(rack, old, prefix) {
  const node = old || el("section", { class: "rack-group" }, el("h3"), el("div", { class: "rack", role: "group" }));
  const [head, box] = node.children;
  const free = rack.members.reduce((sum, server) => sum + server.free, 0);
  head.replaceChildren(rack.title, " ", el("span", { class: "dim" }, `${count("server_count", rack.members.length)}, ${number(free)} ${say("free")}`));
  box.setAttribute("aria-label", rack.title);
  sync(box, rack.members, (server) => server.name, (server) => serverNode(server, prefix));
  if (!box.querySelector('[tabindex="0"]') && box.firstElementChild) box.firstElementChild.tabIndex = 0;
  return node;
}

function serverNode(server, prefix) {
  const state = serverState(server), label = serverLabel(server);
  const short = server.name.slice(prefix) || server.name;
  const badge = state === "ready" ? null : el("span", { class: "flag" }, icon(state === "not_ready" ? "failed" : "held"));
  const node = el("button", { type: "button", class: `server ${state}`, "aria-label": label, title: label, tabindex: "-1", "data-name": server.name },
    picture(server), badge, el("span", { class: "short" }, short.length > 7 ? `\u2026${short.slice(-6)}` : short));
  node.words = [server.name, server.super_pod, ...server.pods.flatMap((pod) => [pod.name, pod.instance, pod.namespace])].join("\n").toLowerCase();
  return node;
}

function serverLabel(server) {
  return say("server_label", { ...server, state: say(serverState(server)), unhealthy: server.npus - server.healthy });
}

// What nobody has: what is not free is not healthy, or on a server that takes no pods.
function idle(server) {
  const left = Math.max(0, server.npus - server.used - server.reserved - server.free), unhealthy = Math.min(left, server.npus - server.healthy);
  return { free: server.free, unhealthy, closed: left - unhealthy };
}

// Blocks of NPUs that belong together, in the order in which they are drawn.
function blocks(server) {
  const found = [];
  let left = server.npus;
  const add = (n, style, label) => {
    const some = Math.min(left, Math.max(0, n));
    if (some) found.push({ n: some, style, label });
    left -= some;
  };
  const rest = { used: server.used, reserved: server.reserved };
  for (const pod of server.pods) {
    const kind = pod.state === "starting" ? "reserved" : "used";
    add(pod.npus, pod.state === "terminating" ? "used_moving" : kind, (/[0-9]+$/.exec(pod.instance) || [""])[0]);
    rest[kind] -= pod.npus;
  }
  add(rest.used, "used_other", "");
  add(rest.reserved, "reserved", "");
  for (const [kind, n] of Object.entries(idle(server))) add(n, kind, "");
  return found;
}

function picture(server) {
  const columns = Math.ceil(server.npus / ROWS) || 1, wide = columns === 1 ? WIDE : NARROW;
  const width = columns * wide, height = CELL * Math.min(ROWS, server.npus || 1);
  const node = el("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  let at = 0;
  for (const block of blocks(server)) at = draw(node, block, at, wide);
  let lines = "";
  for (let npu = 0; npu < server.npus; npu += 1) {
    if (npu % ROWS) lines += `M${Math.floor(npu / ROWS) * wide} ${(npu % ROWS) * CELL}h${wide}`;
    else if (npu) lines += `M${(npu / ROWS) * wide} 0v${height}`;
  }
  node.append(el("path", { d: lines, class: "grid" }));
  return node;
}

function draw(node, block, from, wide) {
  let at = from, left = block.n, told = false;
  while (left) {
    const row = at % ROWS, whole = !row && left >= ROWS;
    const rows = whole ? ROWS : Math.min(left, ROWS - row), columns = whole ? Math.floor(left / ROWS) : 1;
    const box = { x: Math.floor(at / ROWS) * wide, y: row * CELL, width: columns * wide, height: rows * CELL };
    node.append(el("rect", { ...box, class: `npu ${block.style}` }));
    if (PATTERNS.includes(block.style)) node.append(el("rect", { ...box, class: `npu over ${block.style}` }));
    if (block.label && rows > 1 && !told) {
      node.append(el("text", { x: box.x + box.width / 2, y: box.y + box.height / 2 + 4, class: PATTERNS.includes(block.style) ? "over" : "" }, block.label));
      told = true;
    }
    at += rows * columns;
    left -= rows * columns;
  }
  return at;
}

// ---- the server that was chosen ----
function detail() {
  const panel = byId("detail"), server = open_server && shown.servers.find((one) => one.name === open_server);
  setHidden(panel, !server);
  if (!server) return;
  panel.setAttribute("aria-label", server.name);
  const state = serverState(server);
  const pods = server.pods.map((pod) => el("li", {}, icon(STATES.includes(pod.state) ? pod.state : "foreign"),
    el("span", {}, el("strong", {}, pod.instance || pod.name), " ", el("span", { class: "dim" },
      [`${pod.namespace}/${pod.name}`, count("npus_of", pod.npus), words[`is_${pod.state}`] || pod.state].join(" \u00b7 ")))));
  const numbers = ["used", "reserved", "free"].map((kind) => `${say(kind)} ${server[kind]}`);
  numbers.push(`${say("unhealthy")} ${server.npus - server.healthy}`);
  const where = server.super_pod ? ` \u00b7 ${say("super_pod", { name: server.super_pod })}` : null;
  panel.lastElementChild.replaceChildren(
    el("h3", {}, server.name), el("p", { class: state }, say(state), " ", time(server.since, "since"), where),
    el("p", {}, `${say("npus_of", { n: server.npus })}: ${numbers.join(say("list"))}`),
    pods.length ? el("ul", {}, pods) : el("p", { class: "dim" }, say("no_pods")));
}

function startServers() {
  const kinds = ["used", "used_moving", "used_other", "reserved", "free", "unhealthy", "closed"];
  const box = { x: 1, y: 1, width: 14, height: 14 };
  const keys = kinds.map((kind) => el("li", {}, el("svg", { viewBox: "0 0 16 16", class: "key", "aria-hidden": "true" },
    el("rect", { ...box, class: `npu ${kind}` }), el("rect", { ...box, class: `npu over ${kind}` }), el("rect", { ...box, class: "frame" })), say(kind)));
  const marks = [["not_ready", "failed"], ["cordoned", "held"]].map(([name, sign]) =>
    el("li", { class: name }, el("span", { class: "flag" }, icon(sign)), say(name)));
  byId("legend").append(...keys, ...marks);
  byId("close").setAttribute("aria-label", say("close"));
  byId("close").addEventListener("click", closeDetail);
  document.addEventListener("keydown", (event) => event.key === "Escape" && closeDetail());
  byId("server-list").addEventListener("click", (event) => {
    const node = event.target.closest(".server");
    if (!node) return;
    open_server = open_server === node.dataset.name ? null : node.dataset.name;
    detail();
  });
  byId("server-list").addEventListener("keydown", walk);
}

function closeDetail() {
  if (!open_server) return;
  const node = [...document.querySelectorAll(".server")].find((one) => one.dataset.name === open_server);
  open_server = null;
  detail();
  if (node) node.focus();
}

// Within a rack the arrow keys go from server to server, so that a rack is one stop of the tab key.
function walk(event) {
  const node = event.target.closest(".server"), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!node || !step) return;
  const all = [...node.parentElement.children].filter((one) => !one.hidden), next = all[all.indexOf(node) + step];
  if (!next) return;
  node.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  event.preventDefault();
}

function chooseServers(text) {
  for (const node of document.querySelectorAll(".server")) {
    setHidden(node, !node.words.includes(text));
  }
  for (const group of document.querySelectorAll(".rack-group")) {
    const empty = Boolean(text) && ![...group.lastElementChild.children].some((node) => !node.hidden);
    setHidden(group, empty);
  }
}
"""
