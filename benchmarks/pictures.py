"""Small pictures as SVG, readable on light and dark pages: grouped bars of ratios, and lines; both on logarithmic scales.

Must not know what is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from xml.sax.saxutils import escape

_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#4b5563}.title{font-size:14px;font-weight:600}.axis{stroke:#9ca3af}"
    ".grid{stroke:#9ca3af;stroke-opacity:.3}.one{stroke:#6b7280;stroke-width:1.5}"
    "@media (prefers-color-scheme:dark){text{fill:#c3cad5}.axis{stroke:#6b7280}.one{stroke:#aab2bd}}"
)
_WIDTH = 920
_LABEL, _RIGHT = 400, 50
_BAR, _GAP = 9, 10
_TOP = 64

Colours = Mapping[str, str]
Series = Mapping[str, Sequence[tuple[float, float]]]


def bars(title: str, groups: Mapping[str, Mapping[str, float]], colours: Colours, note: str) -> str:
    """Horizontal bars per group from 1 to their value: to the right above 1, to the left below. `note` explains the axis."""
    names = [name for name in colours if any(name in values for values in groups.values())]
    values = [value for group in groups.values() for value in group.values()]
    axis = _Axis(min([0.5, *values]), max([2.0, *values]), _LABEL, _WIDTH - _RIGHT)
    heights = [len(group) * _BAR + _GAP for group in groups.values()]
    bottom = _TOP + sum(heights)
    parts = [_title(title), *_legend(names, colours), *_vertical(axis, _TOP - 6, bottom)]
    top = float(_TOP)
    for (group, found), height in zip(groups.items(), heights, strict=True):
        parts.append(_text(_LABEL - 8, top + (height - _GAP) / 2 + 4, group, "end"))
        for row, (name, value) in enumerate(found.items()):
            start, end = sorted((axis.at(1), axis.at(value)))
            y = top + row * _BAR
            colour = colours[name]
            parts.append(
                f'<rect x="{start:.1f}" y="{y:.1f}" width="{max(1, end - start):.1f}" height="{_BAR - 2}" fill="{colour}"/>'
            )
            parts.append(_text(end + 4, y + _BAR - 1.5, f"{value:.1f}", size=9))
        top += height
    parts.append(f'<line class="one" x1="{axis.at(1):.1f}" x2="{axis.at(1):.1f}" y1="{_TOP - 6}" y2="{bottom}"/>')
    parts.append(_text(_LABEL, bottom + 36, note))
    return _svg(parts, bottom + 48)


def lines(title: str, series: Series, colours: Colours, across: str, up: str, dashed: Iterable[str] = ()) -> str:
    """A line per series over `across`; the values are `up`. Series in `dashed` are drawn so."""
    points = [point for values in series.values() for point in values]
    height, left, bottom = 420, 70, 360
    x = _Axis(min(p[0] for p in points), max(p[0] for p in points), left, _WIDTH - _RIGHT)
    y = _Axis(min(p[1] for p in points), max(p[1] for p in points), bottom, _TOP + 10)
    parts = [_title(title), *_legend(list(series), colours), *_vertical(x, _TOP, bottom), *_horizontal(y, left)]
    chosen = set(dashed)
    for name, values in series.items():
        colour = colours[name]
        places = [(x.at(a), y.at(b)) for a, b in sorted(values)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        dash = ' stroke-dasharray="6 4"' if name in chosen else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places]
    parts += [_text((left + _WIDTH - _RIGHT) / 2, bottom + 40, across, "middle"), _text(left - 46, _TOP, up)]
    return _svg(parts, height)


class _Axis:
    """A logarithmic axis from pixel `start` to pixel `end` that has room for the values from `low` to `high`."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low = math.log10(low) - 0.03
        self._high = max(math.log10(high) + 0.03, self._low + 0.3)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """The pixel of a value."""
        return self._start + (math.log10(value) - self._low) / (self._high - self._low) * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Round values on the axis: 1, 2 and 5 of each power of ten, or the powers alone when there are many."""
        decades = range(math.floor(self._low), math.ceil(self._high) + 1)
        digits = (1, 2, 5) if self._high - self._low < 3 else (1,)
        found = [digit * 10.0**decade for decade in decades for digit in digits]
        return [value for value in found if self._low <= math.log10(value) <= self._high]


def _vertical(axis: _Axis, top: float, bottom: float) -> list[str]:
    found = []
    for value in axis.ticks():
        at = axis.at(value)
        found.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{bottom}"/>')
        found.append(_text(at, bottom + 16, _short(value), "middle"))
    return found


def _horizontal(axis: _Axis, left: float) -> list[str]:
    found = []
    for value in axis.ticks():
        at = axis.at(value)
        found.append(f'<line class="grid" x1="{left}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        found.append(_text(left - 6, at + 4, _short(value), "end"))
    return found


def _legend(names: Sequence[str], colours: Colours) -> list[str]:
    found, x = [], 12.0
    for name in names:
        found.append(f'<rect x="{x:.0f}" y="31" width="10" height="10" fill="{colours[name]}"/>')
        found.append(_text(x + 14, 40, name))
        x += 32 + 6.6 * len(name)
    return found


def _short(value: float) -> str:
    for unit, letter in ((1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def _title(text: str) -> str:
    return f'<text class="title" x="12" y="20">{escape(text)}</text>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    style = "" if size == 12 else f' style="font-size:{size}px"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def _svg(parts: Sequence[str], height: float) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img"><style>{_STYLE}</style>'
    return "\n".join([head, *parts, "</svg>", ""])
