"""Queries: what the stores of an application hold at a committed barrier."""
