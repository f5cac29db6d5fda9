"""Data sets: the synthetic clinic table with a known mechanism, tables of the UCI repository, and multi-modal sets.

>>> clinic = make_clinic(n=100)
>>> clinic.schema.names[:3]
['visit_date', 'age', 'sex']
"""

from vsae.datasets.clinic import Clinic, make_clinic
from vsae.datasets.modalities import (
    MULTIMODAL,
    Modalities,
    download_images,
    load_images,
    load_modalities,
)
from vsae.datasets.places import DataNotFound, DownloadError
from vsae.datasets.uci import TABLES, UCITable, download, load_table

__all__ = [
    "MULTIMODAL",
    "TABLES",
    "Clinic",
    "DataNotFound",
    "DownloadError",
    "Modalities",
    "UCITable",
    "download",
    "download_images",
    "load_images",
    "load_modalities",
    "load_table",
    "make_clinic",
]
