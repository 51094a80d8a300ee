pytest_plugins = ["pytester"]


def test_every_project_has_the_fixture_broker(pytester):
    pytester.makepyfile(
        """
        from confluent_kafka.admin import AdminClient

        def test_it(broker):
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            assert admin.list_topics(timeout=30).brokers
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=1)
