"""Exchange rates, tax and commission: what a payment is worth."""
