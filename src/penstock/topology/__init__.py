"""The graph as data: nodes, the topology, its names and its description."""
