"""Is a file the `workload.npz` that an import writes: these arrays, and no byte that numpy would take for more?"""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hawkeye_mcp.intake import folder, precise
from hawkeye_mcp.intake.emitted import NotEmitted

_ZIP = b"PK\x03\x04"
_VERSION = (1, 0)  # of the format of one array; what numpy writes for all of ours


def check(path: Path, wanted: Mapping[str, tuple[tuple[int, ...], str]]) -> None:
    """wanted: shape and dtype of each array by its key, in jax's words.

    Raises:
        NotEmitted: the file is missing, damaged or holds anything else.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            file.seek(0)
            if file.read(len(_ZIP)) != _ZIP:  # numpy goes by how a file begins, a reader of zips by how it ends
                raise NotEmitted(f"{path.name} does not begin as what is written does.")
            members = archive.infolist()
            ends = 0
            for one in sorted(members, key=lambda one: one.header_offset):
                if one.header_offset < ends:  # a small file would be as many large arrays
                    raise NotEmitted(f"{path.name} holds arrays that share bytes.")
                ends = one.header_offset + one.file_size
            if sorted(one.filename for one in members) != sorted(f"{key}.npy" for key in wanted):
                raise NotEmitted(f"{path.name} holds other arrays than workload.py takes from it.")
            for key, (shape, dtype) in wanted.items():
                _member(archive, archive.getinfo(f"{key}.npy"), shape, _stored(dtype), path.name)
            if archive.testzip() is not None:
                raise NotEmitted(f"{path.name} is damaged.")
    except NotEmitted:
        raise
    except Exception as error:  # whatever hostile bytes make the readers raise
        raise NotEmitted(f"{path.name} cannot be read: {type(error).__name__}.") from None


def _member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, shape: tuple[int, ...], dtype: "np.dtype[np.generic]", name: str
) -> None:
    """Nothing is unpacked: a header, then as many bytes as the declared array has, as they are."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise NotEmitted(f"{name} is compressed or encrypted, which is never written.")
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        if version != _VERSION:
            raise NotEmitted(f"{name} holds an array in another version of its format than is written.")
        found, _, of = np.lib.format.read_array_header_1_0(stream)
        begins = stream.tell()
    if found != shape or of != dtype or info.file_size - begins != dtype.itemsize * int(np.prod(shape, dtype=object)):
        raise NotEmitted(f"{info.filename} in {name} has another shape, dtype or length than is declared.")


def _stored(dtype: str) -> "np.dtype[np.generic]":
    """What an array is in the file: a narrow floating-point type as unsigned integers."""
    return np.dtype(f"uint{8 * folder.itemsize(dtype)}" if precise.is_narrow(dtype) else dtype)
