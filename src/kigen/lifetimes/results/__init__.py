"""What a query gives: lines with lifetimes, changes, or the newest row of each key."""
