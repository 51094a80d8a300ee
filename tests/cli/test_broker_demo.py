"""`strom demo --broker`."""


def test_clicks_go_in_and_come_out(strom):
    result = strom("demo", "--broker", "-n", "3000")
    assert result.exit_code == 0, result.stderr
    assert "The most visited pages:" in result.stdout
    assert "Produced 3,000 clicks" in result.stdout
    assert "Consumed and counted them" in result.stdout
    assert "strom start" in result.stdout
