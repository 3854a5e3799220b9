"""Style: how the page looks, in light and dark, wide and narrow, on screen and on paper."""

from __future__ import annotations

from driftline._plotting import COLORS

__all__ = ["STYLE"]

_BLUE, _VERMILION, _GREEN, _ORANGE, _SKY = (COLORS[k] for k in (0, 1, 2, 3, 5))

_VARIABLES = f"""
:root {{
  color-scheme: light dark;
  --page: #f6f7f8; --card: #ffffff; --ink: #1a1d21; --soft: #5a626b; --faint: #e3e6ea; --rule: #c9ced4;
  --line: {_BLUE}; --band: {_BLUE}2e; --alarm: {_VERMILION}; --warning: {_ORANGE}; --good: {_GREEN};
  --alarm-ink: #a34700; --warning-ink: #7d5600; --good-ink: #00694d; --waiting-ink: #4c545c;
  --alarm-wash: #fdf0e8; --warning-wash: #fdf5e3; --good-wash: #e9f6f1; --waiting-wash: #eef0f2;
  --then: #7f8a96; --then-fill: #7f8a9640; --now: {_VERMILION}; --now-fill: {_VERMILION}24; --skipped: #8892a026;
}}
@media screen and (prefers-color-scheme: dark) {{
  :root {{
    --page: #121416; --card: #1a1d21; --ink: #e8eaed; --soft: #a3abb4; --faint: #2b3036; --rule: #444b53;
    --line: {_SKY}; --band: {_SKY}30; --alarm: #f0701a; --warning: {_ORANGE}; --good: #1fb98b;
    --alarm-ink: #ff9d5c; --warning-ink: #f2bd4b; --good-ink: #4fd1a9; --waiting-ink: #b3bac2;
    --alarm-wash: #33200f; --warning-wash: #2e250f; --good-wash: #10291f; --waiting-wash: #23272c;
    --then: #97a2ae; --then-fill: #97a2ae40; --now: #f0701a; --now-fill: #f0701a2b; --skipped: #97a2ae24;
  }}
}}
"""

_PAGE = """
*, *::before, *::after { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.wrap { max-width: 1000px; margin: 0 auto; padding: 24px 20px 48px; }
header { display: flex; flex-wrap: wrap; gap: 4px 20px; align-items: baseline; margin: 0 0 18px;
  color: var(--soft); font-size: 14px; }
header strong { color: var(--ink); font-size: 17px; letter-spacing: -0.01em; }
header span { overflow-wrap: anywhere; min-width: 0; }
section.card, .verdict, details { background: var(--card); border: 1px solid var(--faint); border-radius: 12px; }
section.card { padding: 22px 26px 24px; margin: 18px 0; }
h1 { font-size: 20px; line-height: 1.45; font-weight: 400; margin: 10px 0 0; letter-spacing: -0.005em;
  text-wrap: pretty; overflow-wrap: anywhere; }
h1 strong { font-weight: 650; }
h2 { font-size: 18px; margin: 0 0 4px; letter-spacing: -0.01em; }
h2.whence { margin: 0 0 10px; overflow-wrap: anywhere; }
h3 { font-size: 15px; margin: 0; overflow-wrap: anywhere; }
.second, .caption.second { margin-top: 22px; }
table.bars { margin-top: 12px; }
p { margin: 6px 0; overflow-wrap: anywhere; }
.soft, .caption { color: var(--soft); font-size: 14px; }
.caption { margin: 4px 0 0; }
section.card > p { max-width: 92ch; }
code { font: 13.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { margin: 8px 0 0; padding: 9px 12px; background: var(--page); border: 1px solid var(--faint); border-radius: 8px;
  overflow-x: auto; }
pre code { white-space: pre; overflow-wrap: normal; }
a { color: inherit; }
"""

