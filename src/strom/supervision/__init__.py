"""Child processes, retries and locks between processes. Stands on `model` alone."""
