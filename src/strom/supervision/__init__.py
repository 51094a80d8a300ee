"""Child processes, retries and locks between processes. Imports only `model`."""
