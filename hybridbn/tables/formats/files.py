"""Files that are replaced at once or not at all, and files packed with gzip, which may not inflate beyond reason.

Whoever makes a temporary file or folder holds a lock on it, which the system releases when the process ends for any
reason. So what a killed process left is told from what another one is using, and the next run removes it.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import errno
import gzip
import io
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from hybridbn.errors import FormatError, TableError
from hybridbn.registry import LazyModule

pyarrow: LazyModule = LazyModule("pyarrow")

_LARGEST_NETWORK = 256 << 20
"""Files of networks with more bytes are refused; the largest of the public collections has 10 MB."""
_NETWORK_INFLATION = 60
"""A packed network may inflate by this factor; networks full of zeros and ones reach 30."""
_NETWORK_INFLATED = 16 << 20, 64 << 20
"""A packed network may inflate to the first number of bytes whatever the factor, and never beyond the second."""
_TABLE_INFLATION = 100
"""A packed table may inflate by this factor; a column of zeros and ones reaches 60."""
_TABLE_INFLATED = 16 << 20
"""A packed table may inflate to this number of bytes whatever the factor."""


_RECODED = 1 << 18
"""Text in another encoding is read by so many bytes at a time."""
_MOST_LINKS = 40
"""The most links that may lead from one to the next, as in Linux."""
_SCRATCH = "hybridbn-"
_LOCK, _MARK = "hybridbn.lock", b"a temporary folder of hybridbn\n"
"""The file that is locked in a temporary folder, and what it holds."""
NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""How a file is opened that others may have replaced by a link or a pipe."""
_NEW = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | NO_LINKS


@dataclass(frozen=True)
class StoredFile:
    """A file on this machine or in an object store, which any process can open.

    Attributes
    ----------
    path : str
    filesystem : pyarrow.fs.FileSystem, optional
        By default that of this machine.
    encoding : str, optional
        Of a text, which is opened as one in UTF-8.
    """

    path: str
    filesystem: Any = None
    encoding: str | None = None

    @classmethod
    def of(cls, file: StoredFile | str | os.PathLike[str]) -> StoredFile:
        """Return a file that may be given by its path."""
        return file if isinstance(file, StoredFile) else cls(os.fspath(file))

    def open(self) -> IO[bytes]:
        """Open the file for reading, and unpack it if it is packed with gzip, or by its suffix with bzip2 or zstd."""
        return self._unpack() if self.encoding is None else recode(self._unpack(), self.encoding)

    def _unpack(self) -> IO[bytes]:
        name = self.path.lower()
        if name.endswith(".zst"):
            return cast(IO[bytes], pyarrow.CompressedInputStream(self.open_packed(), "zstd"))
        raw: Any = self.open_packed()
        mark = raw.read(2)
        raw.seek(0)
        if mark != b"\x1f\x8b" and not name.endswith(".bz2"):
            return cast(IO[bytes], raw)
        held = raw if self.filesystem is not None else self.path
        if self.filesystem is None:
            raw.close()
        return cast(IO[bytes], bz2.open(held) if name.endswith(".bz2") else gzip.open(held))

    def open_packed(self) -> Any:
        """Open the file for reading as it is."""
        return open(self.path, "rb") if self.filesystem is None else self.filesystem.open_input_file(self.path)

    def state(self) -> tuple[Any, ...]:
        """Return what changes when the file is changed."""
        if self.filesystem is None:
            status = os.stat(self.path)
            return status.st_size, status.st_mtime_ns, status.st_ino
        info = self.filesystem.get_file_info(self.path)
        return info.size, info.mtime_ns


class NameTaken(FileExistsError):
    """A file of this name exists already."""


def check_path(path: Any) -> str | os.PathLike[str]:
    """Return a path; raise `FormatError` for what names no file, such as a number, which would be an open file.

    Examples
    --------
    >>> check_path(5)
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: a file is named by text or a pathlib.Path, not by 5
    """
    name = path.__fspath__() if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or not name or "\0" in name:
        raise FormatError(f"a file is named by text or a pathlib.Path, not by {path!r:.80}")
    return path if isinstance(path, os.PathLike) else str(name)


