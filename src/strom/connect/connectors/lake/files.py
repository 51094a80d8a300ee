"""Stores for files: a local folder, or an S3-compatible object store."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from strom.connect.api import RetriableError
from strom.connect.connectors.lake.settings import S3_SCHEME, LakeSettings
from strom.supervision.durable_files import sync_folder


class AlreadyExistsError(Exception):
    """The file that only one task may write exists already."""


class FileStore(Protocol):
    """The file operations that tables need. Paths are relative, with slashes."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file atomically; it is durable when the call returns."""

    def write_once(self, path: str, data: bytes) -> None:
        """Write a new file; AlreadyExistsError if it exists."""

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if it does not exist."""

    def open(self, path: str) -> pa.NativeFile | None:
        """A file for random access; None if it does not exist."""

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, sorted; empty if the folder does not exist."""

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""

    def sync(self, path: str) -> None:
        """Make a file durable that another program has written."""


def open_files(settings: LakeSettings) -> FileStore:
    """The store that the setting `path` denotes."""
    if settings.path.startswith(S3_SCHEME):
        return S3FileStore(settings)
    return LocalFileStore(Path(settings.path))


class LocalFileStore:
    """A local folder, synced to disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, path: str, data: bytes) -> None:
        """Write to a temporary file, sync and rename: readers never see a partial file."""
        target = self._root / path
        beside = self._written_beside(target, data)
        beside.replace(target)
        sync_folder(target.parent)

    def write_once(self, path: str, data: bytes) -> None:
        """Write to a temporary file, sync and link: the link fails if the name exists."""
        target = self._root / path
        beside = self._written_beside(target, data)
        try:
            os.link(beside, target)
        except FileExistsError:
            raise AlreadyExistsError(path) from None
        finally:
            beside.unlink()
        sync_folder(target.parent)

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def open(self, path: str) -> pa.NativeFile | None:
        try:
            return pa.OSFile(str(self._root / path))
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """The names in a folder, without temporary files."""
        try:
            return sorted(n for n in os.listdir(self._root / folder) if not n.startswith("."))
        except FileNotFoundError:
            return []

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def sync(self, path: str) -> None:
        """Sync a file and its folder."""
        target = self._root / path
        with target.open("rb") as file:
            os.fsync(file.fileno())
        sync_folder(target.parent)

    def _written_beside(self, target: Path, data: bytes) -> Path:
        beside = target.with_name(f".{target.name}.{os.getpid()}.{id(data):x}")
        try:
            _make_folders(target.parent)
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:  # on a full disk, a partial file must not stay
            with contextlib.suppress(OSError):
                beside.unlink()
            raise RetriableError(f"{target} is not writable: {error.strerror}") from None
        return beside


def _make_folders(folder: Path) -> None:
    """Create a folder, and sync the parents of new ones."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
    sync_folder(folder.parent)


class S3FileStore:
    """An S3-compatible object store: objects are atomic, and durable once the store has responded."""

    def __init__(self, settings: LakeSettings) -> None:
        from pyarrow.fs import S3FileSystem

        self._root = settings.path.removeprefix(S3_SCHEME).strip("/")
        endpoint = settings.s3_endpoint or ""
        more = {"endpoint_override": endpoint} if endpoint else {}
        if settings.s3_access_key and settings.s3_secret_key:
            more |= {"access_key": settings.s3_access_key, "secret_key": settings.s3_secret_key}
        self._fs: S3FileSystem = S3FileSystem(
            region=settings.s3_region,
            scheme="http" if endpoint.startswith("http://") else "https",
            connect_timeout=5,
            request_timeout=60,
            **more,
        )

    def write(self, path: str, data: bytes) -> None:
        with _away(self._root), self._fs.open_output_stream(self._at(path)) as stream:
            stream.write(data)

    def write_once(self, path: str, data: bytes) -> None:
        """Put an object unless it exists; without atomicity between the check and the put."""
        if self.read(path) is not None:
            raise AlreadyExistsError(path)
        self.write(path, data)

    def read(self, path: str) -> bytes | None:
        try:
            with _away(self._root), self._fs.open_input_stream(self._at(path)) as stream:
                data: bytes = stream.read()
                return data
        except FileNotFoundError:
            return None

    def open(self, path: str) -> pa.NativeFile | None:
        try:
            with _away(self._root):
                return self._fs.open_input_file(self._at(path))
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """The names under a prefix."""
        from pyarrow.fs import FileSelector

        with _away(self._root):
            found = self._fs.get_file_info(FileSelector(self._at(folder), allow_not_found=True))
        return sorted(info.base_name for info in found)

    def remove(self, path: str) -> None:
        with _away(self._root), contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self._at(path))

    def sync(self, path: str) -> None:
        """Nothing to do: objects are durable."""

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"


@contextlib.contextmanager
def _away(where: str) -> Iterator[None]:
    """Translate errors of the store to RetriableError, except for missing objects."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RetriableError(f"The store at {S3_SCHEME}{where} is not available: {error}") from None
