"""A few inputs of the fuzz programme's files; `make fuzz` tries thousands, and commands and runs as well."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastmos.errors import InputError
from tests.reliability.fuzz import CORPUS, TARGETS, empty_folder


@pytest.mark.parametrize("name", ["config", "tokenizer", "results", "image", "features"])
@given(data=st.data())
@settings(max_examples=40)
def test_a_changed_file_is_read_or_refused_in_a_sentence(name: str, data: st.DataObject) -> None:
    with empty_folder() as folder:
        try:
            TARGETS[name](folder, folder, data)
        except InputError as refused:
            assert str(refused) and "\n" not in str(refused)
        assert not list(folder.rglob(".*.tmp"))


def test_the_corpus_has_files_of_every_kind() -> None:
    for name in ("config", "tokenizer", "results", "image", "features"):
        assert len(list((CORPUS / name).iterdir())) >= 2
