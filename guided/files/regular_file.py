"""Opens files whose kind is not known, such as those in a folder that other users may write to."""

from __future__ import annotations

import errno
import os
import stat
from os import PathLike
from typing import BinaryIO

__all__ = ["open_regular_file"]

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe's reader would wait


def open_regular_file(path: str | PathLike[str]) -> BinaryIO:
    """Open a file for reading, without waiting for another process.

    Raises:
        OSError: it cannot be opened, or it is not a regular file but, for example, a folder or a named pipe.
    """
    file = open(os.open(path, _FLAGS), "rb")  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return file
