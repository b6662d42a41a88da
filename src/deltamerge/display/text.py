"""Views as plain text: short lines, columns that stand below each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltamerge.display.views import Bars, Grid, Node, Page, Pairs, View, cut

MOST_CHARACTERS = 100_000
_BAR = 20


def text_of(page: Page) -> str:
    """A page as text of at most MOST_CHARACTERS; a changed value has a star behind it."""
    parts = [f"{cut(page.heading)} {cut(page.line)}".strip()]
    left = MOST_CHARACTERS
    for view in page.views:
        part = "\n".join(_lines(view))
        left -= len(part) + len("\n\n")
        if left < 0:
            parts.append("More is not shown here.")
            break
        parts.append(part)
    return "\n\n".join(part for part in parts if part)


def _lines(view: View) -> Iterator[str]:
    if view.title:
        yield cut(view.title)
    if isinstance(view, Grid):
        if view.columns:
            rows = [[f"{cut(cell.text)}{'*' if cell.marked else ''}" for cell in row] for row in view.rows]
            yield from _aligned([list(map(cut, view.columns)), *rows], [name in view.numeric for name in view.columns])
        if view.note:
            yield f"  {view.note}"
    elif isinstance(view, Pairs):
        yield from _aligned([[cut(name), cut(value)] for name, value in view.pairs], [False, False])
    elif isinstance(view, Bars):
        length = [round(_BAR * bar.share) or (1 if bar.share else 0) for bar in view.bars]
        rows = [[cut(bar.name), *map(cut, bar.texts), "#" * n] for bar, n in zip(view.bars, length, strict=True)]
        heads = [["", *map(cut, view.heads), ""]] if any(view.heads) else []
        yield from _aligned([*heads, *rows], [False, *(True for _ in view.heads), False])
    else:
        for node in view.nodes:
            yield from _branch(node, "  ")


def _branch(node: Node, indent: str) -> Iterator[str]:
    text = cut(node.text if node.chosen else f"no {node.text}")
    yield f"{indent}{text}{f': {cut(node.why)}' if node.why else ''}"
    for child in node.below:
        yield from _branch(child, f"{indent}  ")


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            text.rjust(width) if is_right else text.ljust(width) for text, width, is_right in zip(row, widths, right, strict=True)
        )
        yield f"  {'  '.join(cells)}".rstrip()
