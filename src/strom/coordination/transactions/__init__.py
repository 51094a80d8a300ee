"""Transactions: producer ids and epochs, the partitions of a transaction, and its result (KIP-98)."""
