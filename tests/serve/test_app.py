"""The application: every client gets what the run gives for its lines alone, or a status and one sentence."""

import gc
import io
import json
import random
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fastmos.serve import app as app_module
from fastmos.serve import guard
from fastmos.serve import server as server_module
from fastmos.serve.app import PAGES
from fastmos.serve.limits import Limits
from fastmos.serve.models import Served, Translate, load_served
from tests.serve.running import Answered, Running

choose = random.Random(0)
LINES = ["", *(" ".join(choose.choices("0123456789", k=choose.randint(1, 9))) for _ in range(63))]


def picture(side: int = 40, seed: int = 0) -> bytes:
    pixels = random.Random(seed).randbytes(3 * side * side)
    file = io.BytesIO()
    Image.frombytes("RGB", (side, side), pixels).save(file, "PNG")
    return file.getvalue()


def run_of(served: Sequence[Served], name: str) -> Any:
    return next(one.run for one in served if one.name == name)


# ---- answers


def test_requests_that_arrive_together_are_answered_each_for_itself(server: Running, served: list[Served]) -> None:
    run = run_of(served, "mixture")
    alone = [run.translate([line], nbest=2)[0] for line in LINES]

    def ask(line: str) -> Answered:
        return server.post("/translate", {"model": "mixture", "lines": [line], "nbest": 2, "scores": True})

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(ask, LINES))
    for expected, answer in zip(alone, answers, strict=True):
        assert answer.status == 200, answer.message
        assert answer.message["model"] == "mixture" and "inside" not in answer.message
        (outputs,) = answer.message["outputs"]
        assert [output["text"] for output in outputs] == [output.text for output in expected]
        for output, one in zip(outputs, expected, strict=True):
            assert output["log_prob"] == pytest.approx(one.log_prob, abs=1e-4)
            assert output["score"] == pytest.approx(one.score, abs=1e-4)
    sizes = re.findall(r'fastmos_batch_items_bucket{le="1"} (\d+)', server.metrics.text({}))
    total = re.findall(r"fastmos_batch_items_count{} (\d+)", server.metrics.text({}))
    assert int(sizes[0]) < int(total[0])  # some were worked on together


def test_many_lines_of_one_request_keep_their_order(server: Running, served: list[Served]) -> None:
    for name in ("mixture", "softmax"):
        answer = server.post("/translate", {"model": name, "lines": LINES, "beam_size": 3})
        assert answer.status == 200
        found = [outputs[0] for outputs in answer.message["outputs"]]
        assert found == [{"text": text} for text in run_of(served, name).translate(LINES, beam_size=3)]


@pytest.mark.filterwarnings("ignore:.* lines were cut")
def test_lines_that_are_cut_are_named(server: Running, served: list[Served]) -> None:
    lines = ["1 2", "7 " * 13, "3", "8 " * 20]
    answer = server.post("/translate", {"model": "mixture", "lines": lines})
    assert answer.message["cut"] == [2, 4]
    assert [one[0]["text"] for one in answer.message["outputs"]] == run_of(served, "mixture").translate(lines)


def test_inside_tells_how_each_output_came_about(server: Running) -> None:
    asked = {"model": "mixture", "lines": ["3 1 2"], "nbest": 2, "inside": True, "scores": True}
    answer = server.post("/translate", asked).message
    assert len(answer["inside"]) == len(answer["outputs"][0]) == 2
    for output, inside in zip(answer["outputs"][0], answer["inside"], strict=True):
        assert [choice["token"] for choice in inside["choices"]] == [*output["text"].split(), "⟨eos⟩"]
        assert inside["source"] == ["3", "1", "2", "⟨eos⟩"]
        assert len(inside["attention"]) == len(inside["choices"])
        assert sum(choice["log_prob"] for choice in inside["choices"]) == pytest.approx(output["log_prob"], abs=1e-3)
        assert all(len(choice["softmaxes"]) == 2 for choice in inside["choices"])


