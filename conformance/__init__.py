"""The specification as a suite: every statement has a number, and tests that show it from outside.

The tests talk HTTPS to a running Latchkey and start its shipped programs as processes. Nothing is imported from the
service. `make conformance` starts a `latchkey up` in a temporary folder; `make conformance BASE=https://…` tests
another one (`service.py` lists the environment variables). `statements.toml` has the statements, `docs/conformance.md`
the result.
"""
