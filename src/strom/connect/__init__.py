"""Connect: a runtime for connectors, their contract, and the connectors themselves."""
