"""How large pages are taken to be once they are decoded."""

from __future__ import annotations

import pytest

from deltamerge.protocol.formats import decoded_size
from deltamerge.protocol.formats.thrift import I32, STRUCT, Struct

DICTIONARY, DATA = 2, 0


@pytest.mark.parametrize(("kind", "field"), [(DICTIONARY, 7), (DATA, 5)])
@pytest.mark.parametrize(("claimed", "stored", "size"), [(0, 1_000_000, 1_000_000), (90, 20, 90)])
def test_a_page_is_as_large_as_it_claims_or_as_it_is(kind: int, field: int, claimed: int, stored: int, size: int) -> None:
    """Arrow does not look at the claim of a page that is not compressed."""
    inner: Struct = {1: (I32, 3), 2: (I32, 0)}
    header: Struct = {1: (I32, kind), 2: (I32, claimed), 3: (I32, stored), field: (STRUCT, inner)}
    assert decoded_size._page(header).size == size
