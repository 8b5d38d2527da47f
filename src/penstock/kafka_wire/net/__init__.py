"""Connections to the brokers of a cluster: sockets, TLS, SASL, and how long to wait."""
