"""The processes of other toolkits: what they are asked, and how they fail."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fastmos.bench import models, peers
from fastmos.errors import InputError

SMALL = models.Sizes(vocab_size=60, hidden_size=16)
STUB = """
import json, sys
print("{}", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "batches" not in asked:
        print(json.dumps({"log_probs": [-float(len(one)) for one in asked["sources"] + asked["targets"]]}), flush=True)
    elif asked["batches"] == [[[2]]]:
        sys.exit("no sentence here")
    else:
        print(json.dumps({"seconds": sum(len(line) for batch in asked["batches"] for line in batch)}), flush=True)
"""


def test_sources_end_in_eos_and_a_peer_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stub.py").write_text(STUB)
    monkeypatch.setattr(peers, "SCRIPT", tmp_path / "stub.py")
    peer = peers.Peer(Path(sys.executable), "CTranslate2", tmp_path)
    assert peer.search([[[5, 6], [7]], [[8]]]) == 7.0  # with an eos each
    assert peer.score([[5, 6]], [[9]]) == [-3.0, -1.0]
    with pytest.raises(InputError, match="ended early; it said:\nno sentence here"):
        peer.search([[[]]])
    peer.close()


def test_the_weights_and_the_work_are_written() -> None:
    model = models.build("Transformer", models.SOFTMAX, SMALL)
    with peers.prepare(model, steps=7, beam_size=5) as folder:
        weights = dict(np.load(folder / "weights.npz"))
        work = json.loads((folder / "work.json").read_text())
    assert set(weights) == set(model.state_dict())
    assert all(torch.equal(torch.from_numpy(weights[name]), given) for name, given in model.state_dict().items())
    sizes = {"vocab_size": 60, "hidden_size": 16, "ffn_size": 64, "num_heads": 4, "num_layers": 3}
    assert work == {**sizes, "steps": 7, "beam_size": 5}
    assert not folder.exists()


def test_an_environment_without_them_is_refused(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to("/bin/false")
    assert peers.peer_python(tmp_path) == python  # it is there, so it is not made
    with pytest.raises(InputError, match="lacks some of ctranslate2, transformers, torch; remove the folder"):
        peers.versions(python)
