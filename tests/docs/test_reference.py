import pytest

from tools.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_committed_page_is_what_the_code_says(name):
    committed = (FOLDER / name).read_text(encoding="utf-8")
    assert committed == PAGES[name](), f"docs/reference/{name} is stale: run `make docs`"
