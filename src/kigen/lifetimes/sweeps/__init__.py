"""Births and deaths in order of time: sweeps, searches and cuts that operators share."""
