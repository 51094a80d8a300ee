"""The exchange types, one module each: what is bound, and what a message matches."""
