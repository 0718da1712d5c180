"""What a server takes, and how it says no."""

from dataclasses import dataclass

MAX_BEAM = 32  # hypotheses of a sentence that a client may ask for
MAX_SAMPLES = 16  # lines sampled at once
MAX_IMAGE_MB = 200  # of an image's file; all bodies that arrive together share guard.HELD
MAX_SECONDS = 86_400  # from a request to its answer


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for, and how many may wait."""

    lines: int = 128  # of a request
    characters: int = 2000  # of a line
    image_megabytes: float = 10  # of an image's file
    megapixels: float = 50  # of an image
    queue: int = 1024  # lines and images that wait
    seconds: float = 30  # from a request to its answer

    @property
    def image_bytes(self) -> int:
        return int(self.image_megabytes * 1_000_000)

    @property
    def pixels(self) -> int:
        return int(self.megapixels * 1_000_000)

    def body_bytes(self, path: str) -> int:
        """Of a request to this path, with room for what stands around lines or an image."""
        return 65_536 + (self.image_bytes if path == "/caption" else 4 * self.lines * self.characters)


class Refusal(Exception):
    """A request that is not served: its HTTP status, and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def check_lines(lines: list[str], limits: Limits, what: str = "lines") -> None:
    """Refuse too many lines, and lines that are too long."""
    if len(lines) > limits.lines:
        raise Refusal(413, f"{len(lines):,} {what} are more than {limits.lines:,}; send them in several requests")
    for number, line in enumerate(lines, 1):
        if len(line) > limits.characters:
            raise Refusal(
                413,
                f"item {number} of {what} has {len(line):,} characters, more than {limits.characters:,}; split it",
            )
