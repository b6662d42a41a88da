"""Curves of figures over table sizes as a picture: plain SVG text, both axes logarithmic. Must not know how they are measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from xml.sax.saxutils import escape

Figures = dict[str, dict[str, dict[str, float]]]

PANELS = {
    "cold s": "cold snapshot, s",
    "cold MB": "its memory, MB",
    "catch up ms": "catching up a commit, ms",
    "first skip ms": "first skipping by a column, ms",
    "skip ms": "later skipping, ms",
    "checkpoint s": "writing a checkpoint, s",
}
COLOURS = {"deltamerge": "#0b6e4f", "delta-rs": "#c8553d", "delta-spark": "#4059ad"}
ACROSS, WIDTH, HEIGHT, LEFT, TOP, GAP = 3, 250, 150, 50, 60, 70


def draw(figures: Figures) -> str:
    """An SVG with a panel for each figure: figures are by engine, number of files and name."""
    rows = -(-len(PANELS) // ACROSS)
    size = ACROSS * (WIDTH + GAP) + LEFT, rows * (HEIGHT + GAP) + TOP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" font-family="sans-serif" font-size="11">',
        f'<rect width="{size[0]}" height="{size[1]}" fill="white"/>',
    ]
    for number, engine in enumerate(figures):
        at = LEFT + number * 130
        lines.append(f'<circle cx="{at}" cy="20" r="4" fill="{COLOURS[engine]}"/><text x="{at + 9}" y="24">{engine}</text>')
    for number, name in enumerate(PANELS):
        x = LEFT + number % ACROSS * (WIDTH + GAP)
        y = TOP + number // ACROSS * (HEIGHT + GAP)
        curves = {engine: _points(found, name) for engine, found in figures.items()}
        lines += _panel(x, y, PANELS[name], {engine: points for engine, points in curves.items() if points})
    return "\n".join([*lines, "</svg>", ""])


def _points(found: dict[str, dict[str, float]], name: str) -> list[tuple[int, float]]:
    return sorted((int(files), figures[name]) for files, figures in found.items() if figures.get(name, 0) > 0)


def _panel(x: int, y: int, title: str, curves: dict[str, list[tuple[int, float]]]) -> Iterator[str]:
    yield f'<text x="{x}" y="{y - 8}" font-weight="bold">{escape(title)}</text>'
    yield f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>'
    points = [point for found in curves.values() for point in found]
    if not points:
        return
    across, up = _decades([files for files, _ in points]), _decades([value for _, value in points])
    for power in range(across[0], across[1] + 1):
        at = x + _share(10**power, across) * WIDTH
        yield f'<text x="{at:.0f}" y="{y + HEIGHT + 14}" text-anchor="middle">{10**power:,}</text>'
    for power in range(up[0], up[1] + 1):
        at = y + (1 - _share(10**power, up)) * HEIGHT
        yield f'<line x1="{x}" x2="{x + WIDTH}" y1="{at:.0f}" y2="{at:.0f}" stroke="#eee"/>'
        yield f'<text x="{x - 5}" y="{at + 4:.0f}" text-anchor="end">{10.0**power:,g}</text>'
    for engine, found in curves.items():
        places = [(x + _share(files, across) * WIDTH, y + (1 - _share(value, up)) * HEIGHT) for files, value in found]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in places)
        yield f'<polyline points="{path}" fill="none" stroke="{COLOURS[engine]}" stroke-width="2"/>'
        for (left, top), (files, value) in zip(places, found, strict=True):
            tip = f"<title>{engine}, {files:,} files: {value:.3g}</title>"
            yield f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="{COLOURS[engine]}">{tip}</circle>'


def _decades(values: list[int] | list[float]) -> tuple[int, int]:
    """The powers of ten around some values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _share(value: float, decades: tuple[int, int]) -> float:
    return (math.log10(value) - decades[0]) / (decades[1] - decades[0])
