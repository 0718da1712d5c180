"""The application: what can be asked at which path, and what is answered."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from fastmos import __version__
from fastmos.errors import InputError
from fastmos.inference.inside import Explanation
from fastmos.inference.run import Output
from fastmos.serve import uploads
from fastmos.serve.batcher import Batcher, Kind
from fastmos.serve.guard import Guard
from fastmos.serve.limits import Limits, Refusal, check_lines
from fastmos.serve.messages import (
    GenerateRequest,
    GenerateResponse,
    HealthResponse,
    ModelsResponse,
    OutputsResponse,
    Problem,
    ScoreRequest,
    ScoreResponse,
    TranslateRequest,
    sentence_about,
)
from fastmos.serve.metrics import Metrics, resident_bytes
from fastmos.serve.models import Answer, Caption, Generate, Score, Served, Translate

PAGES = {  # path -> file and type
    "/": ("index.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    **{f"/{name}": (name, "text/javascript") for name in ("main.js", "api.js", "draw.js", "docs.js")},
    "/page.css": ("page.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
IMAGES = 32  # files in memory that wait to be decoded
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 403, 404, 408, 413, 422, 429, 500, 503)
}


class Gone(Exception):
    """The client has left."""


class Desk:
    """Takes questions to the batcher and answers back, within the limits."""

    def __init__(self, served: Sequence[Served], limits: Limits, metrics: Metrics) -> None:
        self.served = {one.name: one for one in served}
        self.limits, self.metrics = limits, metrics
        self.batcher = Batcher(limits.queue, metrics.batch)
        self.decoder = ThreadPoolExecutor(1, "decoder")  # of images: one at a time, since they are large in memory
        self.decoding = 0

    def find(self, name: str | None, *tasks: str) -> Served:
        """The run of this name, or the only one, which has to be for one of these tasks."""
        fitting = [one for one in self.served.values() if one.task in tasks]
        if name is not None and name not in self.served:
            raise Refusal(404, f"there is no such model; GET /models lists the {len(self.served)} that are served")
        if name is not None and self.served[name] not in fitting:
            raise Refusal(422, f"model '{name}' was trained for {self.served[name].task}; this needs {_either(tasks)}")
        if name is None and len(fitting) != 1:
            what = f"{len(fitting)} models for {_either(tasks)} are served"
            raise Refusal(422 if fitting else 404, f"{what}; {'say which in model' if fitting else 'see GET /models'}")
        return fitting[0] if name is None else self.served[name]

    async def ask(self, request: Request, kind: Kind, items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        """The answer to each item; they leave the queue if the client leaves or time is up."""
        futures = self.batcher.submit(kind, items, sizes)
        answers = asyncio.create_task(_all(futures))
        gone = asyncio.create_task(_until_gone(request))
        both: list[asyncio.Task[Any]] = [answers, gone]
        try:
            await asyncio.wait(both, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if answers.done():
                return answers.result()
            if gone.done():
                self.metrics.left()
                raise Gone
            raise Refusal(503, f"no answer within {self.limits.seconds:g} seconds; send fewer lines or try later")
        finally:
            _cancel(futures)
            answers.cancel()
            gone.cancel()

    async def outputs(
        self, request: Request, model: Served, kind: Kind, items: Sequence[Any], sizes: Sequence[int], scores: bool
    ) -> dict[str, Any]:
        """The outputs for lines or images as a message."""
        answers: list[Answer] = await self.ask(request, kind, items, sizes)
        self.metrics.done(model.name, len(items))
        message: dict[str, Any] = {
            "model": model.name,
            "outputs": [[_output(one, scores) for one in answer.outputs] for answer in answers],
            "cut": [number for number, answer in enumerate(answers, 1) if answer.cut],
        }
        if answers[0].inside is not None:
            message["inside"] = [_explanation(one) for one in answers[0].inside]
        return message

    async def decode(self, model: Served, data: bytes) -> Any:
        """What the model's backbone sees of an image file."""
        if self.decoding >= IMAGES:
            raise Refusal(429, f"{IMAGES} images wait to be decoded; try again in a moment")
        self.decoding += 1
        try:
            work = partial(uploads.square, model, data, self.limits.pixels)
            return await asyncio.get_running_loop().run_in_executor(self.decoder, work)
        finally:
            self.decoding -= 1

    def close(self) -> None:
        self.batcher.close()
        self.decoder.shutdown()

    def beam(self, model: Served, beam_size: int | None, nbest: int) -> int:
        """As `Run.translate` chooses it."""
        size = max(model.run.config.search.beam_size, nbest) if beam_size is None else beam_size
        if nbest > size:
            raise Refusal(422, f"nbest is {nbest} and beam_size {size}; 1 <= nbest <= beam_size is needed")
        return size


