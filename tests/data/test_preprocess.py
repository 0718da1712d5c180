"""Preparing the paper's corpora: tags, segments, cleaning, splits, from small archives made like the real ones."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fastmos.cli import dispatch
from fastmos.data import preprocess
from fastmos.data.downloads import Remote
from fastmos.data.preprocess import CORPORA, aligned, cleaned, get_corpus, segments, talk_lines, tokenized
from fastmos.errors import InputError
from fastmos.files import read_lines


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_talks_keep_titles_and_drop_other_tags(tmp_path: Path) -> None:
    talk = """<url>http://www.ted.com/talks/lang/de/x.html</url>
<keywords>talks, business</keywords>
<speaker>Al Gore</speaker>
<talkid>1</talkid>
<title>Al Gore: Ein Titel</title>
<description>TED Talk Subtitles and Transcript: Mit Witz.</description>
<reviewer href="http://x">A B</reviewer>
 Vielen Dank, Chris.
Es ist < 3 Tage her.
"""
    assert list(talk_lines(written(tmp_path / "t", talk))) == [
        "Al Gore: Ein Titel",
        "TED Talk Subtitles and Transcript: Mit Witz.",
        "Vielen Dank, Chris.",
        "Es ist < 3 Tage her.",
    ]


def test_segments_of_xml_and_sgml(tmp_path: Path) -> None:
    xml = """<?xml version="1.0" encoding="UTF-8"?>
<mteval><srcset setid="x" srclang="german">
<doc docid="69" genre="lectures"><title>Kein Text</title>
<seg id="1"> Letztes Jahr, &quot;kalt&quot; &amp; nass. </seg>
<seg id="2">Zwei</seg>
<seg id="3"></seg>
</doc></srcset></mteval>
"""
    assert list(segments(written(tmp_path / "x", xml))) == ['Letztes Jahr, "kalt" & nass.', "Zwei", ""]
    with pytest.raises(InputError, match=r"line 1: a <seg> without </seg>"):
        list(segments(written(tmp_path / "y", "<seg id='1'>halb\n")))


@pytest.mark.parametrize(
    ("source", "target", "longest", "ratio", "kept"),
    [
        (2, 3, 50, 1.5, True),
        (2, 4, 50, 1.5, False),
        (3, 2, 50, 1.5, True),
        (4, 2, 50, 1.5, False),
        (4, 2, 50, None, True),
        (50, 50, 50, 1.5, True),
        (51, 50, 50, 1.5, False),
        (50, 51, 50, None, False),
        (0, 1, 50, None, False),
        (0, 0, 50, 1.5, False),
    ],
)
def test_cleaning(source: int, target: int, longest: int, ratio: float | None, kept: bool) -> None:
    pair = " ".join(["w"] * source), " ".join(["w"] * target)
    assert list(cleaned([pair], longest, ratio)) == ([pair] if kept else [])


@pytest.mark.parametrize(("left", "right", "said"), [(2, 3, "has fewer lines"), (3, 2, "has more lines")])
def test_unequal_sides(left: int, right: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        list(aligned(["a"] * left, ["b"] * right, "x.de"))


def test_tokens_keep_their_order_over_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preprocess, "LINES_AT_ONCE", 7)
    pairs = [(f"Satz {i}, ja!", f"Sentence {i}, yes!") for i in range(30)]
    found = list(tokenized(pairs, CORPORA["iwslt14-de-en"], lowercase=True))
    assert found == [(f"satz {i} , ja !", f"sentence {i} , yes !") for i in range(30)]


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder and the address under which it is served."""
    monkeypatch.setenv("no_proxy", "*")

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    folder = tmp_path / "mirror"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def never(seconds: float) -> None:
    raise AssertionError(f"slept {seconds} s")


