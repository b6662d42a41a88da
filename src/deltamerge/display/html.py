"""Views as HTML for notebooks: one element with its own style, light and dark, that needs nothing from elsewhere.

All texts are escaped and cut. What would make a page larger than MOST_BYTES is left out, and the page says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from deltamerge.display.views import Bars, Cell, Grid, Node, Page, Pairs, View, cut

MOST_BYTES = 128_000
_LIGHT = "color-scheme:light;--bg:#fff;--fg:#1f2328;--dim:#59636e;--line:#d1d9e0;--head:#f6f8fa;--bar:#4c8bf5;--mark:#fff1b8"
_DARK = "color-scheme:dark;--bg:#16191d;--fg:#e6e9ec;--dim:#9aa4af;--line:#3a424b;--head:#20252b;--bar:#5b95f9;--mark:#5c4a00"
# Notebooks have styles of their own for tables and lists, which a rule of one class would lose to.
_WITHIN = "div.deltamerge.deltamerge"
_STYLE = (
    f".deltamerge{{{_LIGHT};background:var(--bg);color:var(--fg);font:13px/1.45 system-ui,sans-serif;padding:10px 14px;"
    "border:1px solid var(--line);border-radius:6px;overflow-x:auto;max-width:100%;box-sizing:border-box}"
    f"@media(prefers-color-scheme:dark){{.deltamerge{{{_DARK}}}}}"
    f'[data-jp-theme-light="true"] .deltamerge{{{_LIGHT}}}[data-jp-theme-light="false"] .deltamerge{{{_DARK}}}'
    f"{_WITHIN} b.h{{font-size:14px;margin-right:.5em}}{_WITHIN} .t{{font-weight:600;margin:12px 0 4px;overflow-wrap:anywhere}}"
    f"{_WITHIN} table{{border-collapse:collapse;margin:0;font-size:12px;color:inherit;background:none;border:0}}"
    f"{_WITHIN} tr,{_WITHIN} tbody tr:nth-child(n),{_WITHIN} tbody tr:hover{{background:none}}{_WITHIN} thead{{border:0}}"
    f"{_WITHIN} th,{_WITHIN} td{{padding:2px 10px;text-align:left;vertical-align:top;line-height:1.45;max-width:24em;"
    "overflow-wrap:anywhere;white-space:normal;border:0}"
    f"{_WITHIN} table.g{{width:max-content}}{_WITHIN} span+table{{margin-top:6px}}"
    f"{_WITHIN} .g th,{_WITHIN} .g td{{border:1px solid var(--line);overflow-wrap:break-word}}"
    f"{_WITHIN} .g th{{background:var(--head);font-weight:600}}"
    f"{_WITHIN} td.r,{_WITHIN} th.r{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}"
    f"{_WITHIN} td.m{{background:var(--mark)}}"
    f"{_WITHIN} .d{{color:var(--dim)}}{_WITHIN} td.n{{color:var(--dim);white-space:nowrap}}"
    f"{_WITHIN} i.b{{display:block;height:10px;margin:4px 0;border-radius:2px;background:var(--bar)}}"
    f"{_WITHIN} td.w{{width:240px;min-width:30px}}{_WITHIN} .b td,{_WITHIN} .b th{{padding:2px 7px}}"
    f"{_WITHIN} .b td.n{{padding-left:10px}}"
    f"{_WITHIN} ul{{margin:0 0 0 6px;padding:0 0 0 14px;list-style:none;border-left:1px solid var(--line)}}"
    f"{_WITHIN} li{{margin:1px 0;overflow-wrap:anywhere}}"
)


def html_of(page: Page) -> str:
    """A page as an element of HTML, of at most MOST_BYTES bytes."""
    parts = [f"<style>{_STYLE}</style>", f'<b class="h">{_text(page.heading)}</b><span>{_text(page.line)}</span>']
    closing = '<div class="d">More is not shown here.</div></div>'
    left = MOST_BYTES - len('<div class="deltamerge">') - len(closing) - sum(_size(part) for part in parts)
    for view in page.views:
        part = "".join(_view(view))
        left -= _size(part)
        if left < 0:
            return f'<div class="deltamerge">{"".join(parts)}{closing}'
        parts.append(part)
    return f'<div class="deltamerge">{"".join(parts)}</div>'


def _size(text: str) -> int:
    return len(text.encode())


def _text(text: str) -> str:
    return escape(cut(text))


def _view(view: View) -> Iterator[str]:
    if view.title:
        yield f'<div class="t">{_text(view.title)}</div>'
    if isinstance(view, Grid):
        yield from _grid(view)
    elif isinstance(view, Pairs):
        rows = (f'<tr><td class="n">{_text(name)}</td><td>{_text(value)}</td></tr>' for name, value in view.pairs)
        yield f"<table><tbody>{''.join(rows)}</tbody></table>"
    elif isinstance(view, Bars):
        yield from _bars(view)
    else:
        yield from _nodes(view.nodes)


def _grid(view: Grid) -> Iterator[str]:
    if view.columns:
        right = [' class="r"' if name in view.numeric else "" for name in view.columns]
        heads = "".join(f"<th{kind}>{_text(name)}</th>" for name, kind in zip(view.columns, right, strict=True))
        yield f'<table class="g"><thead><tr>{heads}</tr></thead><tbody>'
        for row in view.rows:
            yield f"<tr>{''.join(_cell(cell, kind) for cell, kind in zip(row, right, strict=True))}</tr>"
        yield "</tbody></table>"
    if view.note:
        yield f'<div class="d">{_text(view.note)}</div>'


def _cell(cell: Cell, kind: str) -> str:
    if cell.marked:
        return f'<td class="m">{_text(cell.text)}</td>'
    return f"<td{kind}>{_text(cell.text)}</td>"


def _bars(view: Bars) -> Iterator[str]:
    yield '<table class="b">'
    if any(view.heads):
        heads = "".join(f'<th class="r">{_text(head)}</th>' for head in view.heads)
        yield f"<thead><tr><th></th>{heads}<th></th></tr></thead>"
    yield "<tbody>"
    for bar in view.bars:
        texts = "".join(f'<td class="r">{_text(text)}</td>' for text in bar.texts)
        width = max(1 if bar.share else 0, round(100 * bar.share))
        yield f'<tr><td class="n">{_text(bar.name)}</td>{texts}<td class="w"><i class="b" style="width:{width}%"></i></td></tr>'
    yield "</tbody></table>"


def _nodes(nodes: tuple[Node, ...]) -> Iterator[str]:
    yield "<ul>"
    for node in nodes:
        why = f' <span class="d">\N{EM DASH} {_text(node.why)}</span>' if node.why else ""
        yield f"<li>{_text(node.text)}{why}" if node.chosen else f'<li><span class="d">no {_text(node.text)}</span>{why}'
        if node.below:
            yield from _nodes(node.below)
        yield "</li>"
    yield "</ul>"
