"""How apps are connected to their stores, the journal of what the stores sent, and what they can be asked about."""
