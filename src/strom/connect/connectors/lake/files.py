"""Where files are kept: a folder of this machine, or an S3-compatible store."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from strom.connect.api import RetriableError
from strom.connect.connectors.lake.settings import S3_SCHEME, LakeSettings

if TYPE_CHECKING:
    import pyarrow as pa


class AlreadyThereError(Exception):
    """Somebody else has written the file that only one may write."""


class Files(Protocol):
    """The few things that tables need of a file system. Paths are relative, with slashes."""

    def write(self, path: str, data: bytes) -> None:
        """Put a file there, whole and safe when the call returns."""
        ...

    def write_once(self, path: str, data: bytes) -> None:
        """The same, but AlreadyThereError if there is one."""
        ...

    def read(self, path: str) -> bytes | None:
        """What a file holds; None if there is none."""
        ...

    def open(self, path: str) -> "pa.NativeFile | None":
        """A file to read parts of; None if there is none."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, sorted; empty if there is none."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...

    def safe(self, path: str) -> None:
        """Make sure that a file which something else has written survives a power loss."""
        ...


def open_files(settings: LakeSettings) -> Files:
    """The files that the setting `path` names."""
    if settings.path.startswith(S3_SCHEME):
        return S3Files(settings)
    return FolderFiles(Path(settings.path))


class FolderFiles:
    """Files of this machine, synced to disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, path: str, data: bytes) -> None:
        """Write beside, sync, and rename: nobody ever sees half a file."""
        target = self._root / path
        beside = self._written_beside(target, data)
        beside.replace(target)
        _sync_folder(target.parent)

    def write_once(self, path: str, data: bytes) -> None:
        """Write beside, sync, and link: the link fails if the name is taken."""
        target = self._root / path
        beside = self._written_beside(target, data)
        try:
            os.link(beside, target)
        except FileExistsError:
            raise AlreadyThereError(path) from None
        finally:
            beside.unlink()
        _sync_folder(target.parent)

    def read(self, path: str) -> bytes | None:
        """What a file holds; None if there is none."""
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def open(self, path: str) -> "pa.NativeFile | None":
        """A file to read parts of; None if there is none."""
        import pyarrow as pa

        try:
            return pa.OSFile(str(self._root / path))
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """The names in a folder, but for files that are being written."""
        try:
            return sorted(n for n in os.listdir(self._root / folder) if not n.startswith("."))
        except FileNotFoundError:
            return []

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        (self._root / path).unlink(missing_ok=True)

    def safe(self, path: str) -> None:
        """Sync a file and its folder."""
        target = self._root / path
        with target.open("rb") as file:
            os.fsync(file.fileno())
        _sync_folder(target.parent)

    def _written_beside(self, target: Path, data: bytes) -> Path:
        beside = target.with_name(f".{target.name}.{os.getpid()}.{id(data):x}")
        try:
            _make_folders(target.parent)
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:  # a full disk, say: half a file must not fill it further
            with contextlib.suppress(OSError):
                beside.unlink()
            raise RetriableError(f"{target} cannot be written: {error.strerror}") from None
        return beside


def _make_folders(folder: Path) -> None:
    """Make a folder, and sync those that now list a new one."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open folders, and writes names through
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3Files:
    """Objects of an S3-compatible store: whole and safe once the store has said so."""

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
        """Put an object unless there is one; between looking and putting, another may do so too."""
        if self.read(path) is not None:
            raise AlreadyThereError(path)
        self.write(path, data)

    def read(self, path: str) -> bytes | None:
        """What an object holds; None if there is none."""
        try:
            with _away(self._root), self._fs.open_input_stream(self._at(path)) as stream:
                data: bytes = stream.read()
                return data
        except FileNotFoundError:
            return None

    def open(self, path: str) -> "pa.NativeFile | None":
        """An object to read parts of; None if there is none."""
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
        """Remove an object, if it is there."""
        with _away(self._root), contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self._at(path))

    def safe(self, path: str) -> None:
        """Nothing: what the store has taken is safe."""

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"


@contextlib.contextmanager
def _away(where: str) -> Iterator[None]:
    """An error of the store is one to try again after, unless something is just not there."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RetriableError(f"The store at {S3_SCHEME}{where} did not answer: {error}") from None
