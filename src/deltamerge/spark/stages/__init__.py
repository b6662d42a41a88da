"""The frames of a merge's jobs: scans, joins, changed rows, writes."""
