"""Writes each batch's results, and records that it did."""
