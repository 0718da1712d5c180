"""BLEU, ROUGE-L, CIDEr and METEOR of captions by the COCO caption code (Chen et al. 2015) of `pycocoevalcap`.

Its tokenizer and METEOR are Java programs. Here they read and write files, with a time limit: through a pipe, as
`pycocoevalcap` runs it, METEOR hangs on a line break in a caption. Without Java there are no scores.
"""

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastmos.errors import InputError, needs_extra
from fastmos.tokenizers import UNK_TEXT

TOKENIZER = "tokenizer/stanford-corenlp-3.4.1.jar"
METEOR = "meteor/meteor-1.5.jar"
MEMORY = {TOKENIZER: "512m", METEOR: "2g"}  # Java's limit
FAST_START = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]  # both programs run too briefly for optimization
SECONDS = 900.0  # time limit of a Java program
# What the COCO caption code removes from tokenized captions.
PUNCTUATION = {*("''", "'", "``", "`"), "-LRB-", "-RRB-", "-LCB-", "-RCB-", *".?!,:-;", "--", "..."}
UNKNOWN = "unkunkunk"  # a word that no caption has
NAMES = {
    "bleu_1": "BLEU-1",
    "bleu_2": "BLEU-2",
    "bleu_3": "BLEU-3",
    "bleu_4": "BLEU-4",
    "meteor": "METEOR",
    "rouge_l": "ROUGE-L",
    "cider": "CIDEr",
}


@dataclass(frozen=True)
class CaptionScores:
    """The scores of the COCO caption code, from 0 to 1 (CIDEr: to 10); None: unavailable without Java."""

    bleu_1: float | None
    bleu_2: float | None
    bleu_3: float | None
    bleu_4: float | None
    meteor: float | None
    rouge_l: float | None
    cider: float | None
    captions: int
    signature: str
    cider_of_each: list[float] | None = None  # CIDEr of each caption, whose mean is `cider`

    def record(self) -> dict[str, float | int | str | None]:
        """All scores, for JSON."""
        scores = {name: getattr(self, name) for name in NAMES}
        return {**scores, "captions": self.captions, "caption_signature": self.signature}

    def summary(self) -> str:
        """All scores times 100, as in papers."""
        shown = ((label, getattr(self, name)) for name, label in NAMES.items())
        scores = (f"{label} {'unavailable' if value is None else f'{100 * value:.2f}'}" for label, value in shown)
        return f"{', '.join(scores)} ({self.signature})"


def caption_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenized: bool = False,
    meteor: bool = True,
    seconds: float = SECONDS,
) -> CaptionScores:
    """Scores of one caption per image; images may have different numbers of references.

    Captions that are `tokenized` are split at white space; others by the Penn Treebank tokenizer, which lowercases and
    drops punctuation. METEOR takes some seconds to start; `meteor=False` leaves it out.
    """
    _check(hypotheses, references)
    split = _unchanged if tokenized else tokenize_captions
    ours = split([line.replace(UNK_TEXT, UNKNOWN) for line in hypotheses], seconds)  # the tokenizer would split ⟨unk⟩
    theirs = None if ours is None else split([line for lines in references for line in lines], seconds)
    signature = f"pycocoevalcap:{importlib.metadata.version('pycocoevalcap')}|tok:{'none' if tokenized else 'ptb'}"
    if ours is None or theirs is None:
        return CaptionScores(None, None, None, None, None, None, None, len(hypotheses), signature)
    rest = iter(theirs)
    grouped = [[next(rest) for _ in lines] for lines in references]
    (one, two, three, four), rouge, cider, each = _overlap(ours, grouped)
    found = _meteor(ours, grouped, seconds) if meteor else None
    return CaptionScores(one, two, three, four, found, rouge, cider, len(hypotheses), signature, each)


