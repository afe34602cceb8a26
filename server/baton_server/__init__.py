"""The Baton server: hosts the loop of agents behind gRPC."""
