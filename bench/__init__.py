"""Benchmarks, as ratios to a bare ceiling measured next to them. Responses are checked before they are timed."""
