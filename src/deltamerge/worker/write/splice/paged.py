"""Columns of a row group of which some pages change: those are cut out and read as a small file of their own, and written again.

Columns with the same pages are read and written together.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from deltamerge.budgets import Budgets
from deltamerge.protocol.formats.parquet_file import MAGIC
from deltamerge.protocol.formats.thrift import BINARY, I32, I64, LIST, STRUCT, Items, Struct
from deltamerge.worker.parquet.encode import parquet_writer
from deltamerge.worker.parquet.footer import Chunk, footer_of, get, index_in
from deltamerge.worker.parquet.pages import (
    Header,
    NewPage,
    Page,
    PagedChunk,
    header_of,
    pages_of,
    with_pages,
)
from deltamerge.worker.parquet.places import DATA, DATA_V2, locations, offset_index
from deltamerge.worker.parquet.plain import NotPaged, Whole
from deltamerge.worker.parquet.schema import OPTIONAL, REQUIRED, Node
from deltamerge.worker.write.splice.base import Base, Indexes
from deltamerge.worker.write.splice.dictionary import (
    CODECS,
    dictionary_of,
    extended,
    has_dictionary,
    index_page,
    small_file,
    stored,
)

log = logging.getLogger("deltamerge.worker")

_COPIED_META = (1, 2, 4)
_SPARK = b"org.apache.spark."
_LEAST_BYTES = 16
_USUAL_ROWS = 20_000  # of a page, as Arrow and Parquet's Java library write them


@dataclass(frozen=True)
class PagedColumn:
    """A column of a row group by its pages."""

    name: str
    leaf: int
    node: Node
    chunk: Chunk
    pages: tuple[Page, ...]


@dataclass(frozen=True)
class PagedSet:
    """Columns of a row group that have the same pages, of which those with the numbers `hit` change."""

    number: int
    columns: tuple[PagedColumn, ...]
    hit: tuple[int, ...]

    @property
    def names(self) -> list[str]:
        """The physical names of the columns."""
        return [column.name for column in self.columns]

    @property
    def rows(self) -> np.ndarray[Any, Any]:
        """The rows of the pages that change, by their positions in the row group."""
        pages = self.columns[0].pages
        return np.concatenate([np.arange(pages[n].first, pages[n].first + pages[n].rows) for n in self.hit])

    @property
    def ends(self) -> list[int]:
        """Where among `rows` each of the pages ends."""
        pages = self.columns[0].pages
        return list(accumulate(pages[n].rows for n in self.hit))


def share_of(chunk: Chunk, node: Node, rows: int, changed: np.ndarray[Any, Any]) -> float:
    """About the share of a chunk's rows that are in pages with `changed` ones, which ascend, as far as the footer tells."""
    if not _is_flat(node):
        return 1.0
    counts = [get(known, 3, 0) for known in get(chunk.meta, 13, Items(STRUCT, ())).values if get(known, 1) in (DATA, DATA_V2)]
    pages = max(1, min(rows, sum(counts) or -(-rows // _USUAL_ROWS)))
    firsts = np.searchsorted(changed, -(-np.arange(pages + 1) * rows // pages))
    return int(np.count_nonzero(np.diff(firsts))) / pages


def held_bytes(chunk: Chunk) -> int:
    """About the bytes of a chunk's values in memory."""
    texts = get(get(chunk.meta, 16, {}), 1, 0)
    return int(max(chunk.meta[6][1], texts, _LEAST_BYTES * chunk.values))


def saves(columns: Iterable[tuple[Node, Sequence[Chunk]]], rows: int, changed: np.ndarray[Any, Any], budgets: Budgets) -> bool:
    """Whether few pages of a row group change, about, all of whose columns do; each is given with its chunks."""
    total = rewritten = held = every = 0.0
    for node, chunks in columns:
        share = share_of(chunks[0], node, rows, changed)
        share = 1.0 if share > budgets.page_share else share
        size, in_memory = sum(chunk.end - chunk.start for chunk in chunks), sum(map(held_bytes, chunks))
        total, rewritten = total + size, rewritten + share * size
        every, held = every + in_memory, held + share * in_memory
    is_few = rewritten <= budgets.page_share * total and every - held >= budgets.page_bytes
    # Columns that turn out not to go by pages are in memory as a whole.
    return is_few and held <= 2 * budgets.row_group_bytes and every <= 4 * budgets.row_group_bytes


def _is_flat(node: Node) -> bool:
    return not node.below and node.repetition in (REQUIRED, OPTIONAL)


def paged_column(
    base: Base, indexes: Indexes, number: int, name: str, changed: np.ndarray[Any, Any], share: float
) -> PagedColumn:
    """A column of a row group by its pages, of which those with rows `changed` have about at most a share of the rows.

    Raises NotPaged.
    """
    node = next(node for node in base.columns if node.name == name.encode())
    if not _is_flat(node):
        raise NotPaged(Whole.NESTED)
    leaf = base.leaves_of(name)[0]
    group = base.footer.groups[number]
    chunk = group.chunks[leaf]
    if chunk.meta[4][1] not in CODECS:
        raise NotPaged(Whole.CODEC)
    # Without an offset index a page is found by reading all before it: not where it is for nothing.
    if share_of(chunk, node, group.rows, changed) > share:
        raise NotPaged(Whole.MANY)
    pages = pages_of(chunk, indexes.offsets.get((number, leaf)), group.rows, base.read_at)
    has_dictionary(chunk, pages[0].start)
    return PagedColumn(name, leaf, node, chunk, pages)


def paged_sets(
    columns: Sequence[PagedColumn], number: int, changed: np.ndarray[Any, Any], share: float, least: int
) -> list[PagedSet]:
    """The columns of which pages with at most a share of the rows have rows `changed`, together where they have the same.

    Columns whose other pages have fewer than `least` bytes are left out: to cut them takes as long as to write them whole.
    """
    together: dict[tuple[Any, ...], list[PagedColumn]] = {}
    for column in columns:
        together.setdefault(tuple(page.first for page in column.pages), []).append(column)
    found = []
    for firsts, alike in together.items():
        hit = np.unique(np.searchsorted(firsts, changed, side="right") - 1).tolist()
        pages = alike[0].pages
        part = sum(pages[n].rows for n in hit) / sum(page.rows for page in pages)
        kept = (1 - part) * sum(held_bytes(column.chunk) for column in alike)
        if len(hit) < len(pages) and part <= share and kept >= least:
            found.append(PagedSet(number, tuple(alike), tuple(hit)))
        else:
            names = [column.name for column in alike]
            log.debug("%s are encoded as a whole: %s", names, Whole.FEW if part <= share else Whole.MANY)
    return found


@dataclass(frozen=True)
class Cut:
    """Pages of a set's columns that were cut out: of each column its dictionary page, and the headers of the pages."""

    file: bytes
    dictionaries: Mapping[str, bytes]
    headers: Mapping[str, tuple[Header, ...]]


def cut(base: Base, of: PagedSet) -> Cut:
    """The pages that change, as a small file. Raises NotPaged for a page that is not what it should be."""
    body, metas = bytearray(), []
    dictionaries, headers = {}, {}
    rows = len(of.rows)
    for column in of.columns:
        start = len(MAGIC) + len(body)
        prefix = _between(base, column.chunk.start, column.pages[0].start)
        found = [_between(base, column.pages[n].start, column.pages[n].end) for n in of.hit]
        headers[column.name] = tuple(header_of(page, (DATA, DATA_V2)) for page in found)
        if any(head.values != column.pages[n].rows for head, n in zip(headers[column.name], of.hit, strict=True)):
            raise NotPaged(Whole.PAGES)
        if sum(head.whole for head in headers[column.name]) > column.chunk.meta[6][1]:
            raise NotPaged(Whole.PAGES)
        dictionaries[column.name] = prefix
        body += b"".join((prefix, *found))
        metas.append(_cut_meta(column, start, len(prefix), len(MAGIC) + len(body), rows))
    elements = tuple(column.node.element for column in of.columns)
    root = {**base.footer.schema[0], 5: (I32, len(elements))}
    pairs = tuple(pair for pair in get(base.footer.fields, 5, Items(STRUCT, ())).values if get(pair, 1, b"").startswith(_SPARK))
    others: list[tuple[int, Any]] = [(5, (LIST, Items(STRUCT, pairs)))] if pairs else []
    others += [(6, base.footer.fields[6])] if 6 in base.footer.fields else []
    return Cut(small_file(bytes(body), (root, *elements), metas, rows, tuple(others)), dictionaries, headers)


def _between(base: Base, start: int, end: int) -> bytes:
    return base.read_at(end - start, start) if end > start else b""


def _cut_meta(column: PagedColumn, start: int, prefix: int, end: int, rows: int) -> Struct:
    meta = {id: column.chunk.meta[id] for id in _COPIED_META}
    meta |= {3: (LIST, Items(BINARY, (column.name.encode(),))), 5: (I64, rows), 6: column.chunk.meta[6]}
    meta |= {7: (I64, end - start), 9: (I64, start + prefix)}
    if prefix:
        meta[11] = (I64, start)
    return meta


@dataclass(frozen=True)
class Compact:
    """The new pages of a column that are against its dictionary, None for others, and its new dictionary page, if it has one."""

    pages: tuple[bytes | None, ...]
    dictionary: tuple[Header, bytes] | None = None

    @property
    def is_all(self) -> bool:
        """Whether all pages are against the dictionary."""
        return all(self.pages)


def compact(column: PagedColumn, found: Cut, parts: Sequence[pa.Table]) -> Compact:
    """The pages of a column against its dictionary, where those are that had been so. Raises NotPaged.

    A page is of the same kind as the one whose place it takes: Spark's vectorised reader misreads a chunk in which a plain
    page comes before one against the dictionary.
    """
    headers = found.headers[column.name]
    if not any(header.is_against_dictionary for header in headers):
        return Compact((None,) * len(parts))
    dictionary = dictionary_of(column.chunk, column.node, found.dictionaries[column.name])
    values = [
        stored(part.column(column.name).combine_chunks(), dictionary.kind) if header.is_against_dictionary else None
        for part, header in zip(parts, headers, strict=True)
    ]
    wider, page = extended(dictionary, pa.concat_arrays([part for part in values if part is not None]), column.chunk.values)
    pages = tuple(
        index_page(wider, part, header.encoding) if part is not None and len(part) else None
        for part, header in zip(values, headers, strict=True)
    )
    return Compact(pages, None if page is None else (dictionary.header, page))


def encoded(
    base: Base, indexes: Indexes, of: PagedSet, found: Cut, parts: Sequence[pa.Table], compacts: Mapping[str, Compact]
) -> dict[int, PagedChunk]:
    """The chunks of some columns of a set, by their leaves, with `parts` as the rows of the pages that change."""
    columns = [column for column in of.columns if column.name in compacts]
    plain = _plain(base, columns, compacts, [part for part in parts if part.num_rows])
    chunks = {}
    for column in columns:
        new: dict[int, tuple[Header, Sequence[NewPage]]] = {}
        pages = iter(plain[column.name])
        for at, number in enumerate(of.hit):
            made = next(pages) if parts[at].num_rows else []
            page = compacts[column.name].pages[at]
            if page is not None:
                made = [NewPage(page, parts[at].num_rows)]
            new[number] = found.headers[column.name][at], made
        is_indexed = (of.number, column.leaf) in indexes.offsets
        chunks[column.leaf] = with_pages(column.chunk, column.pages, new, is_indexed, compacts[column.name].dictionary)
    return chunks


def _plain(
    base: Base, columns: Sequence[PagedColumn], compacts: Mapping[str, Compact], parts: Sequence[pa.Table]
) -> dict[str, list[list[NewPage]]]:
    """Of each column the plain pages of each part, as Arrow writes them. What is compact is not compressed, nor used."""
    if not parts:
        return {column.name: [] for column in columns}
    schema = pa.schema([base.schema.field(column.name) for column in columns])
    codecs = {c.name: "none" if compacts[c.name].is_all else CODECS[c.chunk.meta[4][1]].removesuffix("_raw") for c in columns}
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, schema, codecs, []) as writer:
        for part in parts:
            writer.write_table(
                pa.table([part.column(name) for name in schema.names], schema=schema), row_group_size=part.num_rows
            )
    data = sink.getvalue().to_pybytes()
    footer = footer_of(data)
    return {
        column.name: [_pages_in(data, group.chunks[at], group.rows) for group in footer.groups]
        for at, column in enumerate(columns)
    }


def _pages_in(data: bytes, chunk: Chunk, rows: int) -> list[NewPage]:
    """The pages of a chunk that Arrow wrote."""
    index = offset_index(chunk, index_in(data, chunk, 4))
    places = locations(index)
    ends = [*(place[3][1] for place in places[1:]), rows]
    return [NewPage(data[at[1][1] : at[1][1] + at[2][1]], end - at[3][1]) for at, end in zip(places, ends, strict=True)]
