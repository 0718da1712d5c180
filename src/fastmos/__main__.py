"""`python -m fastmos`; unlike Python's own way it imports nothing from the current folder."""

import os
import sys

if __name__ == "__main__":
    from fastmos.processes import SAFE_PATH, import_path

    sys.path[:] = import_path()
    os.environ[SAFE_PATH] = "1"  # of all processes that this one starts
    from fastmos.cli import main

    main()
