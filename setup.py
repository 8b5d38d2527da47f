"""The one part that pyproject.toml cannot name yet: a loop in C. Where there is no compiler the same is done in Python."""

from setuptools import Extension, setup

setup(ext_modules=[Extension("penstock.log._native", ["src/penstock/log/_native.c"], optional=True)])
