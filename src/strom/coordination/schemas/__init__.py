"""The schema ids of the registry's topic, for validation in the broker."""
