"""Keys of rows: 64-bit row keys, the table that maps them to slots, and groups."""
