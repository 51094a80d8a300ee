"""The options by which commands connect to a Kafka."""


def test_a_properties_file_names_broker_and_settings(strom_at_broker, broker, tmp_path, strom):
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={broker.bootstrap_servers}\nkey.serializer=x\n")
    result = strom("topics", "list", "--command-config", str(file))
    assert result.exit_code == 0
    assert "key.serializer" in result.stderr
