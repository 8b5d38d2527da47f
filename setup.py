"""The parts that pyproject.toml cannot name yet: loops in C. Where there is no compiler the same is done in Python.

One build serves every Python from 3.11 on: the loops use the limited interface (``columns.h``, docs/decisions/0058).
"""

from pathlib import Path

from setuptools import Extension, setup

LOOPS = ["_grouping", "_partition_queue", "_record_batches", "_sorted_runs"]
SHARED = ["src/penstock/native/columns.h"]
OLDEST = "cp311"

for built_for_one_version in Path("src/penstock/native").glob("*.cpython-*.so"):
    built_for_one_version.unlink()  # of a checkout before that: Python would load it instead

setup(
    ext_modules=[
        Extension(
            f"penstock.native.{loop}",
            [f"src/penstock/native/{loop}.c"],
            depends=SHARED,
            optional=True,
            py_limited_api=True,
        )
        for loop in LOOPS
    ],
    options={"bdist_wheel": {"py_limited_api": OLDEST}},
)
