"""GROUP BY and global aggregates."""