def check_encoding(encoding: Any) -> str:
    """Return the name of an encoding of text; raise `FormatError` for any other.

    Examples
    --------
    >>> check_encoding("latin-1")
    'latin-1'
    >>> check_encoding("rot13")
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: there is no encoding of text 'rot13'; take "utf-8", "latin-1" or another
    """
    with contextlib.suppress(LookupError, ValueError, UnicodeError):
        # codecs that turn text into text or bytes into bytes have names, too, but don't decode bytes
        if isinstance(encoding, str) and isinstance(b"text".decode(encoding, "ignore"), str):
            return encoding
    raise FormatError(f'there is no encoding of text {encoding!r:.80}; take "utf-8", "latin-1" or another')


class _RecodedText(io.RawIOBase):
    """A stream of text in UTF-8, made of one in another encoding."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self._stream, self._encoding, self._held, self._line = stream, encoding, b"", 1
        self._texts = codecs.iterdecode(iter(lambda: stream.read(_RECODED), b""), encoding)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Put the next bytes into a buffer."""
        try:
            self._held = self._held or next(self._texts, "").encode()
        except UnicodeDecodeError as error:
            line = self._line + error.object[: error.start].count(b"\n")
            raise TableError(f"line {line}: not text in {self._encoding} ({error.reason})") from None
        part, self._held = self._held[: len(buffer)], self._held[len(buffer) :]
        buffer[: len(part)] = part
        self._line += part.count(b"\n")
        return len(part)

    def close(self) -> None:
        self._stream.close()
        super().close()


