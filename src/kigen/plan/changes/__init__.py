"""Apps that change: digests of sub-plans, plans as JSON, and what a changed app keeps, drops and adds."""
