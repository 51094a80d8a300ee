"""What a broker knows of the schema registry's topic: which schema ids there are."""
