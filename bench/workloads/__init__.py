"""The workloads, one module each. What they are made of is in ``base``, a list of all in ``bench.registry``.

Spark's workers import these modules for the functions of the topologies: they bring in nothing but Penstock.
"""
