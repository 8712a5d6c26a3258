"""What opens files, databases, devices and locks, and what goes on needing what is open."""

from __future__ import annotations

from codemods.dataflow.names import words

OPENERS = words(
    """
    av.open builtins.open bz2.open cv2.VideoCapture dbm.open decord.VideoReader gzip.open h5py.File imageio.get_reader
    io.open lmdb.Environment lmdb.open lzma.open mmap.mmap multiprocessing.Lock netCDF4.Dataset openslide.OpenSlide
    openslide.open_slide psycopg2.connect pyfaidx.Fasta pymongo.MongoClient pymysql.connect pysam.FastaFile
    rasterio.open redis.Redis shelve.open socket.socket sqlalchemy.create_engine sqlite3.connect tables.open_file
    tables.openFile tarfile.open threading.Lock threading.RLock uproot.open xarray.open_dataset zipfile.ZipFile
    """
)
WRAPPERS = words(
    """
    builtins.enumerate builtins.filter builtins.iter builtins.map builtins.zip csv.DictReader csv.reader
    io.BufferedReader io.TextIOWrapper
    """
)
"""What reads from what it is given for as long as it is there."""
_VIEWS = words(
    """
    __enter__ begin cursor extractfile get get_node items keys open require_dataset require_group values
    """
)
"""Methods whose result lives as long as what is open: transactions, cursors, items."""
_FACTS = words("dtype filename name ndim nrows shape size value")
"""Attributes that are read when they are named."""


def opener(name: str) -> str | None:
    """The opener that a name stands for, or that of which something came out (``h5py.File(…)``); None of others."""
    root = name.removesuffix("(…)")
    return root if root in OPENERS else None


def is_view(method: str) -> bool:
    """Whether a method's result goes on needing what is open."""
    return method in _VIEWS


def is_fact(attribute: str) -> bool:
    """Whether an attribute is no part of what is open."""
    return attribute in _FACTS
