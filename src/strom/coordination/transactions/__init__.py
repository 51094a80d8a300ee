"""Transactions: which producer may write, what belongs together, and how it ended."""
