"""The connectors that come with strom; each kind is imported when it is first used."""
