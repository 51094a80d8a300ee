"""What is stored of a view: its chain of segments, manifests, versions, definitions and fingerprints."""
