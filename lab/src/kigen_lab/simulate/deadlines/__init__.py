"""The deadline paper's workload in virtual time."""
