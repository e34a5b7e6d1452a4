"""One POST to a receiver: address check, signature, timeout, and a readable error."""
