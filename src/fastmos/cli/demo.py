"""`fastmos demo ...`: the whole toolkit, the output layer and captioning, each in a few minutes."""

from argparse import Namespace

from fastmos.cli.arguments import Arguments, add_count, add_path


def add_arguments(parser: Arguments) -> None:
    _add_folder(parser, "out/demo")


def run(args: Namespace) -> None:
    """Train one softmax and a mixture of nine on the embedded sample, compare them, translate; minutes on two cores."""
    from fastmos.demos.translation import demo

    demo(args.folder)


def head_arguments(parser: Arguments) -> None:
    add_count(parser, "--seed", "of the task and the parameters", 0, least=0)


def head(args: Namespace) -> None:
    """Fit a task of high rank with one softmax, a mixture of contexts and a mixture of softmaxes; one to two minutes.

    Then the fused loss beside the plain formula: time and memory of a step.
    """
    import torch

    from fastmos.demos.head import demo

    torch.set_num_threads(1)  # the matrices are small, and one thread gives the same figures everywhere
    demo(args.seed)


def caption_arguments(parser: Arguments) -> None:
    _add_folder(parser, "out/demo-caption")


def caption(args: Namespace) -> None:
    """Learn to caption generated drawings, caption new ones, and make a contact sheet; minutes on two cores."""
    from fastmos.demos.captioning import demo

    demo(args.folder)


def _add_folder(parser: Arguments, default: str) -> None:
    add_path(parser, "--folder", "where everything goes; what is done there is not done again", "FOLDER", default)
