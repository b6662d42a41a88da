"""Tables as frames: snapshots, the change data feed, tables by name."""