_VERDICT = """
.verdict { padding: 22px 26px 24px; border-left: 6px solid var(--mark); background: var(--wash); }
.alarm.state { --mark: var(--alarm); --wash: var(--alarm-wash); --word: var(--alarm-ink); }
.warning.state, .blind.state, .unsure.state {
  --mark: var(--warning); --wash: var(--warning-wash); --word: var(--warning-ink); }
.normal.state { --mark: var(--good); --wash: var(--good-wash); --word: var(--good-ink); }
.waiting.state { --mark: var(--rule); --wash: var(--waiting-wash); --word: var(--waiting-ink); }
.badge { display: inline-flex; align-items: center; gap: 8px; color: var(--word); font-weight: 700; font-size: 14px;
  letter-spacing: 0.06em; text-transform: uppercase; }
.badge svg, .tabs svg { width: 14px; height: 14px; fill: var(--mark); flex: none; }
.next { margin: 12px 0 0; font-size: 15px; }
.next a { color: var(--word); font-weight: 600; text-underline-offset: 3px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 12px; margin: 18px 0; }
.tile { background: var(--card); border: 1px solid var(--faint); border-radius: 12px; padding: 12px 16px 13px;
  min-width: 0; }
.tile b { display: block; font-size: 22px; line-height: 1.3; letter-spacing: -0.01em; overflow-wrap: anywhere; }
.tile small { display: block; color: var(--soft); font-size: 13px; line-height: 1.4; overflow-wrap: anywhere; }
.tabs { display: flex; flex-wrap: wrap; gap: 8px; margin: 0 0 14px; }
.tabs label { display: inline-flex; gap: 8px; align-items: center; padding: 7px 14px; border: 1px solid var(--rule);
  border-radius: 999px; cursor: pointer; background: var(--card); font-size: 14px; max-width: 100%; min-width: 0; }
.tabs label span { overflow-wrap: anywhere; min-width: 0; }
.tabs label small { color: var(--soft); white-space: nowrap; }
input.tab { position: absolute; opacity: 0; pointer-events: none; }
.panel { display: none; }
.panel.only { display: block; }
"""

_CHARTS = """
figure { margin: 14px 0 0; }
figure svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  fill: var(--soft); font-variant-numeric: tabular-nums; }
svg text.share { fill: var(--ink); }
.narrow { display: none; }
.grid { stroke: var(--faint); stroke-width: 1; fill: none; }
.zero, .axis { stroke: var(--rule); stroke-width: 1; fill: none; }
.line { fill: none; stroke: var(--line); stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.band { fill: var(--band); stroke: none; }
.open { fill: var(--band); stroke: none; opacity: 0.45; }
.open-end { fill: none; stroke: var(--line); stroke-width: 1.4; stroke-linejoin: round; stroke-linecap: round; }
.tolerance { stroke: var(--soft); stroke-width: 1.3; stroke-dasharray: 7 4; fill: none; }
.limit { stroke: var(--alarm); stroke-width: 1.3; fill: none; }
.warning-limit { stroke: var(--warning); stroke-width: 1.6; stroke-dasharray: 1.6 2.6; fill: none; }
.dot { fill: var(--line); }
.began { fill: var(--card); stroke: var(--line); stroke-width: 1.8; }
path.alarm { fill: var(--alarm); stroke: var(--card); stroke-width: 1; }
rect.warning { fill: var(--card); stroke: var(--warning); stroke-width: 1.8; }
.stood { stroke: none; }
rect.stood.alarm { fill: var(--alarm); }
rect.stood.warning { fill: var(--warning); }
.skipped { fill: var(--skipped); }
.hit { fill: transparent; }
.hit:hover { fill: var(--skipped); }
rect.then { fill: var(--then-fill); }
rect.now { fill: var(--now-fill); }
rect.bar.then { fill: var(--then); }
rect.bar.now { fill: var(--now); }
.outline { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.outline.then { stroke: var(--then); stroke-dasharray: 4 2; }
.outline.now { stroke: var(--now); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 12px 0 0; padding: 0; list-style: none;
  color: var(--soft); font-size: 13px; line-height: 1.5; }
.legend li { display: inline-flex; gap: 7px; align-items: center; }
.legend svg { width: 26px; height: 14px; flex: none; }
.histograms { display: grid; grid-template-columns: 1fr 1fr; gap: 26px 32px; margin: 18px 0 0; }
.histograms figure { margin: 0; min-width: 0; }
.histograms .caption { min-height: 1.5em; margin: 0 0 6px; font-size: 13px; }
"""

