"""Metrics: counted in plain integers where the work is done, collected and rendered when scraped."""
