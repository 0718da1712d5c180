"""`fastmos serve`."""

from argparse import Namespace

from fastmos.cli.arguments import Arguments, add_count, add_flag, add_number, add_paths
from fastmos.errors import InputError, needs_extra
from fastmos.serve.limits import MAX_IMAGE_MB, MAX_SECONDS, Limits


def add_arguments(parser: Arguments) -> None:
    usual = Limits()
    add_paths(parser, "runs", "folders that fastmos train made", "RUN")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, ...; if not given, a GPU if there is one")
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="where to listen (default: 127.0.0.1, for this machine alone)",
    )
    add_count(parser, "--port", "0 for any that is free", 8000, least=0)
    add_flag(parser, "--examples", "offer lines of the test text that each run's config names, to whoever asks")
    add_count(parser, "--max-lines", "most lines of a request", usual.lines)
    add_count(parser, "--max-characters", "most characters of a line", usual.characters)
    add_number(parser, "--max-image-mb", "largest image file, in MB", usual.image_megabytes)
    add_count(parser, "--max-queue", "most lines and images that wait; more get status 429", usual.queue)
    add_number(parser, "--timeout", "seconds from a request to its answer; later it gets status 503", usual.seconds)


def run(args: Namespace) -> None:
    """Serve runs over HTTP, with a page to try them: translations, captions, scores, text."""
    with needs_extra():
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    from fastmos.serve.server import serve

    for option, value, most in (
        ("--max-image-mb", args.max_image_mb, MAX_IMAGE_MB),
        ("--timeout", args.timeout, MAX_SECONDS),
    ):
        if not 0 < value <= most:
            raise InputError(f"{option} is {value:g}; give a positive number up to {most}")
    limits = Limits(
        lines=args.max_lines,
        characters=args.max_characters,
        image_megabytes=args.max_image_mb,
        queue=args.max_queue,
        seconds=args.timeout,
    )
    serve(args.runs, args.host, args.port, args.device, limits, args.examples)
