"""Changes of apps: what an app keeps, drops and adds on an old checkpoint, and how that happens. Needs no Spark."""
