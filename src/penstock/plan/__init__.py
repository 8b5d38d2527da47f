"""Compile a topology for the lanes."""
