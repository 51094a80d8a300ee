"""The schema registry: subjects, versions and compatibility, behind Confluent's REST interface."""
