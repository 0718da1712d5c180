"""What both contenders share: commands in, measured answers out, one JSON object a line. Needs nothing but Python.

{"do": "train", "steps": 8}     ->  {"seconds": ..., "tokens": ..., "loss": ...}
{"do": "translate", ...}        ->  {"seconds": ..., "lines": ..., "tokens": ...}
"""

import json
import os
import sys
import time
from typing import Any, Protocol


class Contender(Protocol):
    """A toolkit with a model, its optimizer and the data in it."""

    def train(self, steps: int) -> dict[str, float]:
        """Learn from so many batches: target tokens (eos counts, padding does not), and the NLL of each."""
        ...

    def translate(self, beam: int, batch: int, shortest: int, longest: int) -> dict[str, float]:
        """Translate the test lines, without length penalty: how many they are, and how many tokens were written.

        `longest` is the number of decoding steps a sentence may take; the first `shortest` of them cannot end it.
        """
        ...


def serve(contender: Contender) -> None:
    """Answer commands until there are no more; what the toolkit itself prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print("{}", file=answers, flush=True)  # ready
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        work = getattr(contender, command.pop("do"))
        start = time.process_time()  # stands still while another process has the core
        answer = work(**command)
        answer["seconds"] = time.process_time() - start
        print(json.dumps(answer), file=answers, flush=True)
