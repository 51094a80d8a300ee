"""The connectors themselves, one folder for each other side."""
