"""Columns of records: column, batch, provenance, grouping by key, merging; and the signal that a batch must go record by record."""
