"""Rounds of random trouble, one after the other, until the time is over: `make campaign HOURS=2` (docs/reliability.md).

A round is `run(folder, seed, seconds, figures)` of one module: it does what the seed says for so long, counts in
`figures` what it did, also when it fails, and raises if something is wrong afterwards. `make chaos WHAT=… SEED=…` is
one round, and what the campaign starts for each.
"""
