# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look of the page that shows a simulation."""

from __future__ import annotations

# Text has a contrast of at least 4.5:1 with what is behind it, in both schemes and on paper.
_LIGHT = """
--back: #ffffff; --card: #f6f8fa; --text: #1f2328; --dim: #59636e; --line: #d1d9e0; --bad: #b3261e; --badback: #fdecea; --mark: #0969da;
--grid: #00000022; --free: #ffffff; --used: #c4ccd4;
--g0: #9ecbff; --g0b: #79b4f5; --g1: #ffd07a; --g1b: #f2b64c; --g2: #a6e3b8; --g2b: #7dcf97; --g3: #d9bdfb; --g3b: #c49cf2; --g4: #f9b4b4; --g4b: #ec9090;
--ontop: #10161d;
"""
_DARK = """
--back: #0d1117; --card: #161b22; --text: #e6edf3; --dim: #9198a1; --line: #3d444d; --bad: #ff8f86; --badback: #3a1513; --mark: #58a6ff;
--grid: #00000055; --free: #0d1117; --used: #4a525c;
--g0: #1f4f8c; --g0b: #2a67b3; --g1: #75520c; --g1b: #8f6714; --g2: #1d5a34; --g2b: #277243; --g3: #573387; --g3b: #6c44a4; --g4: #7d2f2f; --g4b: #963d3d;
--ontop: #f4f8fc;
"""
STYLE = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
@media print {{ :root {{ {_LIGHT} }} body {{ font-size: 10pt; }} }}
* {{ box-sizing: border-box; print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
body {{ margin: 0; background: var(--back); color: var(--text); font: 15px/1.45 system-ui, -apple-system, "Segoe UI", "Noto Sans CJK SC", sans-serif; }}
main {{ max-width: 1120px; margin: 0 auto; padding: 20px 16px 48px; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.6rem; margin: 0 0 4px; }} h2 {{ font-size: 1.2rem; margin: 36px 0 6px; border-bottom: 1px solid var(--line); padding-bottom: 4px; }}
h3 {{ font-size: 1rem; margin: 18px 0 6px; }} p {{ margin: 6px 0; }} ul {{ padding-left: 20px; }}
.dim {{ color: var(--dim); font-weight: 400; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(220px, 1fr)); gap: 12px; margin: 16px 0; }}
.card {{ background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; break-inside: avoid; }}
.card h3 {{ margin: 0 0 4px; }} dl {{ margin: 0; display: grid; grid-template-columns: auto 1fr; gap: 2px 12px; }}
dt {{ color: var(--dim); }} dd {{ margin: 0; font-weight: 600; }} dd .dim {{ display: block; }} dd.down {{ color: var(--bad); }}
table {{ border-collapse: collapse; width: 100%; }} th {{ text-align: left; font-weight: 600; overflow-wrap: normal; }}
th, td {{ padding: 6px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }}
tr {{ break-inside: avoid; }} tr.down > * {{ background: var(--badback); }} tr.down > th, tr.down > td.reached {{ color: var(--bad); font-weight: 600; }}
.steps thead th {{ text-align: right; width: 14%; }} .steps td {{ text-align: right; white-space: nowrap; vertical-align: middle; }}
.steps .none {{ color: var(--dim); }} .steps .skipped th {{ color: var(--dim); font-weight: 400; font-size: .9em; }}
.steps .bar {{ display: block; margin-top: 4px; }}
.mark {{ display: inline-block; margin-left: 6px; padding: 0 5px; border-radius: 4px; font-size: .8em; border: 1px solid var(--mark); color: var(--mark); }}
.mark.worst {{ border-color: var(--bad); color: var(--bad); }}
.outcomes td:first-child, .outcomes td:nth-child(2) {{ white-space: nowrap; }} .outcomes .mark {{ display: block; width: max-content; margin: 2px 0 0; }}
.legend {{ display: flex; flex-wrap: wrap; gap: 4px 18px; }} .key {{ display: inline-flex; align-items: center; gap: 6px; }}
.rack {{ display: flex; flex-wrap: wrap; gap: 6px 4px; }}
.server {{ margin: 0; padding: 1px; border: 2px solid transparent; border-radius: 3px; text-align: center; break-inside: avoid; }}
.server svg {{ display: block; margin: 0 auto; outline: 1px solid var(--line); }}
.server figcaption {{ font-size: 10px; line-height: 13px; min-width: 34px; color: var(--dim); }}
.server.critical {{ border-color: var(--bad); }} .server.unusable svg {{ opacity: .35; outline: 2px dashed var(--text); }}
.server text {{ font: 600 10px system-ui, sans-serif; text-anchor: middle; fill: var(--ontop); stroke: none; }}
svg.critical rect {{ fill: none; stroke: var(--bad); stroke-width: 2; }} svg.unusable rect {{ fill: none; stroke: var(--text); stroke-dasharray: 3 2; }}
.grid {{ stroke: var(--grid); stroke-width: 1; fill: none; }}
rect.free {{ fill: var(--free); stroke: var(--line); }} rect.used {{ fill: var(--used); }}
{" ".join(f"rect.g{index}.s0 {{ fill: var(--g{index}); }} rect.g{index}.s1 {{ fill: var(--g{index}b); }}" for index in range(5))}
@media (max-width: 640px) {{
  .steps thead {{ display: none; }} .steps tr {{ display: block; padding: 6px 0; border-bottom: 1px solid var(--line); }}
  .steps th, .steps td {{ display: block; border: 0; padding: 1px 6px; text-align: left; }}
  .steps td.none {{ display: none; }} .steps td::before {{ content: attr(data-label) ": "; color: var(--dim); font-weight: 400; }}
  .outcomes thead {{ display: none; }} .outcomes tr {{ display: block; border: 1px solid var(--line); border-radius: 8px; margin: 10px 0; padding: 6px 4px; }}
  .outcomes td {{ display: block; border: 0; padding: 2px 10px; }} .outcomes .mark {{ display: inline-block; margin-left: 6px; }}
  .outcomes td::before {{ content: attr(data-label); display: block; color: var(--dim); font-size: .85em; }}
}}
"""
