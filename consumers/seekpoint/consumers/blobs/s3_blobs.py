"""A blob store in a bucket of S3, or of a service with the same interface.

Credentials, region and endpoint are those of the AWS client: its environment variables, files and roles.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any, NoReturn

from seekpoint.schemas.config.extras import extra_missing
from seekpoint.schemas.errors import BlobStoreUnavailable, InvalidSetting

_MISSING = frozenset({"NoSuchKey", "404"})
_TEMPORARY = frozenset(
    {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling", "500", "503"}
)
_ERASED_AT_ONCE = 1_000


class S3Blobs:
    """A ``BlobStore`` in a bucket: an object for each attachment. Needs the extra ``s3``."""

    def __init__(self, url: str) -> None:
        self.name = url.rstrip("/")
        self._bucket, _, prefix = self.name.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._lock = threading.Lock()

    def put(self, folder: str, digest: str, data: bytes) -> None:
        """Keep ``data``; return once the service has it. The service compares a checksum of what arrived."""
        key = self._key(folder, digest)
        self._call("put_object", Key=key, Body=data, ChecksumAlgorithm="SHA256")

    def get(self, folder: str, digest: str) -> bytes | None:
        """Return the bytes; None if the store does not have them."""
        found = self._call("get_object", Key=self._key(folder, digest))
        if found is None:
            return None
        try:
            data: bytes = found["Body"].read()
        except Exception as exc:  # of the connection, under several names
            raise BlobStoreUnavailable(f"the blob store stopped to answer: {exc}", store=self.name) from exc
        return data

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, of its folders and of the bytes in it, sorted; none if it is not there."""
        prefix, found, after = self._key(folder, ""), set[str](), dict[str, str]()
        while True:
            listed = self._call("list_objects_v2", Prefix=prefix, Delimiter="/", **after) or {}
            found |= {one["Key"].removeprefix(prefix) for one in listed.get("Contents", ())}
            found |= {one["Prefix"].removeprefix(prefix)[:-1] for one in listed.get("CommonPrefixes", ())}
            if not listed.get("IsTruncated"):
                return sorted(found)
            after = {"ContinuationToken": listed["NextContinuationToken"]}

    def erase(self, folder: str) -> int:
        """Delete a folder with all bytes in it; return how many attachments they were."""
        prefix, erased = self._key(folder, ""), 0
        while True:
            listed = self._call("list_objects_v2", Prefix=prefix, MaxKeys=_ERASED_AT_ONCE) or {}
            keys = [{"Key": one["Key"]} for one in listed.get("Contents", ())]
            if not keys:
                return erased
            deleted = self._call("delete_objects", Delete={"Objects": keys, "Quiet": True}) or {}
            if deleted.get("Errors"):
                self._refused(deleted["Errors"][0].get("Code"), "delete_objects")
            erased += len(keys)

    def _key(self, folder: str, digest: str) -> str:
        return f"{self._prefix}{folder}/{digest}"

    @cached_property
    def _client(self) -> Any:
        try:
            import boto3
        except ImportError as exc:
            raise extra_missing("boto3", "s3", "a blob store in S3") from exc
        from botocore.config import Config

        config = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 4})
        return boto3.session.Session().client("s3", config=config)

    def _call(self, name: str, **how: Any) -> Any:
        """Call the client; return None for a missing object."""
        with self._lock:  # to make a client is not thread-safe; to use one is
            client = self._client
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(client, name)(Bucket=self._bucket, **how)
        except ClientError as exc:
            code = str(exc.response.get("Error", {}).get("Code"))
            if code in _MISSING and name == "get_object":
                return None
            if code in _TEMPORARY:
                raise BlobStoreUnavailable(f"the blob store failed: {code}", store=self.name) from exc
            self._refused(code, name, exc)
        except BotoCoreError as exc:
            raise BlobStoreUnavailable(f"the blob store does not answer: {exc}", store=self.name) from exc

    def _refused(self, code: object, name: str, cause: BaseException | None = None) -> NoReturn:
        raise InvalidSetting(
            f"the blob store refuses {name}: {code}", setting="blob_store", value=self.name,
            hint="check the bucket, and the credentials and the region of the AWS client",
        ) from cause  # fmt: skip
