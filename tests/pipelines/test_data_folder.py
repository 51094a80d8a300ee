"""The token of a data folder: one for all who ask, kept."""

from concurrent.futures import ThreadPoolExecutor

from strom.pipelines.data_folder import TOKEN_FILE, read_or_create_token


def test_all_who_ask_at_once_get_one_token_which_stays(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: read_or_create_token(tmp_path / "data"), range(32)))
    assert tokens == {read_or_create_token(tmp_path / "data")}
    assert (tmp_path / "data" / TOKEN_FILE).read_text() == f"{tokens.pop()}\n"


def test_every_folder_has_its_own_token(tmp_path):
    assert read_or_create_token(tmp_path / "one") != read_or_create_token(tmp_path / "two")


def test_a_token_that_a_full_disk_cut_off_is_replaced(tmp_path):
    (tmp_path / TOKEN_FILE).write_text("abc")
    assert len(read_or_create_token(tmp_path)) == 32
