"""Files of rows, as another program writes and reads them: one suite for all their formats."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

Rows = Sequence[dict[str, Any]]
SYNC = b"a marker of ours"


@dataclass(frozen=True)
class Format:
    name: str
    suffix: str
    write: Callable[[Path, Rows], Path]
    read: Callable[[Path], list[dict[str, Any]]]

    def file(self, directory: Path, rows: Rows, name: str = "in") -> Path:
        return self.write(directory / f"{name}{self.suffix}", rows)


def write_csv(path: Path, rows: Rows) -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(text.getvalue().encode())
    return path


def read_csv(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_avro(path: Path, rows: Rows) -> Path:
    fields = [{"name": name, "type": "string"} for name in rows[0]]
    schema = {"type": "record", "name": "Row", "fields": fields}
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, codec="deflate", sync_interval=2_000, sync_marker=SYNC)
    return path


def read_avro(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


def write_parquet(path: Path, rows: Rows) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=90)
    return path


def read_parquet(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist()


FORMATS = [
    Format("csv", ".csv", write_csv, read_csv),
    Format("avro", ".avro", write_avro, read_avro),
    Format("parquet", ".parquet", write_parquet, read_parquet),
]
