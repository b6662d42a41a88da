"""Schemas: types, evolution, column mapping, type widening, identity columns."""
