"""What a blob store promises, as one suite: a test of a store inherits it and brings a ``store``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from seekpoint.consumers.blobs.blob_store import BlobStore

__all__ = ["BlobStoreContract"]

FOLDER, OTHER, DIGEST = "f1" * 16, "f2" * 16, "0f" * 32


class BlobStoreContract:
    """The promises. ``store`` is a fixture: an empty store."""

    def test_what_was_put_can_be_got(self, store: BlobStore) -> None:
        """Byte for byte, empty or large."""
        for number, data in enumerate((b"", b"\0bytes", bytes(range(256)) * 40_000)):
            store.put(FOLDER, f"{number:064}", data)
            assert store.get(FOLDER, f"{number:064}") == data

    def test_what_was_not_put_is_not_there(self, store: BlobStore) -> None:
        """A folder is a name space of its own."""
        assert store.get(FOLDER, DIGEST) is None
        store.put(OTHER, DIGEST, b"1")
        assert store.get(FOLDER, DIGEST) is None

    def test_the_same_bytes_may_be_put_again(self, store: BlobStore) -> None:
        """Also at once, and over bytes that were damaged."""
        store.put(FOLDER, DIGEST, b"damaged")
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: store.put(FOLDER, DIGEST, b"right"), range(16)))
        assert store.get(FOLDER, DIGEST) == b"right"

    def test_a_folder_is_erased_alone(self, store: BlobStore) -> None:
        """All of it, and nothing of another one, also of one whose name begins alike."""
        for number in range(3):
            store.put(FOLDER, f"{number:064}", b"1")
        store.put(f"{FOLDER}-9", DIGEST, b"next")
        store.put(OTHER, DIGEST, b"other")
        assert store.erase(FOLDER) == 3
        assert store.erase(FOLDER) == 0
        assert [store.get(FOLDER, f"{number:064}") for number in range(3)] == [None] * 3
        assert (store.get(f"{FOLDER}-9", DIGEST), store.get(OTHER, DIGEST)) == (b"next", b"other")

    def test_a_folder_has_the_names_of_what_is_in_it(self, store: BlobStore) -> None:
        """Of its folders and of the bytes; erasing it erases them all."""
        assert store.names(FOLDER) == []
        for number in range(3):
            store.put(f"{FOLDER}/{number}", DIGEST, b"1")
        store.put(f"{FOLDER}9/0", DIGEST, b"1")
        assert store.names(FOLDER) == ["0", "1", "2"]
        assert store.names(f"{FOLDER}/1") == [DIGEST]
        assert store.erase(f"{FOLDER}/1") == 1
        assert store.names(FOLDER) == ["0", "2"]
        assert store.erase(FOLDER) == 2
        assert (store.names(FOLDER), store.names(f"{FOLDER}9")) == ([], ["0"])

    def test_bytes_may_be_put_while_their_folder_is_erased(self, store: BlobStore) -> None:
        """Neither call fails. What was put is there as a whole, or not at all."""
        data = bytes(100_000)
        with ThreadPoolExecutor(4) as threads:
            puts = [threads.submit(store.put, f"{FOLDER}/1", f"{number:064}", data) for number in range(5)]
            erased = [threads.submit(store.erase, f"{FOLDER}/1") for _ in range(4)]
            puts += [threads.submit(store.put, f"{FOLDER}/1", f"{number:064}", data) for number in range(5, 10)]
            assert [one.exception() for one in puts] == [None] * 10
            assert [one.exception() for one in erased] == [None] * 4
        for digest in store.names(f"{FOLDER}/1"):
            assert store.get(f"{FOLDER}/1", digest) == data

    def test_a_store_has_a_name_without_secrets(self, store: BlobStore) -> None:
        """Entries have it."""
        assert store.name
        assert "secret" not in store.name
