"""Parquet and Feather, through pyarrow, which is imported only when such a file is read or written."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from vsae.data.schema import repeated
from vsae.files.storage import FileError, Limit
from vsae.files.values import Columns
from vsae.table.cells import objects

if TYPE_CHECKING:
    import pyarrow

ARROW_FORMATS = ("parquet", "feather")
_TEXT = 4  # bytes, of a cell that has no width of its own, at least


@dataclass
class ArrowFile:
    """Nothing beside the values: the schema is part of the table."""

    formats: ClassVar[tuple[str, ...]] = ARROW_FORMATS

    def render(self, filled: Any, data: Any, target: str) -> bytes:
        if filled.schema.equals(data.schema):  # which does not look at metadata: that of the fields comes back here
            filled = type(filled).from_arrays(filled.columns, schema=data.schema)
        return _to_bytes(filled.replace_schema_metadata(data.schema.metadata), target)


def import_pyarrow(where: str) -> Any:
    """pyarrow with the modules of both formats, or one line that says how to get it."""
    try:
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError:
        raise FileError(f"{where}: Parquet and Feather files need pyarrow; pip install pyarrow") from None
    return pyarrow


def read(where: str, content: bytes, format: str, limit: Limit) -> pyarrow.Table:
    """The table in `content`; its columns must have names of their own."""
    pa = import_pyarrow(where)
    try:
        if format == "parquet":
            known = pa.parquet.ParquetFile(pa.BufferReader(content)).metadata
            limit.check(where, known.num_rows * _row_width(pa, known.schema.to_arrow_schema()))
            limit.check(where, sum(known.row_group(i).total_byte_size for i in range(known.num_row_groups)))
            table = pa.parquet.read_table(pa.BufferReader(content))
        elif content.startswith(b"ARROW1"):
            batches, size = pa.ipc.open_file(pa.BufferReader(content)), 0
            for i in range(batches.num_record_batches):  # one at a time: all of them may be too many
                size += batches.get_batch(i).nbytes
                limit.check(where, size)
            table = pa.feather.read_table(pa.BufferReader(content))
        elif content.startswith(b"FEA1"):
            table = pa.feather.read_table(pa.BufferReader(content))
        else:
            table = pa.ipc.open_stream(content).read_all()  # .arrow is now and then the stream of the same
        names = table.column_names
    except FileError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        what = str(error).partition("\n")[0] or type(error).__name__
        raise FileError(f"{where}: this is not a {format.title()} file, or it is damaged ({what})") from None
    twice = list(map(repr, repeated(names)))
    if twice:
        raise FileError(f"{where}: more than one column is called {', '.join(twice)}; rename them")
    return table


def _row_width(pa: Any, schema: Any) -> int:
    """Bytes of a row, at least: equal values are next to nothing in a file, and are not in memory."""
    return sum(-(-column.type.bit_width // 8) if pa.types.is_primitive(column.type) else _TEXT for column in schema)


def dump(where: str, data: Mapping[str, Any] | pyarrow.Table, format: str) -> bytes:
    """The file of a dict of arrays or a pyarrow.Table."""
    pa = import_pyarrow(where)
    if isinstance(data, pa.Table):
        return _to_bytes(data, format)
    arrays = {}
    for name, values in data.items():
        try:
            arrays[name] = pa.array(values, from_pandas=True)  # NaN and NaT become null
        except (pa.ArrowException, ValueError, TypeError) as error:
            what = str(error).partition("\n")[0]
            raise FileError(f"{where}: column {name!r} does not fit Arrow ({what}); write .csv or .jsonl") from None
    return _to_bytes(pa.table(arrays), format)


def columns_of(where: str, table: pyarrow.Table) -> Columns:
    """The table's values as object arrays, for formats that are not Arrow's."""
    pa = import_pyarrow(where)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_timestamp(column.type):  # nanoseconds would need pandas
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        columns[name] = objects(column.to_pylist())
    return columns


def _to_bytes(table: pyarrow.Table, format: str) -> bytes:
    pa, sink = import_pyarrow(format), io.BytesIO()
    (pa.parquet.write_table if format == "parquet" else pa.feather.write_feather)(table, sink)
    return sink.getvalue()
