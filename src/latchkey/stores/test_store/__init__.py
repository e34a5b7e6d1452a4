"""A store that lives inside Latchkey: it sells, renews, fails and refunds on demand, and tells of it like any other."""
