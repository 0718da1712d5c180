"""`fastmos doctor`."""

import sys
from argparse import Namespace

from fastmos.cli.arguments import Arguments


def add_arguments(parser: Arguments) -> None:
    """It has none."""


def run(args: Namespace) -> None:
    """Versions, devices and a self-check of the fused loss, ready to paste into a bug report.

    The exit code is 1 if the loss is wrong on a device.
    """
    from fastmos.doctor import doctor

    if not doctor():
        sys.exit(1)