def create_app(served: Sequence[Served], limits: Limits, metrics: Metrics) -> FastAPI:
    """The application for these runs; its thread works from startup to shutdown."""
    desk: Desk

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal desk
        desk = Desk(served, limits, metrics)
        yield
        await asyncio.to_thread(desk.close)

    about = "Trained fastmos runs: translation, captions, scores, text. Errors are one sentence, in the field error."
    app = FastAPI(
        title="fastmos",
        version=__version__,
        description=about,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # they would lead to whatever host the client names
        lifespan=lifespan,
    )
    _add_handlers(app, served)

    @app.post("/translate", response_model=OutputsResponse, responses=PROBLEMS, summary="Translate lines")
    async def translate(asked: TranslateRequest, request: Request) -> Response:
        check_lines(asked.lines, limits)
        model = desk.find(asked.model, "translation")
        _check_inside(asked.inside, asked.lines)
        kind = Translate(model, desk.beam(model, asked.beam_size, asked.nbest), asked.nbest, asked.inside)
        return _json(await desk.outputs(request, model, kind, asked.lines, _sizes(asked.lines), asked.scores))

    @app.post(
        "/caption",
        response_model=OutputsResponse,
        responses=PROBLEMS,
        openapi_extra=uploads.OPENAPI,
        summary="Caption an image: a form with the file as image",
    )
    async def caption(request: Request) -> Response:
        asked = await uploads.read_form(request, limits)
        model = desk.find(asked.model, "captioning")
        kind = Caption(model, desk.beam(model, asked.beam_size, asked.nbest), asked.nbest, asked.inside)
        square = await desk.decode(model, asked.image)
        return _json(await desk.outputs(request, model, kind, [square], [0], asked.scores))

    @app.post("/score", response_model=ScoreResponse, responses=PROBLEMS, summary="Log-probabilities of lines")
    async def score(asked: ScoreRequest, request: Request) -> Response:
        sources = asked.sources
        for lines, what in ((asked.targets, "targets"), (sources or [], "sources")):
            check_lines(lines, limits, what)
        model = desk.find(asked.model, "translation", "language-modeling")
        _check_inside(asked.inside, asked.targets)
        if (sources is None) == (model.task == "translation"):
            raise Refusal(422, f"model '{model.name}' {'needs sources' if sources is None else 'has no sources'}")
        if sources is not None and len(sources) != len(asked.targets):
            raise Refusal(422, f"{len(sources)} sources and {len(asked.targets)} targets; give as many of each")
        given: Sequence[str | None] = sources or [None] * len(asked.targets)
        pairs = list(zip(given, asked.targets, strict=True))
        found = await desk.ask(request, Score(model, asked.inside), pairs, _sizes(asked.targets))
        metrics.done(model.name, len(pairs))
        message: dict[str, Any] = {"model": model.name, "log_probs": [_finite(log_prob) for log_prob, _ in found]}
        return _json(message | ({"inside": _explanation(found[0][1])} if asked.inside else {}))

    @app.post("/generate", response_model=GenerateResponse, responses=PROBLEMS, summary="Continue a text")
    async def generate(asked: GenerateRequest, request: Request) -> Response:
        check_lines([asked.prompt], limits, "prompt")
        model = desk.find(asked.model, "language-modeling")
        kind = Generate(model, asked.lines, float(asked.temperature), asked.top_p, asked.seed)
        (found,) = await desk.ask(request, kind, [asked.prompt], [asked.lines])
        metrics.done(model.name, asked.lines)
        return _json({"model": model.name, "outputs": found})

    @app.get("/models", response_model=ModelsResponse, summary="The runs that are served")
    async def models() -> Response:
        return _json({"models": [one.about for one in served]})

    @app.get("/health", response_model=HealthResponse, summary="Are requests answered?")
    async def health() -> Response:
        alive = desk.batcher.alive
        return _json({"status": "ok" if alive else "stopped", "waiting": len(desk.batcher)}, 200 if alive else 503)

    @app.get("/metrics", summary="Counts and times for Prometheus")
    async def show_metrics() -> Response:
        gauges = {
            "fastmos_waiting_items": ("lines and images that wait", float(len(desk.batcher))),
            "process_resident_memory_bytes": ("memory of the process", resident_bytes()),
        }
        return Response(metrics.text(gauges), media_type="text/plain; version=0.0.4")

    _add_pages(app)
    paths = {"/translate", "/caption", "/score", "/generate", "/models", "/health", "/metrics", "/openapi.json", *PAGES}
    app.add_middleware(Guard, limits=limits, metrics=metrics, paths=paths)
    return app


