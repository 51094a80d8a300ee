"""Groups of every kind, and the offsets that they have committed."""