def archive(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def seg_file(lines: list[str]) -> bytes:
    body = "\n".join(f'<seg id="{number}"> {line} </seg>' for number, line in enumerate(lines, 1))
    return f"<srcset>\n<doc>\n{body}\n</doc>\n</srcset>\n".encode()


def test_iwslt(mirror: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = mirror
    long, lopsided = " ".join(["Wort"] * 51), "a b c d e f"
    files = {}
    for side, extra in (("de", [long, "x"]), ("en", ["y", lopsided])):
        lines = [f"<title>Titel {side}</title>", "<url>u</url>", *(f"Zeile {n}, {side}." for n in range(1, 48)), *extra]
        files[f"de-en/train.tags.de-en.{side}"] = "".join(f"{line}\n" for line in lines).encode()
        for number, part in enumerate(("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")):
            tests = [f"Test {number} {side}", long if side == "de" else "short"]
            files[f"de-en/IWSLT14.{part}.de-en.{side}.xml"] = seg_file(tests)
    archive(folder / "de-en.tgz", files)
    out = tmp_path / "iwslt"
    counts = get_corpus("iwslt14-de-en", out, mirror=url, sleep=never)
    assert counts == {"train": 46, "valid": 2, "test": 5}
    assert list(read_lines(out / "valid.de")) == ["zeile 22 , de .", "zeile 45 , de ."]  # the title is pair 1
    assert list(read_lines(out / "valid.en")) == ["zeile 22 , en .", "zeile 45 , en ."]
    assert next(read_lines(out / "train.en")) == "titel en"
    assert list(read_lines(out / "test.de")) == [f"test {number} de" for number in range(5)]
    assert not (out / "unpacked").exists()
    record = json.loads((out / "corpus.json").read_text())
    assert record["files"][0]["sha256"] == hashlib.sha256((folder / "de-en.tgz").read_bytes()).hexdigest()
    (folder / "de-en.tgz").unlink()
    assert get_corpus("iwslt14-de-en", out, mirror=url, sleep=never) == counts  # nothing is done twice


@pytest.mark.parametrize("other", ["de", "fr"])
def test_wmt(mirror: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    folder, url = mirror
    name = f"wmt14-en-{other}"
    texts = {
        "training-parallel-europarl-v7.tgz": f"training/europarl-v7.{other}-en",
        "training-parallel-commoncrawl.tgz": f"commoncrawl.{other}-en",
        "training-parallel-nc-v9.tgz": f"training/news-commentary-v9.{other}-en",
        "training-parallel-un.tgz": f"un/undoc.2000.{other}-en",
        "training-giga-fren.tar": "giga-fren.release2.fixed",
    }
    longest = CORPORA[name].max_words
    for packed, text in texts.items():
        lines = {side: f"{text} {side} fin.\n\n{'w ' * (longest + 1)}\n".encode() for side in ("en", other)}
        end, pack = (".gz", gzip.compress) if packed.endswith(".tar") else ("", bytes)
        archive(folder / packed, {f"{text}.{side}{end}": pack(content) for side, content in lines.items()})
    held_out = {f"dev/newstest2013.{side}": f"Dev {side}.\n".encode() for side in ("en", other)}
    held_out[f"dev/newstest2014-{other}en-ref.en.sgm"] = seg_file(["Test &amp; en.", "long " * (longest + 1)])
    held_out[f"dev/newstest2014-{other}en-src.{other}.sgm"] = seg_file(
        [f"Test &amp; {other} fin.", "lang " * (longest + 1)]
    )
    archive(folder / "dev.tgz", held_out)
    unchecked = tuple(Remote(remote.url) for remote in CORPORA[name].remotes)
    monkeypatch.setitem(CORPORA, name, replace(CORPORA[name], remotes=unchecked))
    out = tmp_path / "wmt"
    expected = 3 if other == "de" else 5
    assert get_corpus(name, out, mirror=url, sleep=never) == {"train": expected, "newstest2013": 1, "newstest2014": 2}
    training = list(read_lines(out / f"train.{other}"))
    assert len(training) == expected and all(line.endswith(f" {other} fin .") for line in training)
    assert list(read_lines(out / "newstest2013.en")) == ["Dev en ."]
    assert (
        next(read_lines(out / f"newstest2014.{other}")) == f"Test &amp; {other} fin ."
    )  # Moses escapes the ampersand again
    assert not (out / "unpacked").exists()


def multi30k(folder: Path) -> None:
    for part, lines in (("train", 3), ("val", 2), ("test_2016_flickr", 1)):
        for side in ("de", "en"):
            text = "".join(f"{part} {side} {number} .\n" for number in range(lines))
            written(folder / f"{part}.lc.norm.tok.{side}", text)


def test_multi30k_as_it_is(mirror: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, url = mirror
    multi30k(folder)
    dispatch(["data", "get", "multi30k", "--folder", str(tmp_path / "m"), "--mirror", url])
    assert capsys.readouterr().out == f"{tmp_path / 'm'}: pairs: train 3, val 2, test_2016_flickr 1\n"
    assert list(read_lines(tmp_path / "m" / "val.de.gz")) == ["val de 0 .", "val de 1 ."]


def test_sides_of_different_length_leave_nothing(mirror: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = mirror
    multi30k(folder)
    written(folder / "train.lc.norm.tok.en", "one line\n")
    with pytest.raises(InputError, match="train: has more lines than its translation"):
        get_corpus("multi30k", tmp_path / "m", mirror=url, sleep=never)
    assert [each.name for each in (tmp_path / "m").iterdir()] == ["original"]


def test_an_archive_without_the_files(mirror: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = mirror
    archive(folder / "de-en.tgz", {"README": b"nothing"})
    with pytest.raises(InputError, match=r"has no regular file de-en/train\.tags\.de-en\.de"):
        get_corpus("iwslt14-de-en", tmp_path / "i", mirror=url, sleep=never)


def test_unknown_corpus(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no corpus 'iwslt'; there are iwslt14-de-en, "):
        get_corpus("iwslt", tmp_path)


def test_the_list_names_every_corpus(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["data", "list"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CORPORA)


def test_the_sample_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["data", "sample", str(tmp_path / "s"), "--pairs", "40", "--valid", "4", "--test", "5"])
    assert capsys.readouterr().out == f"{tmp_path / 's'}: pairs: train 40, test 5, valid 4\n"


def test_multi30k_of_the_data_folder(mirror: tuple[Path, str], tmp_path: Path, real_data: Path) -> None:
    """The real text passes through unchanged."""
    folder, url = mirror
    sources = [path for path in (real_data / "multi30k").glob("*.gz") if path.name.count(".") == 2]
    if len(sources) < 6:
        pytest.skip("no Multi30k in FASTMOS_DATA")
    for path in sources:
        part, side, _ = path.name.split(".")
        (folder / f"{part}.lc.norm.tok.{side}").write_bytes(gzip.decompress(path.read_bytes()))
    counts = get_corpus("multi30k", tmp_path / "m", mirror=url, sleep=never)
    assert counts == {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000}
    for path in sources:
        assert list(read_lines(tmp_path / "m" / path.name)) == list(read_lines(path))


@pytest.mark.parametrize("content", [b"busy, try later", {"README": b"nothing"}], ids=["garbage", "other"])
def test_a_bad_download_does_not_poison_the_corpus(
    content: bytes | dict[str, bytes], mirror: tuple[Path, str], tmp_path: Path
) -> None:
    folder, url = mirror
    if isinstance(content, bytes):
        (folder / "de-en.tgz").write_bytes(content)
    else:
        archive(folder / "de-en.tgz", content)
    with pytest.raises(InputError):
        get_corpus("iwslt14-de-en", tmp_path / "i", mirror=url, sleep=never)
    assert list((tmp_path / "i" / "original").iterdir()) == []


def test_a_side_of_the_wrong_length_is_downloaded_again(mirror: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = mirror
    multi30k(folder)
    good = (folder / "train.lc.norm.tok.en").read_bytes()
    (folder / "train.lc.norm.tok.en").write_bytes(b"one line\n")
    with pytest.raises(InputError):
        get_corpus("multi30k", tmp_path / "m", mirror=url, sleep=never)
    (folder / "train.lc.norm.tok.en").write_bytes(good)
    assert get_corpus("multi30k", tmp_path / "m", mirror=url, sleep=never)["train"] == 3


def test_long_lines_take_linear_time(tmp_path: Path) -> None:
    """These took minutes when patterns looked for the end of every beginning."""
    for line in ("<" + "a" * 3_000_000, "<seg" * 750_000 + ">"):
        talk = list(talk_lines(written(tmp_path / "t", line + "\n")))
        assert talk == [line]
    with pytest.raises(InputError, match="a <seg> without </seg>"):
        list(segments(written(tmp_path / "x", "<seg>" * 600_000 + "\n")))
