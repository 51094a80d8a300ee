"""The stored state of a view.

Its chain of segments, manifests, versions, definitions and fingerprints.
"""
