"""Who may log in by the name that everyone knows."""

import pytest

from strom.server.loopback import may_log_in


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_the_well_known_user_is_authenticated_from_this_machine(host):
    assert may_log_in("guest", host)


@pytest.mark.parametrize("host", ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "", "localhost"])
def test_but_from_nowhere_else(host):
    assert not may_log_in("guest", host)
    assert may_log_in("someone", host)