def test_scores_are_those_of_the_run(server: Running, served: list[Served]) -> None:
    targets = ["1 2 3", "", "5 6"]
    answer = server.post("/score", {"model": "softmax", "sources": LINES[:3], "targets": targets})
    assert answer.message["log_probs"] == pytest.approx(run_of(served, "softmax").score(LINES[:3], targets), abs=1e-4)
    answer = server.post("/score", {"model": "lm", "targets": targets})
    assert answer.message["log_probs"] == pytest.approx(run_of(served, "lm").score(None, targets), abs=1e-4)
    answer = server.post("/score", {"model": "lm", "targets": ["1 2"], "inside": True})
    assert [choice["token"] for choice in answer.message["inside"]["choices"]] == ["1", "2", "⟨eos⟩"]


def test_text_is_continued(server: Running, served: list[Served]) -> None:
    asked = {"prompt": "1 2", "lines": 3, "temperature": 0.7, "top_p": 0.9, "seed": 5}  # the one language model
    expected = run_of(served, "lm").sample(3, temperature=0.7, top_p=0.9, seed=5, prompt="1 2")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: server.post("/generate", asked), range(4)))
    assert all(answer.message == {"model": "lm", "outputs": expected} for answer in answers)


def test_images_that_arrive_together_are_captioned_each_for_itself(server: Running, served: list[Served]) -> None:
    run = run_of(served, "captioner")
    images = [picture(40, seed) for seed in range(8)]
    expected = [run.caption([Image.open(io.BytesIO(data))], nbest=2)[0] for data in images]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda data: server.upload(data, {"nbest": "2", "scores": "true"}), images))
    for answer, best in zip(answers, expected, strict=True):
        assert answer.status == 200, answer.message
        (outputs,) = answer.message["outputs"]
        assert [output["text"] for output in outputs] == [one.text for one in best]
        assert [output["score"] for output in outputs] == pytest.approx([one.score for one in best], abs=1e-4)
    inside = server.upload(images[0], {"inside": "true"}).message["inside"]
    assert len(inside) == 1 and inside[0]["source"] == [] and inside[0]["attention"] is None


def test_models_and_health(server: Running, folders: list[Path]) -> None:
    models = server.get("/models").message["models"]
    assert [model["name"] for model in models] == [folder.name for folder in folders]
    assert [model["task"] for model in models] == ["translation", "translation", "language-modeling", "captioning"]
    mixture = models[0]
    assert (mixture["head"], mixture["mixtures"], mixture["beam_size"], mixture["max_length"]) == ("mos", 2, 2, 12)
    assert server.get("/health").message == {"status": "ok", "waiting": 0}


def test_runs_of_the_same_name_are_told_apart(folders: list[Path], tmp_path: Path) -> None:
    found = load_served([folders[0], folders[0], Path(f"{folders[0]}/../lm/")], "cpu")
    assert [one.name for one in found] == ["mixture", "mixture-2", "lm"]
    assert all("searched" in vars(one.run) for one in found)  # packed already, so that no request waits for it


