"""How fast it is, as ratios to a bare ceiling measured beside it. Answers are checked before they are timed."""
