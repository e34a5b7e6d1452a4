"""What one can do with Latchkey, over storage and the rules, without a word of HTTP."""
