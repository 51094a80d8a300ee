"""Settings of connectors: what a connector's author writes."""

import pytest

from strom.connect.api import ConnectorSettings


def test_a_check_by_its_earlier_name_is_rejected_instead_of_skipped():
    with pytest.raises(TypeError, match="rename it to validate"):

        class OldSettings(ConnectorSettings):
            def clashes(self):
                return {}
