"""A simulated store inside Latchkey: it sells, renews, fails and refunds on demand, and reports like a real one."""
