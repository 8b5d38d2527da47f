"""The parts that pyproject.toml cannot name yet: loops in C. Where there is no compiler the same is done in Python."""

from setuptools import Extension, setup

LOOPS = ["log/_native", "serde/_grouping", "state/_apart", "state/_runs"]

setup(
    ext_modules=[
        Extension(f"penstock.{loops.replace('/', '.')}", [f"src/penstock/{loops}.c"], optional=True) for loops in LOOPS
    ]
)
