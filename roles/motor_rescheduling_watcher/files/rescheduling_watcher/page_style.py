# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look of the status page: light, dark and on paper, from a phone to a wide screen."""

from __future__ import annotations

# Text has a contrast of at least 4.5:1 with what is behind it, in both schemes and on paper.
_LIGHT = """
--back: #f6f8fa; --card: #ffffff; --text: #1f2328; --dim: #59636e; --line: #d1d9e0; --link: #0550ae; --focus: #0969da; --soft: #eef1f4;
--ok: #1a7f37; --okback: #e6f6ea; --warn: #8a5300; --warnback: #fff3d6; --bad: #b3261e; --badback: #fdeae8; --busy: #0a5cad;
  --busyback: #e3f0fd;
--used: #79b4f5; --moving: #c3ddfb; --other: #b9c2cb; --free: #ffffff; --reserved: #fff3d6; --reservedline: #9a6700; --sick: #ffd9d5;
  --sickline: #b3261e;
--grid: #00000026; --ontop: #10161d; --g0: #9ecbff; --g1: #ffd07a; --g2: #a6e3b8; --g3: #d9bdfb;
"""
_DARK = """
--back: #0d1117; --card: #161b22; --text: #e6edf3; --dim: #9aa4ae; --line: #3d444d; --link: #79b8ff; --focus: #58a6ff; --soft: #1f262e;
--ok: #56d364; --okback: #12261a; --warn: #e3b341; --warnback: #2e2410; --bad: #ff8f86; --badback: #3a1513; --busy: #79b8ff;
  --busyback: #10243e;
--used: #2a67b3; --moving: #1c3a5e; --other: #4a525c; --free: #0d1117; --reserved: #2e2410; --reservedline: #e3b341; --sick: #3a1513;
  --sickline: #ff8f86;
--grid: #00000066; --ontop: #f4f8fc; --g0: #1f4f8c; --g1: #75520c; --g2: #1d5a34; --g3: #573387;
"""
_BASE = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
@media print {{ :root {{ {_LIGHT} --back: #ffffff; }} }}
* {{ box-sizing: border-box; print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
[hidden] {{ display: none !important; }}
body {{ margin: 0; background: var(--back); color: var(--text);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", "Noto Sans CJK SC", "WenQuanYi Micro Hei", sans-serif; }}
header, main, footer {{ max-width: 1440px; margin: 0 auto; padding: 0 20px; overflow-wrap: anywhere; }}
h1, h2, h3, h4, p, ul, ol, dl {{ margin: 0; padding: 0; }} ul, ol {{ list-style: none; }}
h2 {{ font-size: 1.15rem; }} h3 {{ font-size: .95rem; }} h4 {{ font-size: .95rem; margin-bottom: 6px; }}
.dim {{ color: var(--dim); font-weight: 400; }} a {{ color: var(--link); }}
button, input {{ font: inherit; color: inherit; }} :focus-visible {{ outline: 2px solid var(--focus); outline-offset: 2px; }}
.visually-hidden {{ position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }}
.skip {{ position: absolute; left: -999px; }} .skip:focus {{ left: 8px; top: 8px; background: var(--card); padding: 8px; z-index: 3; }}
.patterns {{ position: absolute; }} .patterns path {{ stroke: var(--text); stroke-width: 1; }} .patterns circle {{ fill: var(--text); }}
#stripes path {{ stroke: var(--reservedline); stroke-width: 2; }} #cross path {{ stroke: var(--sickline); stroke-width: 1.4; }}
#dots circle {{ fill: var(--ontop); opacity: .7; }}
.icon {{ width: 16px; height: 16px; flex: none; fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round;
  stroke-linejoin: round; vertical-align: -3px; }}
.i-missing {{ stroke-dasharray: 2 2.4; }}
.bad {{ --tone: var(--bad); --toneback: var(--badback); }} .warn {{ --tone: var(--warn); --toneback: var(--warnback); }}
.busy {{ --tone: var(--busy); --toneback: var(--busyback); }} .ok {{ --tone: var(--ok); --toneback: var(--okback); }}
.running {{ --tone: var(--ok); --toneback: var(--okback); }} .starting, .terminating {{ --tone: var(--busy); --toneback: var(--busyback); }}
.pending, .held, .surplus, .foreign {{ --tone: var(--warn); --toneback: var(--warnback); }}
.failed, .missing {{ --tone: var(--bad); --toneback: var(--badback); }}
.error {{ --tone: var(--bad); --toneback: var(--badback); }} .warning {{ --tone: var(--warn); --toneback: var(--warnback); }}
.note {{ --tone: var(--dim); --toneback: var(--soft); }}
"""
_HEADER = """
header { padding-top: 18px; }
.name { display: flex; flex-wrap: wrap; gap: 2px 14px; align-items: baseline; } .name h1 { font-size: 1.05rem; }
.name p { color: var(--dim); flex: 1; min-width: 12em; }
#verdict { display: flex; gap: 12px; align-items: center; margin: 12px 0 8px; padding: 14px 16px; border-radius: 10px;
  background: var(--toneback, var(--soft));
  border: 1px solid var(--tone, var(--line)); border-left-width: 6px; font-size: 1.3rem; font-weight: 650; line-height: 1.25; }
#verdict .sign { color: var(--tone, var(--dim)); } #verdict .icon { width: 26px; height: 26px; vertical-align: -5px; }
#troubles li { display: flex; gap: 8px; padding: 3px 4px; align-items: baseline; }
#troubles .icon { color: var(--tone); align-self: flex-start; margin-top: 3px; }
#troubles li.more { color: var(--dim); padding-left: 28px; }
#troubles button { background: none; border: 0; padding: 0; text-align: left; cursor: pointer; overflow-wrap: anywhere; }
#troubles button:hover { text-decoration: underline; }
#stale { max-width: 1400px; margin: 8px auto; padding: 10px 16px; border-radius: 8px; background: var(--bad); color: var(--card);
  font-weight: 600;
  position: sticky; top: 6px; z-index: 2; }
.is-stale main, .is-stale header { filter: grayscale(.85); }
#facts { display: flex; flex-wrap: wrap; gap: 4px 26px; margin: 10px 0 0; padding: 10px 4px 0; border-top: 1px solid var(--line); }
#facts b { color: var(--dim); font-weight: 400; margin-right: 8px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 10px 4px 0; }
main > section { margin-top: 30px; scroll-margin-top: 8px; } footer { color: var(--dim); margin-top: 30px; padding-bottom: 40px; }
#overview { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); gap: 14px; margin-top: 10px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
.card h3 { display: flex; justify-content: space-between; }
.stack { display: flex; height: 16px; border-radius: 4px; overflow: hidden; margin: 8px 0; gap: 2px; }
.part { min-width: 4px; background: var(--tone, var(--soft)); }
.keys { display: flex; flex-wrap: wrap; gap: 2px 18px; } .keys li { display: inline-flex; gap: 6px; align-items: center; }
.keys .icon { color: var(--tone); }
.swatch { display: inline-block; width: 14px; height: 14px; border-radius: 3px; border: 1px solid var(--line); flex: none; }
.i-running { --tone: var(--ok); } .i-starting, .i-terminating { --tone: var(--busy); }
.i-pending, .i-held, .i-surplus, .i-foreign { --tone: var(--warn); } .i-failed, .i-missing { --tone: var(--bad); }
.part.used { background: var(--used); } .part.closed { background: var(--soft); box-shadow: inset 0 0 0 1px var(--dim); }
.part.free { background: var(--free); box-shadow: inset 0 0 0 1px var(--dim); }
.part.reserved { background: repeating-linear-gradient(45deg, var(--reservedline) 0 2px, var(--reserved) 2px 6px); }
.part.unhealthy { background: repeating-linear-gradient(45deg, var(--sickline) 0 1px, transparent 1px 5px),
  repeating-linear-gradient(-45deg, var(--sickline) 0 1px, var(--sick) 1px 5px); }
"""
_SERVICES = """
.bar { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; } .bar h2 { flex: 1; }
#filters { display: inline-flex; border: 1px solid var(--line); border-radius: 8px; overflow: hidden; background: var(--card); }
#filters button { border: 0; background: none; padding: 6px 12px; cursor: pointer; min-height: 36px; }
#filters button + button { border-left: 1px solid var(--line); }
#filters button[aria-pressed=true] { background: var(--soft); font-weight: 650; box-shadow: inset 0 -3px var(--focus); }
#filters :focus-visible { outline-offset: -2px; }
#search { padding: 6px 12px; border: 1px solid var(--line); border-radius: 8px; background: var(--card); min-width: 22em;
  min-height: 38px; } #search::placeholder { color: var(--dim); opacity: 1; }
#service-list { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 280px), 1fr)); gap: 8px; margin-top: 12px;
  align-items: start; }
.service { background: var(--card); border: 1px solid var(--line); border-left: 5px solid var(--tone); border-radius: 8px; min-width: 0;
  scroll-margin-top: 8px; }
.service.bad, .service.warn, .service.busy, .service[open] { grid-column: 1 / -1; }
summary { cursor: pointer; position: relative; padding: 9px 34px 9px 12px; display: flex; flex-wrap: wrap; gap: 4px 12px;
  align-items: baseline; list-style: none;
  border-radius: 8px; }
summary::-webkit-details-marker { display: none; }
.service summary::after { content: ""; position: absolute; right: 14px; top: 17px; width: 8px; height: 8px; border: solid var(--dim);
  border-width: 0 2px 2px 0;
  transform: rotate(45deg) translate(-3px, -3px); }
.service[open] summary::after { transform: rotate(-135deg) translate(-3px, -3px); }
summary .icon { color: var(--tone); align-self: center; }
.count { color: var(--dim); } .wrong { flex: 1 1 20em; color: var(--tone); } .service[open] .wrong { display: none; }
.badge { border: 1px solid var(--tone, var(--line)); color: var(--tone, var(--dim)); border-radius: 20px; padding: 0 9px;
  font-size: .86em; min-width: 0; }
.body { padding: 2px 16px 16px; display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 18px 32px; }
.body > div { display: grid; gap: 18px; align-content: start; min-width: 0; } .problems li { display: flex; gap: 8px; padding: 2px 0; }
.problems .icon { color: var(--tone); margin-top: 3px; } .problems:empty { display: none; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 330px), 1fr)); gap: 8px; }
.tiles:not(:empty) + .chips:not(:empty) { margin-top: 8px; }
.tile { border: 1px solid var(--tone); border-left-width: 5px; border-radius: 8px; background: var(--toneback); padding: 8px 12px;
  break-inside: avoid; } .tile.missing { border-style: dashed; }
.what { display: flex; flex-wrap: wrap; gap: 2px 8px; align-items: baseline; } .what .icon { align-self: center; color: var(--tone); }
.is { color: var(--tone); font-weight: 600; }
.chips { display: flex; flex-wrap: wrap; gap: 6px; }
.chip { display: inline-flex; flex-wrap: wrap; gap: 0 7px; align-items: baseline; border: 1px solid var(--line); border-radius: 20px;
  padding: 3px 12px; }
.chip .icon { color: var(--tone); align-self: center; } .chip.failed { background: var(--toneback); border-color: var(--tone); }
.chip strong { font-weight: 600; }
.stairs { display: flex; align-items: flex-end; gap: 4px; padding: 2px 0 6px; max-width: 620px; }
.step { flex: 1 1 0; min-width: 0; max-width: 76px; text-align: center; }
.step.gap { max-width: 24px; padding-bottom: 26px; color: var(--dim); }
.mark { display: block; font-size: .82em; font-weight: 650; min-height: 1.5em; white-space: nowrap; color: var(--busy); }
.is-now .mark { color: var(--text); }
.block { height: calc(16px + 84px * var(--part)); display: flex; flex-direction: column; border: 1px solid var(--dim);
  border-radius: 4px 4px 0 0; overflow: hidden; } .seg { flex-basis: 0; min-height: 0; display: grid; place-items: center;
  font-size: .85em; font-weight: 600; color: var(--ontop); overflow: hidden; line-height: 1; }
.seg + .seg { border-top: 1px solid var(--dim); } .g0 { background: var(--g0); } .g1 { background: var(--g1); }
.g2 { background: var(--g2); } .g3 { background: var(--g3); }
.step.room .block { border: 2px dashed var(--busy); } .step.room .seg, .step.none .seg { background: none; color: var(--text); }
.step.none .seg { color: var(--dim); } .step.none .block { border-style: dotted; }
.is-now .block { border: 2px solid var(--text); }
.tier { display: block; border-top: 2px solid var(--text); font-size: .85em; color: var(--dim); }
.is-now .tier { color: var(--text); font-weight: 650; }
.legend, #legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0; }
.legend li, #legend li { display: inline-flex; gap: 7px; align-items: center; color: var(--dim); }
.sample.runs { background: var(--dim); } .sample.room { border: 2px dashed var(--busy); } .sample.none { border: 1px dotted var(--dim); }
.findings { margin-top: 12px; }
.findings li { border-left: 4px solid var(--tone); background: var(--toneback); border-radius: 0 8px 8px 0; padding: 8px 12px;
  margin-bottom: 8px; } .findings .icon { color: var(--tone); margin-right: 6px; } .findings b { color: var(--tone);
  } .findings p + p { margin-top: 3px; }
.place { display: block; font-family: ui-monospace, monospace; font-size: .86em; color: var(--dim); }
.about dl { display: grid; grid-template-columns: fit-content(45%) 1fr; gap: 2px 16px; } dt { color: var(--dim); } dd { margin: 0; }
"""
_SERVERS = """
#server-list { display: flex; flex-wrap: wrap; gap: 14px 36px; margin-top: 14px; } .rack-group { max-width: 100%; }
.rack { display: flex; flex-wrap: wrap; gap: 6px 3px; margin-top: 6px; }
.server { position: relative; border: 2px solid transparent; border-radius: 5px; background: none; padding: 2px; cursor: pointer;
  min-width: 42px; } .server:hover { background: var(--soft); }
.server svg:not(.icon) { display: block; margin: 0 auto; outline: 1px solid var(--dim); }
.short { display: block; font-size: 11px; line-height: 14px; color: var(--dim); white-space: nowrap; }
.server.not_ready { border-color: var(--bad); border-style: dashed; }
.server.cordoned { border-color: var(--warn); border-style: dashed; } .not_ready > svg:not(.icon) { opacity: .45; }
.flag { display: inline-grid; place-items: center; width: 18px; height: 18px; border-radius: 9px; color: var(--card); }
.flag .icon { width: 12px; height: 12px; } .server .flag { position: absolute; top: -7px; right: -3px; }
.not_ready .flag { background: var(--bad); } .cordoned .flag { background: var(--warn); } #detail .not_ready { color: var(--bad); }
#detail .cordoned { color: var(--warn); }
.npu.used { fill: var(--used); } .npu.used_moving { fill: var(--moving); } .npu.used_other { fill: var(--other); }
.npu.reserved { fill: var(--reserved); } .npu.free { fill: var(--free); } .npu.unhealthy { fill: var(--sick); }
.npu.closed { fill: var(--soft); }
.npu.over { fill: none; } .npu.over.used_moving { fill: url(#dots); } .npu.over.reserved { fill: url(#stripes); }
.npu.over.unhealthy { fill: url(#cross); }
.key { width: 16px; height: 16px; flex: none; } .frame { fill: none; stroke: var(--dim); } .grid { stroke: var(--grid); fill: none; }
.server text { font: 700 12px system-ui, sans-serif; text-anchor: middle; fill: var(--ontop); }
.server text.over { fill: var(--text); stroke: var(--card); stroke-width: 3px; paint-order: stroke; }
#detail { position: fixed; right: 16px; bottom: 16px; width: min(440px, calc(100vw - 32px)); max-height: 60vh; overflow: auto;
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 18px; box-shadow: 0 8px 30px #00000055;
  z-index: 2; overflow-wrap: anywhere; }
#detail h3 { padding-right: 36px; font-size: 1.05rem; } #detail li { display: flex; gap: 8px; padding: 3px 0; }
#close { position: absolute; right: 8px; top: 8px; border: 0; background: none; cursor: pointer; width: 36px; height: 36px;
  border-radius: 8px; }
#repair-list { margin-top: 8px; } #repair-list li { display: flex; gap: 10px; padding: 8px 4px; border-bottom: 1px solid var(--line); }
#repair-list .icon { color: var(--tone); margin-top: 3px; } .outcome { color: var(--tone); font-weight: 600; }
#watches { margin-top: 8px; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
#watch-list { padding: 0 12px 10px; } table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; color: var(--dim); }
th, td { padding: 5px 8px; border-bottom: 1px solid var(--line); vertical-align: top; } tr.bad td { color: var(--bad); }
"""
_SIZES = """
@media (max-width: 640px) {
  header, main, footer { padding-left: 12px; padding-right: 12px; } #stale { margin: 8px 12px; } .name h1 { flex: 1; }
  .name p { order: 3; flex-basis: 100%; } #verdict { font-size: 1.12rem; padding: 12px; }
  .body { padding: 2px 12px 14px; } #search, #filters { width: 100%; } #filters button { flex: 1; padding: 6px 4px; }
  .bar h2 { flex-basis: 100%; }
  #facts { flex-direction: column; } thead { display: none; }
  tr { display: block; padding: 6px 0; border-bottom: 1px solid var(--line); } td { display: flex; gap: 10px; border: 0; padding: 1px 0; }
  td::before { content: attr(data-label); color: var(--dim); min-width: 8em; }
}
@media print { body { font-size: 10pt; } #filters, #search, #language, nav, #detail, #close, .skip { display: none;
  } .tile, .rack-group, .findings li { break-inside: avoid; }  }
@media (prefers-reduced-motion: no-preference) { .tile, .server svg:not(.icon) { animation: seen .8s ease-out;
  } @keyframes seen { from { box-shadow: 0 0 0 3px var(--focus); } } }
"""
STYLE = _BASE + _HEADER + _SERVICES + _SERVERS + _SIZES
