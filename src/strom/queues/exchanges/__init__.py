"""The kinds of exchange, one module each: what is bound, and what a message matches."""
