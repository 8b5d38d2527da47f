"""What users say: builder, streams, tables, groups, windows, options. A method checks, makes a node, returns a handle."""
