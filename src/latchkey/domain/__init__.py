"""The rules: pure functions over frozen data. No clock, no randomness, no I/O, standard library only."""
