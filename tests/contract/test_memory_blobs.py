"""The blob store in memory keeps the promises of a blob store."""

from __future__ import annotations

import pytest

from blob_store_contract import BlobStoreContract
from seekpoint.consumers.blobs.memory_blobs import MemoryBlobs


@pytest.fixture
def store() -> MemoryBlobs:
    """An empty one."""
    return MemoryBlobs()


class TestMemoryBlobs(BlobStoreContract):
    """Inherited."""
