"""The Agents SDK's extensions that there are here, in the modules where it has them."""
