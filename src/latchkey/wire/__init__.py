"""Data exchanged between the parts: webhook events, V1 and V2 bodies."""
