"""Share groups: which records of a partition are with whom, as a pure state machine."""
