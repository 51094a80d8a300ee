"""MongoDB: changes of collections in, documents out."""