def tokenize_captions(lines: Sequence[str], seconds: float = SECONDS) -> list[str] | None:
    """Words of captions, lowercased, without punctuation, joined by spaces; None, with a warning, if Java fails."""
    with tempfile.TemporaryDirectory() as folder:
        written = _write(Path(folder, "captions"), lines)
        options = ["edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase", "-encoding", "UTF-8"]
        said = _java(TOKENIZER, ["-cp", str(_jar(TOKENIZER)), *options, str(written)], seconds)
    if said is None:
        return None
    found = said.split("\n")[: len(lines)]
    if len(found) != len(lines):
        warnings.warn(f"the tokenizer gave {len(found):,} lines for {len(lines):,} captions", stacklevel=2)
        return None
    return [" ".join(word for word in line.split() if word not in PUNCTUATION) for line in found]


def _unchanged(lines: Sequence[str], seconds: float) -> list[str]:
    return [_one_line(line) for line in lines]


def _overlap(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[list[float], float, float, list[float]]:
    """BLEU-1 to BLEU-4, ROUGE-L and CIDEr of tokenized captions, and CIDEr of each."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    ours = {number: [line] for number, line in enumerate(hypotheses)}
    theirs = {number: list(lines) for number, lines in enumerate(references)}
    bleu, _ = Bleu(4).compute_score(theirs, ours, verbose=0)
    rouge, _ = Rouge().compute_score(theirs, ours)
    cider, each = Cider().compute_score(theirs, ours)
    return [float(value) for value in bleu], float(rouge), float(cider), [float(value) for value in each]


def _meteor(hypotheses: Sequence[str], references: Sequence[Sequence[str]], seconds: float) -> float | None:
    """METEOR 1.5 for English. It needs as many references of each image: the last is repeated (the best counts)."""
    count = max(len(lines) for lines in references)
    filled = [line for lines in references for line in [*lines, *[lines[-1]] * (count - len(lines))]]
    with tempfile.TemporaryDirectory() as folder:
        files = [_write(Path(folder, "test"), hypotheses), _write(Path(folder, "reference"), filled)]
        words = ["-jar", str(_jar(METEOR)), *map(str, files), "-l", "en", "-norm", "-r", str(count)]
        said = _java(METEOR, words, seconds)
    score = re.search(r"^Final score:\s+(\S+)$", said or "", re.MULTILINE)
    return float(score[1]) if score else None


# ---- Java


def _java(jar: str, words: Sequence[str], seconds: float) -> str | None:
    """What a Java program prints; None, with a warning, if it fails."""
    name = Path(jar).name
    java = shutil.which("java")
    if java is None:
        warnings.warn(f"no java on PATH, which {name} needs: its scores are unavailable", stacklevel=3)
        return None
    command = [java, f"-Xmx{MEMORY[jar]}", *FAST_START, "-Dfile.encoding=UTF-8", *words]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        warnings.warn(f"{name} took more than {seconds:g} s: its scores are unavailable", stacklevel=3)
        return None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().split("\n")[-1]
        warnings.warn(f"{name} ended with {done.returncode} ({last}): its scores are unavailable", stacklevel=3)
        return None
    return done.stdout.decode("utf-8", errors="replace")


def _jar(name: str) -> Path:
    package = importlib.util.find_spec("pycocoevalcap")
    assert package is not None and package.submodule_search_locations is not None  # its version was asked before
    return Path(next(iter(package.submodule_search_locations)), name)


def _write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{_one_line(line)}\n" for line in lines), encoding="utf-8")
    return path


def _one_line(caption: str) -> str:
    """White space of any kind, line breaks included, as single spaces."""
    return " ".join(caption.split())


def _check(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    with needs_extra():
        import pycocoevalcap  # noqa: F401 (its Java programs are started)
    if len(hypotheses) != len(references):
        raise InputError(f"{len(hypotheses)} captions, but references of {len(references)} images; give one per image")
    if not hypotheses:
        raise InputError("no captions to score; give at least one")
    for number, lines in enumerate(references, 1):
        if isinstance(lines, str) or not lines:
            raise InputError(f"image {number}: its references must be a list of at least one caption, not {lines!r}")
