"""The parts that pyproject.toml cannot name yet: loops in C. Where there is no compiler the same is done in Python."""

from setuptools import Extension, setup

LOOPS = ["log/_batches", "log/_native", "serde/_grouping", "state/_apart", "state/_runs"]
SHARED = ["src/penstock/log/_columns.h"]

setup(
    ext_modules=[
        Extension(f"penstock.{loops.replace('/', '.')}", [f"src/penstock/{loops}.c"], depends=SHARED, optional=True)
        for loops in LOOPS
    ]
)
