"""PostgreSQL is run only where it can be, and else it is said what is missing."""

from pathlib import Path

import pytest

from tools import postgres


def test_without_the_package_the_reason_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def missing() -> Path:
        raise postgres.UnavailableError("PostgreSQL is not installed; run `make postgres`")

    monkeypatch.setattr(postgres, "locate", missing)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["postgres", "install"])
    assert postgres.main() == 0
    assert "run `make postgres`" in capsys.readouterr().out
