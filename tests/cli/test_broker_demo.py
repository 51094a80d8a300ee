"""`strom demo --broker`, which is also what a machine without Java gets."""


def test_clicks_go_in_and_come_out(strom):
    result = strom("demo", "--broker", "-n", "3000")
    assert result.exit_code == 0, result.stderr
    assert "The most visited pages:" in result.stdout
    assert "Produced 3,000 clicks" in result.stdout
    assert "Consumed and counted them" in result.stdout
    assert "strom start" in result.stdout


def test_without_java_the_broker_is_shown_and_what_to_install_is_said(strom, tmp_path):
    nothing = {"PATH": "", "JAVA_HOME": "", "STROM_CACHE": str(tmp_path)}
    result = strom("demo", "-n", "3000", **nothing)
    assert result.exit_code == 0, result.stderr
    assert "Spark needs Java 17 or newer" in result.stderr
    assert "pip install 'strom[java]'" in result.stderr
    assert "Produced 3,000 clicks" in result.stdout