def _add_pages(app: FastAPI) -> None:
    """The files of the page; nothing else is read from disk."""
    folder = files("fastmos.serve") / "page"
    for path, (name, kind) in PAGES.items():
        app.router.add_route(path, _page((folder / name).read_bytes(), kind), methods=["GET"], include_in_schema=False)


def _page(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8")

    return endpoint


def _add_handlers(app: FastAPI, served: Sequence[Served]) -> None:
    """Whatever goes wrong becomes one sentence."""

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> Response:
        return _problem(error.status, error.sentence)

    @app.exception_handler(InputError)
    async def bad_input(request: Request, error: InputError) -> Response:
        sentence = str(error)
        for one in served:
            sentence = sentence.replace(str(one.run.task.folder.root), one.name)
        return _problem(422, sentence)

    @app.exception_handler(Gone)
    async def gone(request: Request, error: Gone) -> Response:
        return Response(status_code=499)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        errors = list(error.errors())
        if errors[0]["type"] == "json_invalid":
            return _problem(400, "the body is not valid JSON; send an object with Content-Type: application/json")
        fields: dict[str, type[BaseModel]] = {
            "/translate": TranslateRequest,
            "/score": ScoreRequest,
            "/generate": GenerateRequest,
        }
        message = fields.get(request.url.path)
        return _problem(422, sentence_about(errors, dict(message.model_fields) if message else {}))

    @app.exception_handler(HTTPException)
    async def refused_by_the_framework(request: Request, error: HTTPException) -> Response:
        sentence = {
            404: "there is nothing at this path; GET /docs lists what there is",
            405: "this path takes another method; GET /docs lists what there is",
        }.get(error.status_code, "the request could not be read; send what GET /docs describes")
        return _problem(error.status_code, sentence, error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return _problem(500, "the server failed at this request, and has written why into its log")


def _problem(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    retry = {"retry-after": "1"} if status in (429, 503) else {}
    return _json({"error": sentence}, status, {**(headers or {}), **retry})


def _json(message: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, status, headers=dict(headers or {}), media_type="application/json")


def _check_inside(inside: bool, lines: Sequence[str]) -> None:
    if inside and len(lines) > 1:
        raise Refusal(422, f"inside is for one line at a time, not {len(lines)}; send them one by one")


def _sizes(lines: Sequence[str]) -> list[int]:
    return [len(line) for line in lines]


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def _output(output: Output, scores: bool) -> dict[str, Any]:
    numbers = {"log_prob": _finite(output.log_prob), "score": _finite(output.score)}
    return {"text": output.text, **(numbers if scores else {})}


def _explanation(found: Explanation) -> dict[str, Any]:
    message = asdict(found)
    for choice in message["choices"]:
        choice["log_prob"] = _finite(choice["log_prob"])
    return message


def _either(tasks: Sequence[str]) -> str:
    return " or ".join(tasks)


async def _all(futures: "Sequence[Future[Any]]") -> list[Any]:
    return [await asyncio.wrap_future(future) for future in futures]


def _cancel(futures: "Sequence[Future[Any]]") -> None:
    for future in futures:
        future.cancel()


async def _until_gone(request: Request) -> None:
    """Wait until the client has left; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
