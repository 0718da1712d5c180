"""Options for whatever head a test is about."""

import inspect
from typing import Any

from fastmos.heads import HEADS


def own(head_type: str, **options: Any) -> dict[str, Any]:
    """Those of the options that this head has."""
    names = inspect.signature(HEADS[head_type]).parameters
    return {name: option for name, option in options.items() if name in names}
