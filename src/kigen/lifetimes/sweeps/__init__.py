"""Work on births and deaths in order of time that operators share: sweeps, searches and cuts."""
