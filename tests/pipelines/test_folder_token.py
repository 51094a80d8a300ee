"""The token of a data folder: one for all who ask, kept."""

from concurrent.futures import ThreadPoolExecutor

from strom.pipelines.folder_token import FILE, token_of


def test_all_who_ask_at_once_get_one_token_which_stays(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: token_of(tmp_path / "data"), range(32)))
    assert tokens == {token_of(tmp_path / "data")}
    assert (tmp_path / "data" / FILE).read_text() == f"{tokens.pop()}\n"


def test_every_folder_has_its_own_token(tmp_path):
    assert token_of(tmp_path / "one") != token_of(tmp_path / "two")


def test_a_token_that_a_full_disk_cut_off_is_replaced(tmp_path):
    (tmp_path / FILE).write_text("abc")
    assert len(token_of(tmp_path)) == 32
