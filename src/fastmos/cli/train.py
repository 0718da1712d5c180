"""`fastmos train`."""

from argparse import Action, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastmos.cli.arguments import Parser

if TYPE_CHECKING:
    from fastmos.config import Config


def add_arguments(parser: Parser) -> None:
    parser.usage = "fastmos train CONFIG [--folder RUN] [--section.key value ...]"
    parser.settings = _setting_names
    parser.add_argument("config", metavar="CONFIG", help="a YAML file, or the name of a config that comes with fastmos")
    parser.add_argument(
        "--folder", metavar="RUN", type=Path, help="where the run goes; runs/ and the config's name if not given"
    )
    parser.add_argument("-h", "--help", action=_Help, nargs=0, help="show this and every setting with its value")


def run(args: Namespace) -> None:
    """Train as a YAML file says. An interrupted run resumes. Settings on the command line replace those of the file."""
    from fastmos.config import find_config

    config = read(args.config, args.settings)
    path = find_config(args.config)
    # A packaged config names files as if it were in the folder `configs` of the current one.
    base = path.parent if path == Path(args.config) else Path("configs")
    from fastmos import experiment

    experiment.train(config, base, args.folder or Path("runs", path.stem))


def read(name: str, settings: dict[str, str]) -> "Config":
    """The config of a file or of a packaged name, with settings of the command line on top."""
    from fastmos.config import find_config, override, read_config

    return override(read_config(find_config(name)), settings)


def _setting_names() -> list[str]:
    try:
        from fastmos.config import Config, describe
    except ModuleNotFoundError:  # the extra is missing; completion works without
        return []
    return [name for name, _, _ in describe(Config())]


class _Help(Action):
    """The usage, and every setting of the config that was named before, or of the default one."""

    def __call__(self, parser: Any, args: Namespace, values: object, option: str | None = None) -> None:
        from fastmos.config import Config, describe, override

        config = read(args.config, args.settings) if args.config else override(Config(), args.settings)
        print(f"{parser.format_help()}\nsettings, as they are{f' in {args.config}' if args.config else ' by default'}:")
        for name, value, about in describe(config):
            print(f"  --{name} {value if value != '' else repr('')}\n{'':10}{about}")
        parser.exit()
