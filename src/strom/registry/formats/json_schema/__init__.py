"""JSON Schema: drafts 4 to 2020-12, references between documents, and compatibility."""