_TABLES = """
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 7px 14px 7px 0; border-bottom: 1px solid var(--faint); vertical-align: top; }
th { font-weight: 600; color: var(--soft); font-size: 13px; }
td.n, th.n { text-align: right; }
td:last-child, th:last-child { padding-right: 0; }
tbody tr:last-child > * { border-bottom: 0; }
tbody th { color: var(--ink); font-size: 14px; font-weight: 400; }
.scroll { overflow-x: auto; margin: 10px 0 0; }
.scroll td, .scroll th { white-space: nowrap; }
.scroll td.name { max-width: 220px; overflow: hidden; text-overflow: ellipsis; }
.bars td small { white-space: nowrap; }
.bars th[scope=row] { width: 62%; overflow-wrap: anywhere; }
.bars svg { display: block; width: 100%; height: 14px; margin: 5px 0 2px; overflow: visible; }
.bars .bar { fill: var(--line); }
.bars .whisker { stroke: var(--ink); stroke-width: 1.4; vector-effect: non-scaling-stroke; fill: none; }
.bars .zero { vector-effect: non-scaling-stroke; }
.signal { font-weight: 600; }
.signal.alarm { color: var(--alarm-ink); } .signal.warning { color: var(--warning-ink); }
.signal.normal { color: var(--good-ink); font-weight: 400; }
.signal.skipped, .signal.original { color: var(--soft); font-weight: 400; }
details { margin: 12px 0; padding: 0 26px; }
summary { cursor: pointer; padding: 13px 0; font-weight: 600; font-size: 15px; }
summary small { color: var(--soft); font-weight: 400; }
details[open] { padding-bottom: 18px; }
dl { display: grid; grid-template-columns: minmax(110px, max-content) 1fr; gap: 5px 20px; margin: 0; font-size: 14px; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
ol.steps { margin: 10px 0 0; padding: 0 0 0 1.3em; max-width: 78ch; }
ol.steps li { margin: 0 0 14px; }
ol.steps li:last-child { margin: 0; }
ol.steps li::marker { font-weight: 600; }
ul.notes { margin: 0; padding: 0 0 0 1.1em; font-size: 14px; }
ul.notes li { margin: 0 0 6px; overflow-wrap: anywhere; }
footer { color: var(--soft); font-size: 13px; margin: 22px 2px 0; overflow-wrap: anywhere; }
"""

_MEDIA = """
@media screen and (max-width: 640px) {
  .wrap { padding: 16px 12px 32px; }
  section.card, .verdict { padding: 16px 16px 18px; }
  details { padding: 0 16px; }
  h1 { font-size: 18px; }
  .wide { display: none; }
  .narrow { display: block; }
  .histograms { grid-template-columns: 1fr; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; }
  .tile { padding: 10px 12px; }
  .tile:last-child:nth-child(odd) { grid-column: 1 / -1; }
  .tile b { font-size: 19px; }
  .bars th[scope=row] { width: 56%; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin: 0 0 8px; }
}
@media print {
  :root { --page: #ffffff; }
  body { font-size: 11pt; }
  .wrap { max-width: none; padding: 0; }
  section.card { padding: 14px 0; margin: 8px 0; border-width: 0; }
  details { border-width: 0; padding: 0; }
  figure, .tile, .verdict, table, ol.steps li { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .panel { display: block; }
  .tabs, .hit, .next { display: none; }
  .scroll { overflow: visible; }
  .scroll table { font-size: 8.5pt; }
  .scroll td, .scroll th { padding-right: 7px; font-size: inherit; }
  .tiles { grid-template-columns: repeat(5, 1fr); gap: 8px; }
  .panel + .panel { break-before: page; }
  details::details-content { content-visibility: visible; block-size: auto; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""

STYLE = "".join((_VARIABLES, _PAGE, _VERDICT, _CHARTS, _TABLES, _MEDIA))
