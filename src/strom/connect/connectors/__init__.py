"""The connectors that come with strom, one folder for each other side; imported when first used."""
