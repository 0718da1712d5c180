"""What clients send and get, as JSON: checked strictly, described in openapi.json."""

import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from fastmos.errors import did_you_mean, lower_first, printable
from fastmos.serve.limits import MAX_BEAM, MAX_SAMPLES


def one_line(text: str) -> str:
    """Refuse what is not a line of text. (A tab is a space of some kind.)"""
    for char in text:
        if char in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
            raise ValueError("has a line break; send each line as an item of its own")
        if unicodedata.category(char) == "Cs":
            raise ValueError("has half of a surrogate pair, which is not text; remove it")
        if unicodedata.category(char) == "Cc" and char != "\t":
            raise ValueError(f"has the control character U+{ord(char):04X}; remove it")
    return text


Line = Annotated[str, AfterValidator(one_line)]
Lines = Annotated[list[Line], Field(min_length=1, description="text, a line each")]
Model = Annotated[
    str | None, Field(description="name of a run; may be left out where only one of those served can answer")
]
BeamSize = Annotated[
    int | None, Field(ge=1, le=MAX_BEAM, description="hypotheses kept; by default as in the run's config")
]
Nbest = Annotated[int, Field(ge=1, le=MAX_BEAM, description="outputs of each line, best first")]
Scores = Annotated[bool, Field(description="give log-probability and score of each output too")]
LogProb = Annotated[float | None, Field(description="null for a token or line that is impossible")]
Inside = Annotated[bool, Field(description="tell, for a single line, how each output came about token by token")]


class Message(BaseModel):
    """Of exactly these fields and types."""

    model_config = ConfigDict(strict=True, extra="forbid", protected_namespaces=())


class TranslateRequest(Message):
    """Lines to translate."""

    model: Model = None
    lines: Lines
    beam_size: BeamSize = None
    nbest: Nbest = 1
    scores: Scores = False
    inside: Inside = False


class ScoreRequest(Message):
    """Lines whose log-probability is asked for, given their sources; a language model has none."""

    model: Model = None
    targets: Lines
    sources: Annotated[list[Line] | None, Field(description="what the targets translate")] = None
    inside: Inside = False


class GenerateRequest(Message):
    """A beginning that a language model continues."""

    model: Model = None
    prompt: Annotated[Line, Field(description="the beginning of the line; may be empty")] = ""
    lines: Annotated[int, Field(ge=1, le=MAX_SAMPLES, description="how many continuations")] = 1
    temperature: Annotated[float, Field(ge=0.01, le=10, allow_inf_nan=False, description="below 1, likelier lines")] = (
        1.0
    )
    top_p: Annotated[float | None, Field(gt=0, le=1, description="draw from the likeliest tokens of this share")] = None
    seed: Annotated[int, Field(ge=0, lt=2**32, description="the same seed gives the same lines")] = 0


class OutputMessage(BaseModel):
    """An output. Scores are there if they were asked for."""

    text: str
    log_prob: float | None = None
    score: float | None = None


class ChoiceMessage(BaseModel):
    """A token of an output, and what the mixture and each of its softmaxes would say in its place."""

    token: str
    ends_word: bool
    log_prob: LogProb
    prior: list[float]
    responsibility: list[float]
    mixture: list[tuple[str, float]]
    softmaxes: list[list[tuple[str, float]]]


class InsideMessage(BaseModel):
    """How an output came about: its tokens, and how much of each source token the model read for each of them."""

    source: list[str]
    choices: list[ChoiceMessage]
    attention: list[list[float]] | None


class OutputsResponse(BaseModel):
    """For each line or image its outputs, best first."""

    model: str
    outputs: list[list[OutputMessage]]
    inside: Annotated[list[InsideMessage] | None, Field(description="of each output of the line or image")] = None
    cut: Annotated[list[int], Field(description="lines, counted from 1, that were too long and were cut")] = []


class ScoreResponse(BaseModel):
    """The log-probability of each target line, its end included."""

    model: str
    log_probs: list[LogProb]
    inside: InsideMessage | None = None


class GenerateResponse(BaseModel):
    """Continuations of the prompt."""

    model: str
    outputs: list[str]


class ModelMessage(BaseModel):
    """A run that is served."""

    name: str
    task: str
    body: str
    head: str
    mixtures: int
    vocab_size: int
    parameters: int
    beam_size: int
    max_length: int
    tokenized: Annotated[bool, Field(description="is the text words between spaces?")]
    lowercase: bool
    examples: list[str]


class ModelsResponse(BaseModel):
    """The runs that are served."""

    models: list[ModelMessage]


class HealthResponse(BaseModel):
    """Whether requests are answered, and how many lines wait."""

    status: str
    waiting: int


class Problem(BaseModel):
    """Why a request was not served, in one sentence."""

    error: str


def sentence_about(errors: list[Any], known: dict[str, Any]) -> str:
    """What is wrong with a request, from what pydantic found first; `known` are the fields it could have."""
    error = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    where = [part for part in error["loc"] if part not in ("body", "query")]
    name = printable(".".join(map(str, where)))[:80]
    if error["type"] == "missing":
        return f"'{name}' is missing" if name else "the request has no body; send a JSON object"
    if error["type"] == "extra_forbidden":
        return f"there is no field '{name}'{did_you_mean(name, known, 'GET /docs lists the fields')}"
    if error["type"] == "string_unicode" and not where:
        return "the name of a field is not text; GET /docs lists the fields"
    said = lower_first(str(error["msg"]).removeprefix("Value error, "))
    if not where or error["type"] == "model_attributes_type":
        return "the body is not a JSON object; send one with Content-Type: application/json"
    return f"{_place(where)}: {said}"


def _place(where: list[Any]) -> str:
    """lines.0 -> item 1 of lines."""
    if len(where) > 1 and isinstance(where[1], int):
        return f"item {where[1] + 1} of {printable(str(where[0]))[:80]}"
    return printable(str(where[0]))[:80]
