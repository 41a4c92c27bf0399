"""A bucket keeps the promises of a blob store: over HTTP, on a server with the interface of S3."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from blob_store_contract import DIGEST, FOLDER, BlobStoreContract
from seekpoint.consumers.blobs.configured_store import blob_store_at
from seekpoint.consumers.blobs.s3_blobs import S3Blobs
from seekpoint.schemas.errors import BlobStoreUnavailable, InvalidSetting


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server."""
    running = ThreadedMotoServer(port=0)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def store(server: str, monkeypatch: pytest.MonkeyPatch) -> S3Blobs:
    """A bucket of it, empty."""
    for name, value in {
        "AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    client = boto3.session.Session().client("s3")
    client.create_bucket(Bucket="blobs")
    made = S3Blobs("s3://blobs/seekpoint")
    for one in client.list_objects_v2(Bucket="blobs").get("Contents", ()):
        client.delete_object(Bucket="blobs", Key=one["Key"])
    client.close()
    return made


class TestS3Blobs(BlobStoreContract):
    """Inherited."""


def test_objects_are_under_the_prefix(store: S3Blobs) -> None:
    """So a bucket may have others."""
    store.put(FOLDER, DIGEST, b"bytes")
    client = boto3.session.Session().client("s3")
    assert [one["Key"] for one in client.list_objects_v2(Bucket="blobs")["Contents"]] == [
        f"seekpoint/{FOLDER}/{DIGEST}"
    ]
    client.close()
    again = blob_store_at("s3://blobs/seekpoint/")
    assert (again.name, again.get(FOLDER, DIGEST)) == ("s3://blobs/seekpoint", b"bytes")


def test_a_bucket_that_is_missing_is_told(store: S3Blobs) -> None:
    """It is no missing object: nothing is lost."""
    with pytest.raises(InvalidSetting, match="NoSuchBucket"):
        S3Blobs("s3://nobody").get(FOLDER, DIGEST)
    with pytest.raises(InvalidSetting, match="NoSuchBucket"):
        S3Blobs("s3://nobody").put(FOLDER, DIGEST, b"bytes")


def test_a_server_that_does_not_answer_is_told(store: S3Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same call may work later."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(BlobStoreUnavailable, match="does not answer"):
            S3Blobs("s3://blobs").get(FOLDER, DIGEST)