def test_no_line_of_a_file_is_shown_unless_examples_are_asked_for(
    folders: list[Path], server: Running, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a line of another file\n")
    for folder, side in ((folders[0], "source"), (folders[2], "target")):
        shutil.copytree(folder, tmp_path / folder.name)
        file = tmp_path / folder.name / "config.yaml"
        config = yaml.safe_load(file.read_text())
        config["data"]["test"][side] = str(secret)
        file.write_text(yaml.safe_dump(config))
    strange = [tmp_path / folders[0].name, tmp_path / folders[2].name]
    with Running(load_served(strange, "cpu"), Limits()) as closed:
        answer = closed.get("/models")
    assert answer.status == 200 and [model["examples"] for model in answer.message["models"]] == [[], []]
    named = load_served(strange, "cpu", examples=True)
    assert [one.about["examples"] for one in named] == [["a line of another file"]] * 2
    assert [bool(model["examples"]) for model in server.get("/models").message["models"]] == [True, True, True, False]


# ---- requests that are refused

JSON = {"content-type": "application/json"}
REFUSED: list[tuple[str, Any, int, str]] = [
    ("/translate", b"{", 400, "the body is not valid JSON"),
    ("/translate", b"", 422, "the body|the request has no body"),
    ("/translate", b"\xff\xfe", 400, "could not be read|not valid JSON"),
    ("/translate", b"[" * 50_000, 400, "could not be read|not valid JSON"),
    ("/translate", b'{"lines": [' + b"9" * 5000 + b"]}", 400, "could not be read|not valid JSON"),
    ("/translate", [1], 422, "the body is not a JSON object"),
    ("/translate", "text", 422, "the body is not a JSON object"),
    ("/translate", {}, 422, "^'lines' is missing$"),
    ("/translate", {"lines": "3 1"}, 422, "^lines: input should be a valid list$"),
    ("/translate", {"lines": []}, 422, "^lines: list should have at least 1 item"),
    ("/translate", {"lines": [3]}, 422, "^item 1 of lines: input should be a valid string$"),
    ("/translate", {"lines": ["3", None]}, 422, "^item 2 of lines: input should be a valid string$"),
    ("/translate", {"lines": ["3", "a\0b"]}, 422, r"^item 2 of lines: has the control character U\+0000; remove it$"),
    ("/translate", {"lines": ["\x1b[2J"]}, 422, r"control character U\+001B"),
    ("/translate", {"lines": ["a\nb"]}, 422, "^item 1 of lines: has a line break; send each line as an item"),
    ("/translate", {"lines": ["a\u2028b"]}, 422, "has a line break"),
    ("/translate", {"lines": ["\ud800"]}, 422, "has half of a surrogate pair, which is not text; remove it$"),
    ("/translate", {"liens": ["3"]}, 422, "^there is no field 'liens'; did you mean 'lines'\\?$"),
    ("/translate", {"lines": ["3"], "\ud800": 1}, 422, "^the name of a field is not text; GET /docs lists the fields$"),
    ("/translate", {"lines": ["3"], "beam_size": "5"}, 422, "^beam_size: input should be a valid integer$"),
    ("/translate", {"lines": ["3"], "beam_size": 5.5}, 422, "^beam_size: "),
    ("/translate", {"lines": ["3"], "beam_size": 0}, 422, "^beam_size: input should be greater than or equal to 1$"),
    ("/translate", {"lines": ["3"], "beam_size": 10**30}, 422, "^beam_size: input should be less than or equal to 32$"),
    ("/translate", {"lines": ["3"], "nbest": True}, 422, "^nbest: input should be a valid integer$"),
    ("/translate", {"lines": ["3"], "scores": 1}, 422, "^scores: input should be a valid boolean$"),
    (
        "/translate",
        {"lines": ["3"], "model": "softmax", "nbest": 3, "beam_size": 2},
        422,
        "^nbest is 3 and beam_size 2",
    ),
    ("/translate", {"lines": ["3"]}, 422, "^2 models for translation are served; say which in model$"),
    ("/translate", {"lines": ["3"], "model": "nix"}, 404, "^there is no such model; GET /models lists the 4"),
    ("/translate", {"lines": ["3"], "model": "lm"}, 422, "^model 'lm' was trained for language-modeling; this needs"),
    ("/translate", {"lines": ["1", "2"], "model": "softmax", "inside": True}, 422, "^inside is for one line at a time"),
    ("/translate", {"lines": ["3"] * 129}, 413, "^129 lines are more than 128; send them in several requests$"),
    ("/translate", {"lines": ["3", "3" * 2001]}, 413, "^item 2 of lines has 2,001 characters, more than 2,000; split"),
    ("/translate", b" " * 1_200_000, 413, "^the body of the request is larger than [0-9,]+ bytes; send less at once$"),
    ("/score", {"targets": ["1"], "model": "softmax"}, 422, "^model 'softmax' needs sources$"),
    ("/score", {"targets": ["1"], "sources": ["1"], "model": "lm"}, 422, "^model 'lm' has no sources$"),
    ("/score", {"targets": ["1"], "sources": [], "model": "softmax"}, 422, "^0 sources and 1 targets; give as many"),
    ("/generate", {"temperature": 0}, 422, "^temperature: input should be greater than or equal to 0.01$"),
    ("/generate", b'{"temperature": NaN}', 422, "^temperature: "),
    ("/generate", b'{"temperature": 1e999}', 422, "^temperature: "),
    ("/generate", {"top_p": 1.5}, 422, "^top_p: "),
    ("/generate", {"seed": -1}, 422, "^seed: "),
    ("/generate", {"lines": 17}, 422, "^lines: input should be less than or equal to 16$"),
    ("/generate", {"prompt": "a\tb\rc"}, 422, "^prompt: has a line break"),
    ("/caption", {"image": "x"}, 422, r"^send a form \(multipart/form-data\) with the file as image$"),
    ("/nowhere", {}, 404, "^there is nothing at this path; GET /docs lists what there is$"),
    ("/translate/", {"lines": ["3"]}, 404, "^there is nothing at this path"),
    ("/models/", {}, 404, "^there is nothing at this path"),
    ("/models", {}, 405, "^this path takes another method; GET /docs lists what there is$"),
]


@pytest.mark.parametrize(("path", "body", "status", "said"), REFUSED)
def test_bad_requests_get_a_sentence(path: str, body: Any, status: int, said: str, server: Running) -> None:
    answer = server.send("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), JSON)
    assert answer.status == status, answer.message
    assert list(answer.message) == ["error"]
    assert re.search(said, answer.message["error"]), answer.message
    assert "\n" not in answer.message["error"]
    assert server.get("/health").message["status"] == "ok"


FORMS: list[tuple[bytes, dict[str, str], str, int, str]] = [
    (b"not an image", {}, "image", 422, "^image: not an image, or of another format than JPEG"),
    (picture()[:200], {}, "image", 422, "^image: damaged or incomplete image"),
    (b"", {}, "image", 422, "^image: not an image"),
    (picture(), {}, "file", 422, "^there is no field 'file'|^'image' is missing"),
    (picture(), {"nbest": "many"}, "image", 422, "^nbest: input should be a valid integer"),
    (picture(), {"nbest": "0"}, "image", 422, "^nbest: "),
    (picture(), {"colour": "red"}, "image", 422, "^there is no field 'colour'"),
    (picture(), {"model": "lm"}, "image", 422, "^model 'lm' was trained for language-modeling; this needs captioning$"),
    (picture(), {"model": "x" * 5000}, "image", 400, "^the form is damaged"),
    (b"x" * 10_000_001, {}, "image", 413, "^the image has 10,000,001 bytes, more than 10,000,000; make it smaller$"),
]


@pytest.mark.parametrize(("data", "fields", "name", "status", "said"), FORMS)
def test_bad_images_get_a_sentence(
    data: bytes, fields: dict[str, str], name: str, status: int, said: str, server: Running
) -> None:
    answer = server.upload(data, fields, name)
    assert answer.status == status, answer.message
    assert re.search(said, answer.message["error"]), answer.message
    assert "secret" not in answer.message["error"]  # the name of the client's file


@pytest.mark.parametrize(
    "kind", ["multipart/form-data", "multipart/form-data; boundary=x", "multipart/form-data; boundary="]
)
@pytest.mark.parametrize(
    "body", [b"", b"--x", b"--x--", b"--x\r\n\r\n", b"\0" * 100, b"--x\r\nContent-Disposition: x\r\n\r\n1"]
)
def test_damaged_forms_get_a_sentence(kind: str, body: bytes, server: Running) -> None:
    answer = server.send("POST", "/caption", body, {"content-type": kind})
    assert answer.status in (400, 422) and list(answer.message) == ["error"]


def test_a_large_image_is_refused_before_it_is_decoded(served: list[Served], small_limits: Limits) -> None:
    with Running(served, small_limits) as server:
        file = io.BytesIO()
        Image.new("L", (600, 600)).save(file, "PNG")
        answer = server.upload(file.getvalue())
        assert (answer.status, answer.message["error"]) == (
            422,
            "image: 600 x 600 pixels are more than 20,000; make it smaller",
        )
        assert server.upload(picture(90)).status == 413  # 24 kB


def test_images_that_wait_to_be_decoded_are_few(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, real = threading.Event(), Served.square

    def square(model: Served, image: Any) -> Any:
        gate.wait(30)
        return real(model, image)

    monkeypatch.setattr(Served, "square", square)
    monkeypatch.setattr(app_module, "IMAGES", 2)
    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(server.upload, picture(40, seed)) for seed in range(5)]
        until(lambda: sum(one.done() for one in asked) == 3)
        gate.set()
        statuses = sorted(one.result().status for one in asked)
    assert statuses == [200, 200, 429, 429, 429]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(["model", "lines", "nbest", "beam_size", "scores", "inside", "targets", "sources", "prompt"])


@settings(max_examples=150)
@given(
    st.sampled_from(["/translate", "/score", "/generate", "/caption"]),
    st.dictionaries(fields, json_values, max_size=5) | json_values,
    st.sampled_from(["softmax", "lm", None]),
)
def test_no_request_is_too_strange(server: Running, path: str, message: Any, model: str | None) -> None:
    if isinstance(message, dict) and model is not None:
        message = {"model": model, "lines": ["1"], **message}
    answer = server.post(path, message)
    assert answer.status in (200, 400, 404, 413, 422)
    assert answer.status == 200 or (list(answer.message) == ["error"] and answer.message["error"])


def test_no_answer_names_a_path_of_the_server(server: Running, folders: list[Path]) -> None:
    answers = [server.get(path) for path in ("/models", "/health", "/metrics", "/openapi.json", *PAGES)]
    answers += [
        server.send("POST", path, json.dumps(b.decode("latin1") if isinstance(b, bytes) else b).encode(), JSON)
        for path, b, *_ in REFUSED
    ]
    answers.append(server.post("/translate", {"model": "mixture", "lines": ["3 1"], "inside": True}))
    for answer in answers:
        shown = json.dumps(answer.message) + json.dumps(dict(answer.headers))
        assert not any(str(part) in shown for folder in folders for part in (folder, folder.parent))
        assert "site-packages" not in shown and "Traceback" not in shown and str(Path.home()) not in shown


def test_nothing_is_written_to_disk(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a temporary file")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", never)
    data = picture(1200)
    assert len(data) > 3_000_000
    assert server.upload(data).status == 200


# ---- limits, and clients that misbehave


class Slow:
    """Stands in for a run's translate: waits at a gate, and cannot do the line `bad`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate, self.seen = threading.Event(), []  # type: ignore[var-annotated]
        real = Translate.answer

        def answer(kind: Translate, lines: Sequence[str]) -> Any:
            self.seen.append(list(lines))
            self.gate.wait(30)
            if "bad" in lines:
                raise RuntimeError("a secret about /etc/passwd")
            return real(kind, lines)

        monkeypatch.setattr(Translate, "answer", answer)


def later(server: Running, lines: list[str]) -> tuple[threading.Thread, list[Answered]]:
    """A request that is sent now; its answer is in the list when the thread has ended."""
    found: list[Answered] = []
    asked = {"model": "mixture", "lines": lines}
    thread = threading.Thread(target=lambda: found.append(server.post("/translate", asked)))
    thread.start()
    return thread, found


def until(condition: Any) -> None:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < 20, "never came true"
        time.sleep(0.005)


def test_a_full_queue_is_said_and_a_client_that_leaves_frees_its_place(
    served: list[Served], small_limits: Limits, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow(monkeypatch)
    with Running(served, replace(small_limits, seconds=30.0)) as server:

        def waiting() -> int:
            return int(server.get("/health").message["waiting"])

        first, _ = later(server, ["1"])
        until(lambda: slow.seen)
        second, answers = later(server, ["2", "3", "4"])
        until(lambda: waiting() == 3)
        body = json.dumps({"model": "mixture", "lines": ["5", "6", "7"]}).encode()
        head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port)) as leaving:
            leaving.sendall(head.encode() + body)
            until(lambda: waiting() == 6)
            refused = server.post("/translate", {"model": "mixture", "lines": ["8"]})
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert refused.message == {"error": "6 lines wait already; try again in a moment"}
        until(lambda: waiting() == 3)
        last, late = later(server, ["8", "9"])
        until(lambda: waiting() == 5)
        slow.gate.set()
        for thread in (first, second, last):
            thread.join(30)
        assert (answers[0].status, late[0].status) == (200, 200)
        assert not {"5", "6", "7"} & set(chain.from_iterable(slow.seen))  # nobody worked for who had left
        assert "fastmos_clients_left_total 1" in server.get("/metrics").message
    gc.collect()  # what asyncio complains of, it complains of then
    assert [record.getMessage() for record in caplog.records] == []


def test_time_is_limited(served: list[Served], small_limits: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    with Running(served, replace(small_limits, seconds=0.3)) as server:
        answer = server.post("/translate", {"model": "mixture", "lines": ["1"]})
        assert (answer.status, answer.message["error"]) == (
            503,
            "no answer within 0.3 seconds; send fewer lines or try later",
        )
        slow.gate.set()
        until(lambda: server.post("/translate", {"model": "mixture", "lines": ["1"]}).status == 200)


def test_one_bad_line_spoils_no_other_request(served: list[Served], monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    expected = run_of(served, "mixture").translate(["3 1", "2", "9 8 7"])
    with Running(served, Limits()) as server:
        first, _ = later(server, ["1"])
        until(lambda: slow.seen)
        others = [later(server, [line]) for line in ("3 1", "bad", "2", "9 8 7")]
        until(lambda: server.get("/health").message["waiting"] == 4)
        slow.gate.set()
        for thread, _ in [(first, []), *others]:
            thread.join(30)
        answers = [found[0] for _, found in others]
        assert sorted(slow.seen[1]) == sorted(["3 1", "bad", "2", "9 8 7"])  # they were together
        assert [answers[n].message["outputs"][0][0]["text"] for n in (0, 2, 3)] == expected
        assert (answers[1].status, answers[1].message["error"]) == (
            500,
            "the server failed at this request, and has written why into its log",
        )
        assert server.post("/translate", {"model": "mixture", "lines": ["2"]}).status == 200


def test_a_body_that_does_not_come_is_not_waited_for(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    answer = server.raw(b'POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"li')
    assert answer.startswith(b"HTTP/1.1 408 ") and b"send it again" in answer


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_head_that_does_not_come_is_not_waited_for(
    begun: bytes, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 0.3)
    assert server.raw(begun) == b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as kept:  # and as little after a request
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert kept.recv(65536).startswith(b"HTTP/1.1 200 ")
        if begun:
            kept.sendall(begun)
            while kept.recv(65536):
                pass


@pytest.mark.parametrize(
    "garbage",
    [b"\0" * 100, b"\x16\x03\x01\x02\0\x01", b"GET /\0 HTTP/1.1\r\n\r\n", b"x" * 100_000],
)
def test_garbage_is_no_request(garbage: bytes, server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 1.0)
    try:
        answer = server.raw(garbage)
    except ConnectionResetError:
        answer = b""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 "))
    assert server.get("/health").status == 200


def test_what_cannot_be_read_as_http_is_answered_in_plain_text(server: Running) -> None:
    head, _, sentence = server.raw(b"\x16\x03\x01 hello\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"content-type: text/plain" in head.lower()
    assert b"Invalid HTTP request" in sentence


def test_a_body_far_too_large_is_refused_by_its_length(server: Running) -> None:
    answer = server.raw(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_pages_of_other_sites_may_not_use_it(server: Running) -> None:
    body = json.dumps({"model": "mixture", "lines": ["1"]}).encode()
    for site, status in (("cross-site", 403), ("same-origin", 200), ("none", 200)):
        assert server.send("POST", "/translate", body, {**JSON, "sec-fetch-site": site}).status == status
    simple = server.send("POST", "/translate", body, {"content-type": "text/plain"})  # needs no permission of a browser
    assert simple.status == 422
    assert not any(name.startswith("access-control") for name in server.get("/models").headers)


# ---- what stands around


@pytest.mark.parametrize("path", [*PAGES, "/models", "/nowhere"])
def test_every_answer_has_the_headers_that_keep_pages_safe(path: str, server: Running) -> None:
    answer = server.get(path)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "server" not in answer.headers
    if path in PAGES:
        assert answer.headers["content-type"] == f"{PAGES[path][1]}; charset=utf-8"
        text = answer.message.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(
            r"https?://|//cdn|@import|innerHTML|insertAdjacentHTML|outerHTML|document\.write|eval\(", text
        )


def test_operations_are_described(server: Running) -> None:
    described = server.get("/openapi.json").message
    assert set(described["paths"]) == {
        "/translate",
        "/caption",
        "/score",
        "/generate",
        "/models",
        "/health",
        "/metrics",
    }
    form = described["paths"]["/caption"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert form["required"] == ["image"] and "nbest" in form["properties"]
    assert "HTTPValidationError" not in json.dumps(described)
    for path in ("/translate", "/caption", "/score", "/generate"):
        answers = described["paths"][path]["post"]["responses"]
        assert set(answers) == {"200", "400", "403", "404", "408", "413", "422", "429", "500", "503"}
    for message, place in (("ChoiceMessage", ("log_prob",)), ("ScoreResponse", ("log_probs", "items"))):
        field = described["components"]["schemas"][message]["properties"]
        for name in place:
            field = field[name]
        assert {"type": "null"} in field["anyOf"]  # of what is impossible


def test_no_answer_leads_to_a_host_that_the_client_names(server: Running) -> None:
    for path in ("/translate/", "/models/", "/docs/", "//evil.example/models"):
        answer = server.send("GET", path, None, {"host": "evil.example"})
        assert (answer.status, list(answer.message)) == (404, ["error"])
        assert "evil.example" not in json.dumps([answer.message, dict(answer.headers)])


def test_metrics_are_in_the_format_of_prometheus(server: Running) -> None:
    server.post("/translate", {"model": "softmax", "lines": ["1", "2"]})
    server.get("/made/up/path/7")
    text = server.get("/metrics").message
    names = set()
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP \w+ .+|TYPE \w+ (counter|gauge|histogram))", line)
        else:
            found = re.fullmatch(r'(\w+)(\{(\w+="[^"]*",?)*\})? (\d+(\.\d+)?|\d\.\d+e[-+]\d+)', line)
            assert found, line
            names.add(found[1])
    assert {"fastmos_requests_total", "fastmos_request_seconds_count", "process_resident_memory_bytes"} <= names
    assert 'path="other",status="404"' in text and "made" not in text
    buckets = [int(n) for n in re.findall(r'seconds_bucket{path="/translate",le="[^"]+"} (\d+)', text)]
    assert buckets == sorted(buckets) and buckets[-1] == int(re.findall(r'_count{path="/translate"} (\d+)', text)[0])
