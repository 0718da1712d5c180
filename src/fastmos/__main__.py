"""`python -m fastmos`; unlike Python's own way it imports nothing from the current folder."""

import sys

if __name__ == "__main__":
    from fastmos.processes import import_path

    sys.path[:] = import_path()
    from fastmos.cli import main

    main()
