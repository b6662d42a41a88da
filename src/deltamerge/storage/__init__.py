"""Bytes by name: list, read, and put-if-absent, on local disks and object stores.

Knows names and bytes; must not know what a Delta table is.
"""

from deltamerge.storage.base import (
    UNSYNCED,
    AlreadyExists,
    Listing,
    NotFound,
    ObjectInfo,
    ObjectTooLarge,
    Store,
    StoreSpec,
    not_synced,
)
from deltamerge.storage.open import locate, open_store

__all__ = [
    "UNSYNCED",
    "AlreadyExists",
    "Listing",
    "NotFound",
    "ObjectInfo",
    "ObjectTooLarge",
    "Store",
    "StoreSpec",
    "locate",
    "not_synced",
    "open_store",
]
