"""Bytes by name: list, read, and put-if-absent, on local disks and object stores.

Knows names and bytes; must not know what a Delta table is.
"""

from deltamerge.storage.base import AlreadyExists, Listing, NotFound, ObjectInfo, ObjectTooLarge, Store, StoreSpec
from deltamerge.storage.open import locate, open_store

__all__ = ["AlreadyExists", "Listing", "NotFound", "ObjectInfo", "ObjectTooLarge", "Store", "StoreSpec", "locate", "open_store"]
