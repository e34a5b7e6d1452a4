"""What is known of each store, how long a store is waited for, and the store inside Latchkey."""
