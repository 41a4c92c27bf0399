"""The address of a database has its password: no error of an import from Postgres tells it."""

from __future__ import annotations

import pytest

from seekpoint.adapters.migration.opaque_values import OpaqueSerializer
from seekpoint.adapters.migration.postgres_threads import PostgresThreads
from seekpoint.schemas.errors import Refused

psycopg = pytest.importorskip("psycopg")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:s3cr3t@127.0.0.1:1/runs",
        "postgresql://ann:s3cr3t@127.0.0.1:1/runs?connect_timeout=s3cr3t",
        "postgresql://ann:s3cr3t@[::1/runs",
        "postgresql://ann:s3cr3t@127.0.0.1:s3cr3t/runs",
        "host=127.0.0.1 port=1 user=ann password=s3cr3t dbname=runs",
        "host=127.0.0.1 port=1 user=ann password='s3cr3t dbname=runs",
        "pasword=s3cr3t",
    ],
)
def test_an_error_never_has_the_password(address: str) -> None:
    """Nor the whole address: not in its text, and not in a cause that a traceback prints."""
    with pytest.raises(Refused, match="Postgres cannot be read") as caught:
        PostgresThreads(address, OpaqueSerializer())
    assert "s3cr3t" not in str(caught.value)
    assert "ann:" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
