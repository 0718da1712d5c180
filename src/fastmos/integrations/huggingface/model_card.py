"""The model card of a saved mixture: how to load it."""

from pathlib import Path
from typing import Any

CARD = """---
library_name: transformers
tags:
- fastmos
---

# {name}

{plain} of transformers with the head "{head}" of fastmos as its output layer. Its `logits` are log-probabilities.

```python
import fastmos.integrations.huggingface  # fastmos with its extra hf; without it transformers does not know "fastmos"
from transformers import {auto}

model = {auto}.from_pretrained("...")  # this repository or folder
```
"""


def write_model_card(folder: Path, model_class: Any) -> None:
    """Write README.md, unless somebody has."""
    path = folder / "README.md"
    if not path.exists():
        names = {"plain": model_class.plain.__name__, "auto": model_class.auto_class.__name__}
        card = CARD.format(name=model_class.__name__, head=model_class.head_type, **names)
        path.write_text(card, encoding="utf-8")
