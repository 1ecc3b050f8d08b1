"""Policies that fill one batch from many queries: pack, all, fifo, edf."""
