"""Commands that change an app on its checkpoint, or that show what would change."""
