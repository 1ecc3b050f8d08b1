"""Values of the richer types in messages: decimals, days, times of day, UUIDs, bytes, lists and structs."""
