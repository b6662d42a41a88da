"""Breaks of the copying of pages."""

from __future__ import annotations

from tests.mutants.base import Break

_SPLICE = "worker/write/splice/"
_TESTS = "worker/write/test_page_reasons.py worker/write/test_pages.py"
_AGREEMENT = "worker/parquet/agreement.py"
_SAID_TWICE = "worker/parquet/test_agreement.py"

PAGES = (
    Break(
        "plain pages stand before those against the dictionary",
        _SPLICE + "paged.py",
        "index_page(wider, part, header.encoding) if part is not None and len(part) else None",
        "None",
        _TESTS,
    ),
    Break(
        "values of a dictionary move",
        _SPLICE + "dictionary.py",
        "    body = dictionary.body + _plain(unknown)\n",
        "    body = _plain(unknown) + dictionary.body\n",
        _TESTS,
    ),
    Break(
        "the least value stays when its row is gone",
        _SPLICE + "known.py",
        "    elif gone.bounds is not None and gone.bounds[0] <= low:\n",
        "    elif False:\n",
        _TESTS,
    ),
    Break(
        "the greatest value stays when its row is gone",
        _SPLICE + "known.py",
        "    elif gone.bounds is not None and gone.bounds[1] >= high:\n",
        "    elif False:\n",
        _TESTS,
    ),
    Break(
        "column indexes stay where pages are not aligned",
        "worker/parquet/assembly.py",
        "        if not _are_aligned(group.indexes):\n",
        "        if False:\n",
        _TESTS,
    ),
    Break(
        "row ids of the old file are those of the new one",
        _SPLICE + "group.py",
        "    if name in TRACKED and get(column.chunk.statistics, 3) != 0:\n",
        "    if False:\n",
        _TESTS,
    ),
    Break(
        "a page with other values than its place says is taken",
        _SPLICE + "paged.py",
        "if any(head.values != column.pages[n].rows for head, n",
        "if any(False for head, n",
        _TESTS,
    ),
    Break(
        "an offset index counts no rows that were copied",
        "worker/parquet/pages.py",
        "at + page.end - page.start, row + page.rows, copied + 1",
        "at + page.end - page.start, row, copied + 1",
        _TESTS,
    ),
    Break(
        "columns that threads encode come in the order in which they are done",
        "worker/parquet/encode.py",
        "for part in pool.map(encode, parts)",
        "for part in list(pool.map(encode, parts))[::-1]",
        "worker/parquet/test_encode.py",
    ),
    Break(
        "pages are where they were in the bytes of one thread",
        "worker/parquet/assembly.py",
        "        by = placed.start - chunk.start\n",
        "        by = 0\n",
        "worker/parquet/test_encode.py " + _TESTS,
    ),
    Break(
        "a least value above the greatest is copied",
        _AGREEMENT,
        "low in said and high in said and _is_above(",
        "low in said and high in said and False and _is_above(",
        _SAID_TWICE,
    ),
    Break(
        "bounds of values that are all null are copied",
        _AGREEMENT,
        "    if nulls == chunk.values and any(",
        "    if False and any(",
        _SAID_TWICE,
    ),
    Break(
        "more nulls than values, or fewer than none, are copied",
        _AGREEMENT,
        "    if not 0 <= nulls <= chunk.values or (",
        "    if (",
        _SAID_TWICE,
    ),
    Break(
        "other nulls than the histogram of levels has are copied",
        _AGREEMENT,
        "chunk.values - counts[-1] != nulls",
        "False",
        _SAID_TWICE,
    ),
    Break(
        "other nulls than pages have are copied",
        _AGREEMENT,
        "get(said, 3, told.nulls) != told.nulls",
        "False",
        _SAID_TWICE,
    ),
    Break(
        "other bounds than pages have are copied",
        _AGREEMENT,
        "    if not agrees:\n",
        "    if False:\n",
        _SAID_TWICE,
    ),
    Break(
        "a footer is not compared with the column indexes",
        _SPLICE + "base.py",
        "check_told(chunk, leaves[key[1]], told_by_index(_whole(columns[key])))",
        "_whole(columns[key])",
        _SAID_TWICE,
    ),
    Break(
        "a footer is not compared with the headers of pages",
        _SPLICE + "base.py",
        "check_told(chunk, leaves[key[1]], told_by_headers(walked(chunk, base.read_at)))",
        "told_by_headers(walked(chunk, base.read_at))",
        _SAID_TWICE,
    ),
    Break(
        "NaN is a bound",
        _SPLICE + "known.py",
        "        if has_bounds and any(math.isnan(",
        "        if False and any(math.isnan(",
        _SAID_TWICE,
    ),
)
