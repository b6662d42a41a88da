"""Binary formats that parts of a table are written in: Thrift, Roaring bitmaps."""
