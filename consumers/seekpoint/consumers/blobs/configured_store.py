"""The blob store that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.consumers.blobs.folder_blobs import FolderBlobs
from seekpoint.consumers.blobs.s3_blobs import S3Blobs

if TYPE_CHECKING:
    from seekpoint.consumers.blobs.blob_store import BlobStore


def blob_store_at(url: str) -> BlobStore:
    """Return the store at ``url``, as the setting ``blob_store`` has it. Connects to nothing."""
    return S3Blobs(url) if url.startswith("s3://") else FolderBlobs(url.removeprefix("file://"))
