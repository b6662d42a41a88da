"""The local store: listing, whole reads and writes, and put-if-absent among racing writers."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltamerge.errors import StorageError
from deltamerge.storage import AlreadyExists, Listing, NotFound, StoreSpec
from deltamerge.storage import local as module
from deltamerge.storage.local import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def failing(code: int):
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_url_and_spec_name_the_root(tmp_path: Path, store: LocalStore) -> None:
    assert store.url == str(tmp_path)
    assert store.spec == StoreSpec("file", str(tmp_path))


def test_list_is_sorted_and_relative_to_the_root(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / "log").mkdir()
    for name in ("b", "a", "c"):
        (tmp_path / "log" / name).write_bytes(b"xy")
    found = store.list("log")
    assert [info.name for info in found] == ["log/a", "log/b", "log/c"]
    assert {info.size for info in found} == {2}


def test_list_of_the_root_has_names_without_folder(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert [info.name for info in store.list("")] == ["a"]


def test_list_begins_with_start_itself(tmp_path: Path, store: LocalStore) -> None:
    for name in ("001", "002", "003", ".002.crc"):
        (tmp_path / name).write_bytes(b"")
    assert [info.name for info in store.list("", "002")] == ["002", "003"]


def test_list_leaves_folders_out(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    assert [info.name for info in store.list("")] == ["file"]


def test_list_without_such_a_folder_is_empty(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert store.list("nowhere") == []
    assert store.list("file") == []


def test_list_survives_a_file_that_vanishes_meanwhile(tmp_path: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"")
    real = os.scandir

    class Racing:
        def __init__(self, path: Path) -> None:
            self.entries = real(path)

        def __enter__(self):
            return self

        def __exit__(self, *args: object) -> None:
            self.entries.close()

        def __iter__(self):
            for entry in self.entries:
                if entry.name == "b":
                    os.unlink(entry.path)
                yield entry

    monkeypatch.setattr(module.os, "scandir", Racing)
    assert [info.name for info in store.list("")] == ["a", "c"]


def test_list_that_the_system_refuses_is_a_storage_error(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "scandir", failing(errno.EACCES))
    with pytest.raises(StorageError, match=r"Cannot list .*Permission denied") as caught:
        store.list("")
    assert caught.value.hint == "Grant this user permission on the folder."


def test_read_gives_the_whole_object(store: LocalStore) -> None:
    store.put("a/b", b"\x00content\n")
    assert store.read("a/b") == b"\x00content\n"


@pytest.mark.parametrize("name", ["missing", "no/folder", "folder", "file/below"])
def test_read_of_no_object_is_not_found(tmp_path: Path, store: LocalStore, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotFound, match=name):
        store.read(name)


def test_read_that_the_system_refuses_is_a_storage_error(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", b"")
    monkeypatch.setattr(module.os, "open", failing(errno.EIO))
    with pytest.raises(StorageError, match="Cannot read") as caught:
        store.read("a")
    assert caught.value.parameters["errno"] == errno.EIO


def test_info_tells_size_and_time_in_milliseconds(tmp_path: Path, store: LocalStore) -> None:
    store.put("a", b"four")
    os.utime(tmp_path / "a", ns=(0, 1_234_567_890_123_456_789))
    info = store.info("a")
    assert info is not None
    assert (info.name, info.size, info.modified) == ("a", 4, 1_234_567_890_123)


def test_info_of_no_object_is_none(store: LocalStore) -> None:
    store.put("a", b"")
    assert store.info("b") is None
    assert store.info("a/b") is None


def test_exists_folder_counts_an_empty_one(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"")
    assert store.exists_folder("empty")
    assert not store.exists_folder("file")
    assert not store.exists_folder("missing")


def test_put_creates_folders_and_replaces(tmp_path: Path, store: LocalStore) -> None:
    store.put("new/folder/a", b"old")
    store.put("new/folder/a", b"new")
    assert store.read("new/folder/a") == b"new"
    assert names_in(tmp_path / "new" / "folder") == ["a"]


def test_put_never_shows_a_part(store: LocalStore) -> None:
    size = 200_000
    store.put("a", b"0" * size)
    stop = threading.Event()
    seen: set[bytes] = set()
    lengths: set[int] = set()

    def watch() -> None:
        while not stop.is_set():
            data = store.read("a")
            lengths.add(len(data))
            seen.add(bytes({*data}))

    reader = threading.Thread(target=watch)
    reader.start()
    for digit in b"123456789":
        store.put("a", bytes([digit]) * size)
    stop.set()
    reader.join()
    assert lengths == {size}
    assert all(len(digits) == 1 for digits in seen)


@pytest.mark.parametrize("change", ["put", "delete"])
def test_hadoop_checksum_goes_with_its_file(tmp_path: Path, store: LocalStore, change: str) -> None:
    store.put("log/a.json", b"old")
    (tmp_path / "log" / ".a.json.crc").write_bytes(b"stale")
    (tmp_path / "log" / ".b.json.crc").write_bytes(b"of another")
    if change == "put":
        store.put("log/a.json", b"new")
    else:
        store.delete("log/a.json")
    assert ".a.json.crc" not in names_in(tmp_path / "log")
    assert ".b.json.crc" in names_in(tmp_path / "log")


def test_put_if_absent_tells_of_the_object_that_it_made(store: LocalStore) -> None:
    made = store.put_if_absent("log/0.json", b"content")
    assert made == store.info("log/0.json")
    assert store.read("log/0.json") == b"content"


def test_put_if_absent_leaves_what_is_there(store: LocalStore) -> None:
    store.put_if_absent("a", b"first")
    with pytest.raises(AlreadyExists, match="a"):
        store.put_if_absent("a", b"second")
    assert store.read("a") == b"first"


def test_put_if_absent_loses_to_a_writer_in_between(tmp_path: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os.path, "exists", lambda path: False)
    store.put_if_absent("a", b"first")
    with pytest.raises(AlreadyExists, match="a"):
        store.put_if_absent("a", b"second")
    assert store.read("a") == b"first"
    assert names_in(tmp_path) == ["a"]


def test_put_if_absent_that_could_not_sync_its_folder_still_tells_that_it_won(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "no sync of folders")
        real(handle)

    monkeypatch.setattr(module.os, "fsync", fsync)
    made = store.put_if_absent("a", b"content")
    assert made == store.info("a")


def test_one_thread_of_many_wins_each_name(tmp_path: Path, store: LocalStore) -> None:
    threads = 16
    for name in ("0.json", "1.json", "2.json", "3.json"):
        barrier = threading.Barrier(threads)

        def race(number: int, name: str = name, barrier: threading.Barrier = barrier) -> int | None:
            barrier.wait()
            try:
                store.put_if_absent(name, str(number).encode())
            except AlreadyExists:
                return None
            return number

        with ThreadPoolExecutor(threads) as pool:
            winners = [number for number in pool.map(race, range(threads)) if number is not None]
        assert len(winners) == 1
        assert store.read(name) == str(winners[0]).encode()
    assert names_in(tmp_path) == ["0.json", "1.json", "2.json", "3.json"]


def _race(root: str, number: int, names: list[str], barrier, results) -> None:
    store = LocalStore(root)
    won = []
    for name in names:
        barrier.wait(30)
        try:
            store.put_if_absent(name, str(number).encode())
            won.append(name)
        except AlreadyExists:
            pass
    results.put((number, won))


def test_one_process_of_several_wins_each_name(tmp_path: Path, store: LocalStore) -> None:
    names = [f"{version:020d}.json" for version in range(20)]
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(3), context.Queue()
    workers = [context.Process(target=_race, args=(str(tmp_path), number, names, barrier, results)) for number in range(3)]
    for worker in workers:
        worker.start()
    won = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(30)
    assert sorted(name for _, owned in won for name in owned) == names
    for number, owned in won:
        assert all(store.read(name) == str(number).encode() for name in owned)
    assert names_in(tmp_path) == names


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.ENOSPC, "The disk is full"),
        (errno.EDQUOT, "The disk quota is used up"),
        (errno.EROFS, "The file system is mounted read-only."),
        (errno.EACCES, "Grant this user permission on the folder."),
    ],
)
@pytest.mark.parametrize("method", ["put", "put_if_absent"])
def test_a_refused_write_says_what_to_do_and_leaves_nothing(
    tmp_path: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch, method: str, code: int, hint: str
) -> None:
    monkeypatch.setattr(module.os, "fsync", failing(code))
    with pytest.raises(StorageError) as caught:
        getattr(store, method)("a", b"content")
    assert caught.value.condition == "DELTAMERGE_STORAGE_REFUSED"
    assert caught.value.parameters == {"path": str(tmp_path / "a"), "errno": code}
    assert hint in (caught.value.hint or "")
    assert os.strerror(code) in str(caught.value)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_put_if_absent_without_hard_links_says_so(
    tmp_path: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(module.os, "link", failing(code))
    with pytest.raises(StorageError) as caught:
        store.put_if_absent("a", b"content")
    assert "hard links" in (caught.value.hint or "")
    assert names_in(tmp_path) == []


def test_a_put_that_fails_keeps_the_old_object(tmp_path: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", b"old")
    monkeypatch.setattr(module.os, "replace", failing(errno.EIO))
    with pytest.raises(StorageError, match="Cannot write"):
        store.put("a", b"new")
    assert store.read("a") == b"old"
    assert names_in(tmp_path) == ["a"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into a read-only folder")
@pytest.mark.parametrize("method", ["put", "put_if_absent"])
def test_a_read_only_folder_is_a_storage_error(tmp_path: Path, store: LocalStore, method: str) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(StorageError, match="Permission denied") as caught:
            getattr(store, method)("a", b"content")
    finally:
        tmp_path.chmod(0o755)
    assert "Grant this user permission" in (caught.value.hint or "")


def test_a_file_in_the_place_of_a_folder_is_a_storage_error(store: LocalStore) -> None:
    store.put("a", b"")
    with pytest.raises(StorageError, match="Cannot write"):
        store.put_if_absent("a/b", b"content")


def test_etag_changes_when_an_object_is_replaced_by_an_equal_one(tmp_path: Path, store: LocalStore) -> None:
    store.put("a", b"same")
    before = store.info("a")
    store.put("a", b"same")
    after = store.info("a")
    assert before is not None
    assert after is not None
    assert before.etag != after.etag
    assert [info.etag for info in store.list("")] == [after.etag]


def test_delete_of_no_object_is_no_error(store: LocalStore) -> None:
    store.put("a", b"")
    store.delete("a")
    store.delete("a")
    store.delete("no/folder")
    assert store.info("a") is None


@pytest.mark.parametrize(("method", "call"), [("stat", "info"), ("unlink", "delete")])
def test_a_refused_call_is_a_storage_error(store: LocalStore, monkeypatch: pytest.MonkeyPatch, method: str, call: str) -> None:
    store.put("a", b"")
    with monkeypatch.context() as patch:
        patch.setattr(Path, method, failing(errno.EACCES))
        with pytest.raises(StorageError, match="Permission denied"):
            getattr(store, call)("a")


def test_a_walk_tells_all_files_and_folders_but_hidden_ones(tmp_path: Path, store: LocalStore) -> None:
    for name in ("a", "b/c", "b/_d", "_e/f", "g/h/i"):
        store.put(name, b"x")
    (tmp_path / "empty").mkdir()
    found = list(store.walk(lambda name: name.startswith("_")))
    assert sorted(file.name for listing in found for file in listing.files) == ["a", "b/c", "g/h/i"]
    assert sorted(folder.name for listing in found for folder in listing.folders) == ["b", "empty", "g", "g/h"]
    assert list(LocalStore(str(tmp_path / "nothing")).walk(lambda _: False)) == [Listing()]


def test_a_walk_does_not_follow_links_to_folders(tmp_path: Path, store: LocalStore) -> None:
    """What is behind them may be anybody's."""
    store.put("b/c", b"x")
    (tmp_path / "b" / "link").symlink_to(tmp_path, target_is_directory=True)
    found = list(store.walk(lambda _: False))
    assert [file.name for listing in found for file in listing.files] == ["b/c"]
    assert [folder.name for listing in found for folder in listing.folders] == ["b"]


def test_many_files_are_deleted_and_counted_if_they_were_there(tmp_path: Path, store: LocalStore) -> None:
    for name in ("a", "b/c", "d"):
        store.put(name, b"x")
    (tmp_path / ".a.crc").write_bytes(b"x")
    assert store.delete_all(["a", "b/c", "gone", "a/within"]) == 2
    assert names_in(tmp_path) == ["b", "d"]


def test_only_empty_folders_are_deleted(tmp_path: Path, store: LocalStore) -> None:
    store.put("b/c", b"x")
    (tmp_path / "a" / "within").mkdir(parents=True)
    assert store.delete_empty_folders(["a/within", "a", "b", "gone"]) == 2
    assert names_in(tmp_path) == ["b"]
