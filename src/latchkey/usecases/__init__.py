"""Everything Latchkey can do, built on storage and the rules, independent of HTTP."""
