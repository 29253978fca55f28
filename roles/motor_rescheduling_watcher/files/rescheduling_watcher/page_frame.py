# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the status page is always there: its parts, to be filled by the script, and the patterns of its pictures."""

from __future__ import annotations

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M1 15V9h4V5h5V1h5v14z' fill='%230969da'/%3E%3C/svg%3E"
)

# Elements with data-say (text) and data-label (for who hears the page) get their words in the language of the reader.
BODY = """<svg width="0" height="0" class="patterns" aria-hidden="true"><defs>
<pattern id="stripes" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M1 0v5"/></pattern>
<pattern id="dots" width="4" height="4" patternUnits="userSpaceOnUse"><circle cx="2" cy="2" r="1"/></pattern>
<pattern id="cross" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M1 1l4 4M5 1l-4 4"/></pattern>
</defs></svg>
<a class="skip" href="#services" data-say="skip"></a>
<p id="stale" role="alert" hidden></p>
<header id="top">
<div class="name"><h1 data-say="title"></h1><p id="program"></p><a id="language" data-say="other_language"></a></div>
<div id="verdict" role="status"><span class="sign"></span><p></p></div>
<ul id="troubles"></ul>
<ul id="facts"></ul>
<nav data-label="parts"><a href="#services" data-say="services"></a><a href="#servers" data-say="servers"></a><a href="#repairs" data-say="repairs"></a>
<a href="#watched" data-say="watches"></a></nav>
</header>
<main id="main">
<noscript><p>This page needs JavaScript. The same as data: <a href="state.json">state.json</a></p></noscript>
<section aria-labelledby="overview-title"><h2 id="overview-title" data-say="overview"></h2><div id="overview"></div></section>
<section id="services" aria-labelledby="services-title">
<div class="bar"><h2 id="services-title" data-say="services"></h2><div id="filters" role="group"></div><input id="search" type="search"></div>
<div id="service-list"></div><p class="dim" id="nothing" data-say="nothing_found" hidden></p>
</section>
<section id="servers" aria-labelledby="servers-title"><h2 id="servers-title" data-say="servers"></h2>
<p class="dim" data-say="servers_hint"></p><ul id="legend"></ul><div id="server-list"></div><p class="dim" id="no-servers" data-say="no_servers"></p></section>
<section id="repairs" aria-labelledby="repairs-title"><h2 id="repairs-title" data-say="repairs"></h2><ol id="repair-list"></ol>
<p class="dim" id="no-repairs"></p></section>
<section id="watched" aria-labelledby="watches-title"><h2 id="watches-title" data-say="watches"></h2>
<details id="watches"><summary></summary><div id="watch-list"></div></details></section>
</main>
<aside id="detail" hidden><button type="button" id="close">\u2715</button><div></div></aside>
<footer><p id="footer"></p></footer>"""
