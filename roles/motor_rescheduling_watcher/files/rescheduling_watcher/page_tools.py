# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tools of the script of the status page: words, elements, times, and lists of which only what has changed is replaced."""

from __future__ import annotations

TOOLS = r"""
const byId = (name) => document.getElementById(name);
const root = document.documentElement;
const allWords = JSON.parse(byId("words").textContent);
const asked = new URLSearchParams(location.search).get("lang");
const language = asked && Object.hasOwn(allWords, asked) ? asked : root.dataset.language;
const words = allWords[language];

// ---- words ----
const say = (name, facts = {}) => (words[name] ?? name).replace(/\{(\w+)\}/g, (all, key) => (Object.hasOwn(facts, key) ? facts[key] : all));
const number = (value) => Number(value).toLocaleString(words.lang);
const count = (name, n, facts = {}) => say(n === 1 && words[`${name}_one`] ? `${name}_one` : name, { n: number(n), ...facts });

function names(all, most = 3, between = "list") {
  const first = all.slice(0, most);
  if (all.length > most) first.push(say("more", { n: number(all.length - most) }));
  return first.join(say(between));
}

// ---- elements; what comes from the cluster is only ever text or the value of an attribute that runs nothing ----
const SVG = new Set(["svg", "path", "rect", "text", "title", "g"]);
const SPACE = "http://www.w3.org/2000/svg";

function el(tag, attributes, ...children) {
  const node = SVG.has(tag) ? document.createElementNS(SPACE, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

function grown(node, share) {
  node.style.setProperty("flex-grow", share);
  return node;
}

const PATHS = {
  running: "M2 6.5l2.8 2.8L10 3.5",
  starting: "M6 1.8a4.2 4.2 0 1 1-4.2 4.2",
  pending: "M3 1.5h6M3 10.5h6M3.8 1.5c0 4.5 4.4 4.5 4.4 9M8.2 1.5c0 4.5-4.4 4.5-4.4 9",
  held: "M4.2 2.5v7M7.8 2.5v7",
  terminating: "M6 1.8v8M2.8 6.8L6 10l3.2-3.2",
  failed: "M2.5 2.5l7 7M9.5 2.5l-7 7",
  missing: "M6 1.8a4.2 4.2 0 1 0 .01 0",
  surplus: "M6 2v8M2 6h8",
  foreign: "M3.8 4.2a2.2 2.2 0 1 1 3 2.1c-.6.3-.8.6-.8 1.3M6 10v.1",
  warn: "M6 1.8v5.4M6 9.8v.2",
  note: "M6 5v5M6 2.2v.1",
};
const SAME = { ok: "running", bad: "failed", busy: "starting", error: "failed", warning: "warn" };

function icon(name) {
  const path = PATHS[SAME[name] || name] || PATHS.foreign;
  return el("svg", { viewBox: "0 0 12 12", class: `icon i-${PATHS[name] || SAME[name] ? name : "foreign"}`, "aria-hidden": "true" }, el("path", { d: path }));
}

// ---- times; `fixed` is the moment that a page without a server shows, `behind` how far this clock is behind that of the server ----
let fixed = null, behind = 0, shown = null;
const now = () => fixed ?? Date.now() + behind;
const clock = (date) => date.toLocaleTimeString(words.lang);
const moment = (at) => new Date(at).toLocaleString(words.lang);

function span(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000)), minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
  if (seconds < 100) return say("seconds", { n: seconds });
  if (minutes < 100) return say("minutes", { n: minutes });
  if (hours < 48) return say("hours", { n: hours, rest: minutes % 60 });
  return say("days", { n: number(Math.floor(hours / 24)), rest: hours % 24 });
}

function time(at, form) {
  if (!at || Number.isNaN(Date.parse(at))) return null;
  const node = el("time", { datetime: at, "data-form": form, title: moment(at) });
  tell(node);
  return node;
}

function tell(node) {
  setText(node, say(node.dataset.form, { time: span(now() - Date.parse(node.dateTime)) }));
}

function tick() {
  for (const node of document.querySelectorAll("time[data-form]")) tell(node);
}

// ---- lists: an item has a key; an element whose data are the same stays, one that is given back by `make` stays, too ----
const kept = new WeakMap();

function sync(parent, items, keyOf, make) {
  const before = kept.get(parent) || new Map(), after = new Map();
  for (const item of items) {
    let key = String(keyOf(item));
    while (after.has(key)) key += "+";
    after.set(key, { item, text: JSON.stringify(item) });
  }
  for (const [key, old] of before) if (!after.has(key)) old.node.remove();
  let place = parent.firstChild;
  for (const [key, entry] of after) {
    const old = before.get(key);
    entry.node = old && old.text === entry.text ? old.node : make(entry.item, old && old.node);
    if (old && old.node !== entry.node) {
      if (place === old.node) place = entry.node;
      old.node.replaceWith(entry.node);
    }
    if (entry.node === place) place = place.nextSibling;
    else parent.insertBefore(entry.node, place);
  }
  kept.set(parent, after);
}
"""
