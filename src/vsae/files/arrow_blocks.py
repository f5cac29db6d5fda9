"""Blocks of Parquet and Feather files: whole groups of rows, or slices of one."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, cast

from vsae.data.schema import repeated
from vsae.files import FileTable, blocks
from vsae.files.arrow import ARROW_FORMATS, ArrowFile, import_pyarrow
from vsae.files.blocks import Block, Blocks, cannot_stream
from vsae.files.sources import InputFile
from vsae.files.storage import FileError, FileFormat

_FEW_LEVELS = 2**7  # which any type of index can number
_AT_ONCE = 2**14  # rows that are decoded at a time


class ArrowBlocks(Blocks):
    """Their groups are what they call row groups and record batches."""

    formats: ClassVar[tuple[str, ...]] = ARROW_FORMATS

    def __init__(self, files: list[InputFile], format: FileFormat, cells: int | None = None) -> None:
        if format.compression:
            raise cannot_stream(str(files[0].path), f"a file with {format.compression} around it")
        self.files, self.format = files, format
        heads = [_Open.of(file, format.name) for file in files]
        self.schema = heads[0].schema
        for file, head in zip(files, heads, strict=True):
            self._check(file, head.schema)
        self.schema = self._unified(heads[0].pa, heads)
        self.columns = [*self.schema.names, *files[0].partitions]
        self.blocks = []
        most = max(1, (cells or blocks.CELLS) // max(1, len(self.columns)))
        for number, head in enumerate(heads):
            self._add(number, head.groups, most)

    def _check(self, file: InputFile, schema: Any) -> None:
        """The same columns in all files."""
        if twice := [*map(repr, repeated(schema.names))]:
            raise FileError(f"{file.path}: more than one column is called {', '.join(twice)}; rename them")
        if both := [name for name in file.partitions if name in schema.names]:
            raise FileError(f"{file.path}: column {both[0]!r} is in the file and in the name of its folder; drop one")
        first = self.files[0].path
        for field in self.schema:
            if field.name not in schema.names:
                raise FileError(f"{file.path}: column {field.name!r} is missing, which {first} has; add it")
        if extra := [name for name in schema.names if name not in self.schema.names]:
            raise FileError(f"{file.path}: column {extra[0]!r} is not in {first}; drop it, or add it there")

    def _unified(self, pa: Any, heads: Sequence[_Open]) -> Any:
        """The schema of the first file, with types that hold the values of all files."""
        fields = []
        for field in self.schema:
            kind = field.type
            for file, head in zip(self.files, heads, strict=True):
                found = head.schema.field(field.name).type
                common = kind if found == kind else _common(pa, kind, found)
                if common is None:
                    said = f"column {field.name!r} is {found}, and {kind} in files before it"
                    raise FileError(f"{file.path}: {said}; convert it")
                kind = common
            fields.append(field.with_type(kind))
        return pa.schema(fields, self.schema.metadata)

    def _add(self, file: int, groups: Sequence[int], most: int) -> None:
        """The blocks of a file whose groups have so many rows: small groups together, large ones in equal slices."""
        start = 0
        while start < len(groups):
            end, rows = start + 1, groups[start]
            while end < len(groups) and rows + groups[end] <= most:
                rows, end = rows + groups[end], end + 1
            slices = -(-rows // most)
            size = -(-rows // max(1, slices))
            for offset in range(0, rows, max(1, size)):
                first = self.blocks[-1].first_row + self.blocks[-1].rows if self.blocks else 0
                number = len(self.blocks)
                self.blocks.append(Block(number, file, first, min(size, rows - offset), start, end, offset))
            start = end

    def read(self, some: Sequence[Block]) -> Iterator[tuple[Block, FileTable]]:
        for (number, _, _), together in groupby(some, key=lambda block: (block.file, block.start, block.end)):
            file = self.files[number]
            with _Open.of(file, self.format.name) as source:
                for block, table in source.slices(list(together)):
                    yield block, self._table(file, table)

    def _table(self, file: InputFile, table: Any) -> FileTable:
        pa = import_pyarrow(str(file.path))
        table = self._with_types(pa, file, table)
        for name, kind in self._partition_types.items():
            said = file.partitions[name]
            value = pa.scalar(None if said is None else int(said) if kind == pa.int64() else said, type=kind)
            table = table.append_column(name, pa.repeat(value, table.num_rows))
        return FileTable(table, self.format, None, (), ArrowFile())

    def _with_types(self, pa: Any, file: InputFile, table: Any) -> Any:
        """The table with the types that all files have together; a value that would become another is refused."""
        for field in self.schema:
            place, column = table.schema.get_field_index(field.name), table[field.name]
            if column.type == field.type:
                continue
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            try:
                column = column.cast(field.type)
            except pa.ArrowException as error:
                said = f"column {field.name!r} cannot be {field.type}, as in other files ({error})"
                raise FileError(f"{file.path}: {said}; convert it") from None
            table = table.set_column(place, table.schema.field(place).with_type(field.type), column)
        return table

    @cached_property
    def _partition_types(self) -> dict[str, Any]:
        """Whole numbers where all folders have such."""
        pa = import_pyarrow(str(self.files[0].path))
        types = {}
        for name in self.files[0].partitions:
            said = [file.partitions[name] for file in self.files]
            whole = all(value is None or value.lstrip("-").isdigit() for value in said)
            types[name] = pa.int64() if whole else pa.string()
        return types

    @property
    def style(self) -> str:
        return str(self.schema.remove_metadata())

    def part(self, block: Block, table: FileTable, filled: Any, *, whole: bool = False) -> bytes:
        """As a file of Arrow, which keeps all that there is to a column."""
        pa, data = import_pyarrow("a part"), cast(Any, table.data)
        filled = filled.select([name for name in data.column_names if name in filled.column_names])
        if filled.schema.equals(data.schema):  # which does not look at metadata: that of the fields comes back here
            filled = type(filled).from_arrays(filled.columns, schema=data.schema)
        filled = filled.replace_schema_metadata(data.schema.metadata).unify_dictionaries()
        sink = io.BytesIO()
        with pa.ipc.new_file(sink, filled.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(filled.combine_chunks())
        return sink.getvalue()

    def join(self, parts: Sequence[Path], beside: Path, format: FileFormat, *, whole: bool) -> None:
        pa = import_pyarrow(str(beside))
        partitions = self._partition_types if whole else {}
        kept = self._kept_schema(pa, parts[0] if parts else None)
        names = [*self.schema.names, *partitions]
        schema = pa.schema([kept.field(name) for name in names], kept.metadata)
        writes = pa.parquet.ParquetWriter if format.name == "parquet" else pa.ipc.new_file
        levels = {} if format.name == "parquet" else _levels(pa, parts, schema)
        for name, values in levels.items():
            kind = _dictionary_of(pa, schema.field(name).type, len(values))
            schema = schema.set(schema.get_field_index(name), schema.field(name).with_type(kind))
        with writes(str(beside), schema) as writer:
            for path in parts:
                with _part(pa, path) as source:
                    table = source.read_all().select(names)
                    for name, values in levels.items():
                        column = _recoded(pa, table[name], values, schema.field(name).type)
                        table = table.set_column(names.index(name), schema.field(name), column)
                    writer.write_table(table if table.schema.equals(schema) else table.cast(schema))

    def _kept_schema(self, pa: Any, part: Path | None) -> Any:
        """That of a filled block; of files without rows, there is none."""
        if part is None:
            partitions = [pa.field(name, kind) for name, kind in self._partition_types.items()]
            return pa.schema([*self.schema, *partitions], self.schema.metadata)
        with _part(pa, part) as first:
            return first.schema

    def check_format(self, where: str, format: FileFormat, *, whole: bool) -> None:
        if format.name not in ARROW_FORMATS or format.compression:
            raise FileError(
                f"{where}: a {self.format.name} file that is read in blocks is written as .parquet or .feather"
            )


class _Open:
    """An open file of groups of rows; its errors name it."""

    def __init__(self, file: InputFile, pa: Any, source: Any, schema: Any, groups: list[int]) -> None:
        self.file, self.pa, self.source, self.schema, self.groups = file, pa, source, schema, groups

    @classmethod
    def of(cls, file: InputFile, format: str) -> _Open:
        pa = import_pyarrow(str(file.path))
        try:
            if format == "parquet":
                source = pa.parquet.ParquetFile(str(file.path), buffer_size=2**20, pre_buffer=False)
                groups = [source.metadata.row_group(i).num_rows for i in range(source.num_row_groups)]
                return cls(file, pa, source, source.schema_arrow, groups)
            source = pa.ipc.open_file(pa.memory_map(str(file.path)))
            groups = [source.get_batch(i).num_rows for i in range(source.num_record_batches)]
            return cls(file, pa, source, source.schema, groups)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _damaged(file, f"this is not a {format.title()} file, or it is damaged", error) from None

    def slices(self, blocks: Sequence[Block]) -> Iterator[tuple[Block, Any]]:
        """Of the same groups, in order; a large group is never in memory as a whole."""
        first, last = blocks[0].start, blocks[0].end
        where = f"row group {first + 1}" if last == first + 1 else f"one of the row groups {first + 1} to {last}"
        try:
            yield from self._slices(blocks)
        except (self.pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, FileError):
                raise
            raise _damaged(self.file, f"{where} cannot be read", error) from None

    def _slices(self, blocks: Sequence[Block]) -> Iterator[tuple[Block, Any]]:
        groups = list(range(blocks[0].start, blocks[0].end))
        if len(groups) > 1 or blocks[0].rows == self.groups[groups[0]]:
            yield blocks[0], self._groups(groups)
            return
        kept: list[Any] = []
        batches, at = self._batches(groups[0]), 0  # `at`: rows before those that are kept
        for block in blocks:
            while at + sum(batch.num_rows for batch in kept) < block.offset + block.rows:
                while kept and at + kept[0].num_rows <= block.offset:
                    at += kept.pop(0).num_rows
                kept.append(_next(batches))
            yield block, self.pa.Table.from_batches(kept).slice(block.offset - at, block.rows)

    def _groups(self, groups: list[int]) -> Any:
        if hasattr(self.source, "read_row_groups"):
            return self.source.read_row_groups(groups, use_threads=False)
        return self.pa.Table.from_batches([self.source.get_batch(i) for i in groups])

    def _batches(self, group: int) -> Iterator[Any]:
        if hasattr(self.source, "iter_batches"):
            return iter(self.source.iter_batches(batch_size=_AT_ONCE, row_groups=[group], use_threads=False))
        return iter([self.source.get_batch(group)])

    def __enter__(self) -> _Open:
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self.source, "close"):
            self.source.close()


def _next(batches: Iterator[Any]) -> Any:
    for batch in batches:
        return batch
    raise ValueError("it has fewer rows than its header says")


@contextmanager
def _part(pa: Any, path: Path) -> Iterator[Any]:
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as source:
        yield source


def _levels(pa: Any, parts: Sequence[Path], schema: Any) -> dict[str, Any]:
    """The values of all dictionaries of a column: a Feather file has one dictionary a column, and parts differ."""
    found: dict[str, Any] = {}
    names = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    for path in parts if names else ():
        with _part(pa, path) as source:
            table = source.read_all()
            for name in names:
                values = [chunk.dictionary for chunk in table[name].chunks]
                known = [found[name]] if name in found else []
                if known or values:
                    found[name] = pa.concat_arrays([*known, *values]).unique()
    return found


def _dictionary_of(pa: Any, kind: Any, levels: int) -> Any:
    index = kind.index_type if levels <= _FEW_LEVELS else pa.int32()
    return pa.dictionary(index, kind.value_type, kind.ordered)


def _recoded(pa: Any, column: Any, levels: Any, kind: Any) -> Any:
    """A column by numbers of the levels."""
    numbers = pa.compute.index_in
    chunks = [numbers(c.dictionary, levels).take(c.indices).cast(kind.index_type) for c in column.chunks]
    recoded = [pa.DictionaryArray.from_arrays(chunk, levels, ordered=kind.ordered) for chunk in chunks]
    return pa.chunked_array(recoded, type=kind)


def _common(pa: Any, one: Any, other: Any) -> Any | None:
    """The type that holds what two types hold, value for value; None where there is none."""
    if pa.types.is_null(one) or pa.types.is_null(other):
        return other if pa.types.is_null(one) else one
    dictionaries = [kind for kind in (one, other) if pa.types.is_dictionary(kind)]
    if any(kind.ordered for kind in dictionaries):  # levels in another order, or in none, are others
        return None
    one, other = (kind.value_type if kind in dictionaries else kind for kind in (one, other))
    if _family(pa, one) != _family(pa, other):
        return None
    try:
        schemas = [pa.schema([("", kind)]) for kind in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None


def _family(pa: Any, kind: Any) -> Any:
    """What types are of one kind but for how many bytes they take."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else kind.id


def _damaged(file: InputFile, what: str, error: Exception) -> FileError:
    said = str(error).partition("\n")[0] or type(error).__name__
    return FileError(f"{file.path}: {what} ({said})")
