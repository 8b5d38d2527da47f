"""Conformance: one JVM with the real Kafka Streams per process; without it these tests fail, they never skip."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # `import oracle`, `import compare` from any test below this folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder runs the oracle."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.oracle)


@pytest.fixture(scope="session", autouse=True)
def jvm() -> None:
    """Start the JVM; say clearly what is missing if it does not start."""
    try:
        import oracle

        oracle.start()
    except Exception as error:
        pytest.fail(f"the oracle (the real Kafka Streams in this process) did not start: {error}", pytrace=False)
