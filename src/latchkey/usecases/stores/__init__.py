"""What the stores tell: connected apps, the journal, and taking purchases in."""
