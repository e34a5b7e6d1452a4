"""Builds a release in dist/ (`make dist`): wheel, source distribution, bill of materials, provenance."""
