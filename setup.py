"""The parts that pyproject.toml cannot name yet: loops in C. Where there is no compiler the same is done in Python."""

from setuptools import Extension, setup

LOOPS = ["_grouping", "_partition_queue", "_record_batches", "_sorted_runs"]
SHARED = ["src/penstock/native/columns.h"]

setup(
    ext_modules=[
        Extension(f"penstock.native.{loop}", [f"src/penstock/native/{loop}.c"], depends=SHARED, optional=True)
        for loop in LOOPS
    ]
)