def recode(stream: IO[bytes], encoding: str) -> IO[bytes]:
    r"""Return a stream of text in UTF-8; one that is in UTF-8 already stays as it is.

    Examples
    --------
    >>> recode(io.BytesIO("für\n".encode("cp1252")), "cp1252").read().decode()
    'für\n'
    """
    if codecs.lookup(check_encoding(encoding)).name in ("utf-8", "utf-8-sig", "ascii"):
        return stream
    return cast(IO[bytes], io.BufferedReader(_RecodedText(stream, encoding), _RECODED))


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that a reader, a crash or a full disk finds the old file or the new one, never half of it.

    A link keeps pointing where it points.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "a.txt"), b"new")
    ...     Path(folder, "a.txt").read_bytes(), len(os.listdir(folder))
    (b'new', 1)
    """
    with replace_file(resolve_links(path)) as file:
        file.write(data)


def resolve_links(path: str | os.PathLike[str]) -> Path:
    """Return where a file to write lies, without links; refuse links that others may have planted.

    In a folder that all may write to, such as ``/tmp``, only links of this user and of the folder's owner are followed.

    Examples
    --------
    >>> resolve_links("../b.csv") == Path(os.path.realpath("../b.csv"))
    True
    """
    if not hasattr(os, "geteuid"):  # Windows
        return Path(os.path.realpath(path))
    rest = [*reversed(Path(os.getcwd(), path).parts)]
    resolved, links = Path(rest.pop()), 0
    while rest:
        part = rest.pop()
        step = resolved.parent if part == ".." else resolved / part
        try:
            status = os.lstat(step)
        except (FileNotFoundError, NotADirectoryError):  # which is reported where it is opened
            return step.joinpath(*reversed(rest))
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, "links lead around in a circle", os.fspath(path))
            _refuse_foreign_link(step, status, os.stat(resolved))
            target = Path(os.readlink(step))
            rest += reversed(target.parts[target.is_absolute() :])
            step = Path(target.anchor) if target.is_absolute() else resolved
        resolved = step
    return resolved


def _refuse_foreign_link(link: Path, status: os.stat_result, folder: os.stat_result) -> None:
    shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    if shared and status.st_uid not in (os.geteuid(), folder.st_uid):
        raise PermissionError(
            errno.EACCES, "a link of another user in a folder that all may write to is not followed", os.fspath(link)
        )


def is_own(status: os.stat_result) -> bool:
    """Return whether a file is this user's; where files have no owners, all are."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def refuse_special_file(path: Path) -> None:
    """Refuse a device, a named pipe or the like, in the place of which no file can be put."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FormatError(f"{path} is no ordinary file, and is not replaced by one; name a file")


# -- what is temporary ------------------------------------------------------------------------------------------------


def lock_file(descriptor: int) -> None:
    """Lock an open file until it is closed; raise `OSError` where another process has locked it."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        import msvcrt

        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def open_private(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for writing that no other user may read; a link is not followed.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder, open_private(Path(folder, "a")) as file:
    ...     oct(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
    '0o600'
    """
    return open(os.open(path, _NEW | os.O_TRUNC, 0o600), "wb")


@contextlib.contextmanager
def open_scratch() -> Iterator[Path]:
    """Make a folder that no other user may read and that is removed in the end; remove those of killed processes.

    Examples
    --------
    >>> with open_scratch() as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*/{_LOCK}"):
        with contextlib.suppress(OSError), _hold_abandoned(left) as content:
            if content == _MARK and is_own(os.lstat(left.parent)):
                shutil.rmtree(left.parent)
    folder = Path(tempfile.mkdtemp(prefix=_SCRATCH))
    try:
        with open_private(folder / _LOCK) as held:
            # the mark comes after the lock, so that nobody takes the folder for one that was left
            with contextlib.suppress(OSError):
                lock_file(held.fileno())
                held.write(_MARK)
                held.flush()
            yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:  # a signal may have ended that
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _hold_abandoned(path: Path) -> Iterator[bytes]:
    """Lock a file of this user and give how it begins; raise `OSError` where another process has locked it."""
    with open(os.open(path, os.O_RDWR | NO_LINKS), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not is_own(status):
            raise PermissionError(errno.EACCES, "no file of this user", os.fspath(path))
        lock_file(file.fileno())
        # another process may have removed the file meanwhile, and a third one made it again
        if not os.path.samestat(status, os.lstat(path)):
            raise FileNotFoundError(errno.ENOENT, "replaced", os.fspath(path))
        yield file.read(len(_MARK) + 1)


def _open_temporary(target: Path) -> tuple[int, str]:
    """Make a temporary file beside another one, in place of what a killed process left; return it opened, and its path.

    Where another process is writing the same file, each has a name of its own.
    """
    beginning = f".{target.name[:100]}.{_SCRATCH}"
    path = target.with_name(f"{beginning}unfinished.tmp")
    with contextlib.suppress(OSError), _hold_abandoned(path):
        path.unlink()
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, _NEW | os.O_EXCL, 0o600)
        if _can_keep(descriptor):
            return descriptor, os.fspath(path)
        os.close(descriptor)
    return tempfile.mkstemp(".tmp", beginning, target.parent)


def _can_keep(descriptor: int) -> bool:
    """Lock a new file; return whether no other process took it for one that was left before it was locked."""
    try:
        lock_file(descriptor)
    except BlockingIOError:
        return False
    except OSError:  # where there are no locks, nobody removes the file
        return True
    return os.fstat(descriptor).st_nlink > 0


@contextlib.contextmanager
def replace_file(
    target: Path,
    *,
    overwrite: bool = True,
    packed: bool = False,
    before: Callable[[os.stat_result], None] | None = None,
) -> Iterator[IO[bytes]]:
    """Open a temporary file that gets its final name once all of it is on the disk; on any failure it is removed.

    It lies in the same folder, and takes over the permissions of the file that it replaces.

    Parameters
    ----------
    overwrite : bool
        Replace a file of that name; otherwise raise `NameTaken`, also where another process was faster.
    packed : bool
        Compress with gzip, without name and time, so that equal contents make equal files.
    before : callable, optional
        Called with the state of the file when all bytes are on the disk and only the name is missing.
    """
    refuse_special_file(target)
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mode = 0o666 & ~_read_umask()
        if target.parent.is_dir() and not target.parent.stat().st_mode & 0o077:
            mode &= 0o600  # as private as its folder
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", os.fspath(target.parent))
    descriptor, temporary = _open_temporary(target)
    try:
        with os.fdopen(descriptor, "wb") as raw:
            if packed:
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
                    yield cast(IO[bytes], file)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
            if os.name == "nt":  # where no open file is renamed
                raw.close()
            if before is not None:
                before(os.stat(temporary))
            os.chmod(temporary, mode)
            if overwrite:
                os.replace(temporary, target)
            else:
                _link(temporary, target)
    except BaseException:  # whatever happened, no temporary file stays
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def _link(temporary: str, target: Path) -> None:
    try:
        os.link(temporary, target)  # unlike a rename, this fails where another process was faster
    except FileExistsError:
        raise NameTaken(os.fspath(target)) from None
    except OSError:  # a file system without hard links
        os.replace(temporary, target)
    else:
        os.unlink(temporary)


def _sync_folder(folder: Path) -> None:
    # Windows opens no folder
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read_umask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is packed, by its name.

    Examples
    --------
    >>> is_packed("alarm.xdsl.GZ"), is_packed("alarm.xdsl")
    (True, False)
    """
    return os.fspath(path).lower().endswith(".gz")


# -- networks ---------------------------------------------------------------------------------------------------------


def read_network_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file that holds a network, unpacked if it is packed, whatever its name."""
    size = os.path.getsize(path)
    if size > _LARGEST_NETWORK:
        raise FormatError(
            f"{path}: the file has {size >> 20} MB; networks of more than {_LARGEST_NETWORK >> 20} MB are refused"
        )
    data = Path(path).read_bytes()
    return _inflate(data, str(path)) if data[:2] == b"\x1f\x8b" else data


def _inflate(data: bytes, source: str) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        limit = min(max(_NETWORK_INFLATED[0], _NETWORK_INFLATION * len(data)), _NETWORK_INFLATED[1])
        inflated = inflater.decompress(data, limit)
        if inflater.unconsumed_tail:
            raise FormatError(
                f"{source}: inflates to more than {limit >> 20} MB from {len(data) >> 10} KB; "
                "networks don't, but if this is one, unpack it first"
            )
        if not inflater.eof:
            raise FormatError(f"{source}: the compressed file is truncated")
    except zlib.error as error:
        raise FormatError(f"{source}: the compressed file is damaged ({error})") from None
    if inflater.unused_data:  # several members, or rubbish behind the first
        raise FormatError(f"{source}: something follows the end of the compressed text; unpack the file first")
    return inflated


def encode_text(text: str, encoder: codecs.IncrementalEncoder | None = None, encoding: str = "UTF-8") -> bytes:
    r"""Return a text in UTF-8, or as the encoder of another encoding writes it; refuse one that has no such form, as
    names of files may have none.

    Examples
    --------
    >>> encode_text("a\udcff")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: '\udcff' can't be written in UTF-8
    """
    try:
        return text.encode() if encoder is None else encoder.encode(text)
    except UnicodeEncodeError as error:
        raise TableError(f"{error.object[error.start : error.end]!r} can't be written in {encoding}") from None


def write_network_text(path: str | os.PathLike[str], text: str) -> None:
    """Write the text of a network to a file at once or not at all, packed where its name ends with ``.gz``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_network_text(Path(folder, "a.txt.gz"), "new")
    ...     read_network_bytes(Path(folder, "a.txt.gz"))
    b'new'
    """
    data = encode_text(text)
    write_atomically(path, gzip.compress(data, mtime=0) if is_packed(path) else data)


# -- tables -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def report_damaged_gzip(beginning: str = "") -> Iterator[None]:
    """Say what a damaged packed file is, in a message with this beginning."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"{beginning}not a whole gzip file: {error}") from error


def open_unpacked(path: Path) -> IO[bytes]:
    """Return the content of a packed table as a stream."""
    size = path.stat().st_size
    most = max(_TABLE_INFLATED, _TABLE_INFLATION * size)
    with report_damaged_gzip(f"{path} is "), gzip.open(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise FormatError(
            f"{path}: inflates to more than {most >> 20} MB from {size >> 10} KB; if this is a table, unpack it first"
        )
    return io.BytesIO(data)
