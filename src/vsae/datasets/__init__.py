"""Data sets: the synthetic clinic table with a known mechanism, and tables of the UCI repository.

>>> clinic = make_clinic(n=100)
>>> clinic.schema.names[:3]
['visit_date', 'age', 'sex']
"""

from vsae.datasets.clinic import Clinic, make_clinic
from vsae.datasets.uci import TABLES, DataNotFound, DownloadError, UCITable, download, load_table

__all__ = [
    "TABLES",
    "Clinic",
    "DataNotFound",
    "DownloadError",
    "UCITable",
    "download",
    "load_table",
    "make_clinic",
]
