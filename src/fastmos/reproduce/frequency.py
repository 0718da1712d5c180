"""How well a run knows rare words: the NLL of the test text's words by how often the training text has them."""

from typing import Any

import numpy as np
import torch

from fastmos.files import read_lines
from fastmos.inference.run import Run
from fastmos.tasks.decoding import score_lines, score_running_text

EDGES = (1, 10, 100, 1000, 10_000)  # a bucket holds the words that were seen less often than its edge


def by_frequency(run: Run) -> dict[str, Any] | None:
    """For each bucket, the last of which has no edge, how many words it has and the sum of their NLL.

    Ends of lines are no words here. Captions, which have no test text of lines, have no figures.
    """
    if run.config.task == "captioning":
        return None
    dataset = run.task.evaluation_data("test", None, None)
    text, length = dataset.target, run.config.training.bptt_length
    if length:
        nll = score_running_text(run.model, text, length, run.device)
    else:
        nll = np.concatenate(score_lines(run.model, dataset, run.device))
    counts = run.target.pretokenizer.count_words(read_lines(run.task.text("train", "target")))
    lines = list(run.target.pretokenizer.split(list(dataset.references)))
    frequency = np.array([counts[word] for words in lines for word in words], np.int64)
    each = _of_words(run, nll, text.tokens.astype(np.int64), text.offsets)
    assert len(each) == len(frequency), "as many words in tokens as in the text"
    bucket = np.searchsorted(EDGES, frequency, side="right")
    number, total = (np.bincount(bucket, weights, len(EDGES) + 1) for weights in (None, each))
    return {"edges": list(EDGES), "words": number.tolist(), "nll": [round(value, 3) for value in total.tolist()]}


def _of_words(run: Run, nll: Any, tokens: Any, offsets: Any) -> Any:
    """The NLL of each word, that of all its tokens; `nll` has an eos behind each line."""
    ended = np.insert(tokens, offsets[1:], run.target.eos)
    starts = run.target.word_starts(torch.from_numpy(ended)[None])[0].numpy()
    each = np.bincount(starts.cumsum() - 1, nll)
    return each[ended[starts] != run.target.eos]
