"""`python -m website`: write the sources of the site to build/docs and build it in build/site."""

import argparse
import subprocess
import sys
from pathlib import Path

from website import llms, sources

ROOT = Path(__file__).parents[1]
DOCS, SITE = ROOT / "build" / "docs", ROOT / "build" / "site"


def main() -> int:
    """Build the site, or serve it while it is written; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m website", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="serve the site on localhost:8000 (sources are read once)")
    arguments = parser.parse_args()
    sources.write(ROOT, DOCS)
    zensical = [sys.executable, "-m", "zensical", "serve" if arguments.serve else "build"]
    built = subprocess.run([*zensical, "--strict"], cwd=ROOT, check=False).returncode
    if not built and not arguments.serve:
        llms.write(ROOT, DOCS, SITE)
    return built


if __name__ == "__main__":
    sys.exit(main())
