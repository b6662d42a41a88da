"""Why a file is written again from its rows, all of them decoded and encoded, where its bytes could have been copied."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """Each says what is the matter with the file, or with what changes in it."""

    OFF = "splicing is switched off"
    SMALL = "the file is put together with other small ones"
    WHOLE = "all of its bytes change"
    VECTOR = "rows of it are deleted by a deletion vector"
    FOOTER = "its footer is not understood"
    ENCRYPTED = "it is encrypted"
    ELSEWHERE = "column chunks of it are in other files"
    COLUMNS = "it has other columns than the table"
    TYPES = "a column is stored in another type than the table's"
    CALENDAR = "it may count days in another calendar"
    ORDERS = "it does not say how its statistics compare values"
    STATISTICS = "what it says of its values contradicts itself"
    INDEXES = "its page indexes or Bloom filters can't be kept"
    PAGES = "its pages are not where its footer says"


class NotSpliceable(Exception):
    """A file whose bytes can't be copied with certainty; it is to be written again from its rows."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        self.reason = reason
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)


class Whole(Enum):
    """Why a column chunk is encoded as a whole, where pages of it could have been copied."""

    NESTED = "it is nested"
    MANY = "many of its pages change"
    FEW = "few bytes of it stay"
    PAGES = "its pages are not understood"
    CODEC = "its pages are compressed in a way that is not written"
    CHECKED = "all of its values have to be checked"
    FILLED = "row ids or commit versions of it are those of the file"
    STATISTICS = "the footer does not say all of its values' statistics"
    BOUNDS = "the smallest or the largest of its values may be gone"
    DICTIONARY = "its dictionary is not understood"
    FULL = "its dictionary can't take more values"


class NotPaged(Exception):
    """A column chunk whose pages can't be copied with certainty, or not with gain; it is to be encoded as a whole."""

    def __init__(self, reason: Whole) -> None:
        self.reason = reason
        super().__init__(reason.value)
