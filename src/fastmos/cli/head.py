"""Commands about the output layer: the doctor and the demonstration."""

import sys


def doctor() -> None:
    """Versions, devices and a self-check of the fused loss, ready to paste into a bug report.

    Ends with exit code 1 if the loss is wrong on a device.
    """
    from fastmos.doctor import doctor as examine

    if not examine():
        sys.exit(1)


def demo_head(seed: int = 0) -> None:
    """Fit a task of high rank with one softmax, a mixture of contexts and a mixture of softmaxes; one to two minutes.

    Then the fused loss beside the plain formula: time and memory of a step.
    """
    import torch

    from fastmos.experiments.head_demo import demo

    torch.set_num_threads(1)  # the matrices are small, and one thread gives the same figures everywhere
    demo(seed)
