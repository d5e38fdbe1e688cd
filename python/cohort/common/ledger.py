"""Writes the data ledger of a training: which samples entered which update. `cohort ledger verify` reads it.

The bytes are those of docs/formats.md, "The data ledger". One write() a record, which a killed process has made or
not. Not for several threads at a time.
"""

from __future__ import annotations

import os
import pathlib
import struct
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

MAGIC = b"COHLEDG1"
HEADER_BYTES = 64
_FIXED = struct.Struct("<BIQQQ")  # kind, epoch, step, first, view
_UPDATE, _REWIND = 1, 2


def _make_table() -> List[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _make_table()


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


class Plan(NamedTuple):
    """What all records of a ledger are about: how an epoch's samples are numbered and cut."""

    samples: int  # in an epoch
    batch: int  # of a step
    shards: int  # of a step
    seed: int
    shuffle: bool
    steps_per_epoch: int = 0  # fewer than all samples need: the rest is unused; 0: as many as they need

    def encode(self) -> bytes:
        if self.samples < 0 or not 0 < self.batch < 1 << 32 or not 0 < self.shards <= 1 << 16:
            raise ValueError(
                f"no ledger can be of {self.samples} samples, batches of {self.batch}, {self.shards} shards"
            )
        fields = struct.pack(
            "<qqIIQq12x",
            self.samples,
            self.batch,
            self.shards,
            int(self.shuffle),
            self.seed & (1 << 64) - 1,
            self.steps_per_epoch,
        )
        return MAGIC + fields + struct.pack("<I", crc32c(MAGIC + fields))

    def count_format(self) -> str:
        return "B" if self.batch < 1 << 8 else "H" if self.batch < 1 << 16 else "I"

    def tail(self) -> struct.Struct:
        """Of a record: samples of each shard, then who computed it."""
        return struct.Struct(
            f"<{self.shards}{self.count_format()}{self.shards}{'B' if self.shards <= 1 << 8 else 'H'}"
        )

    def record_bytes(self) -> int:
        return 4 + _FIXED.size + self.tail().size


class Record(NamedTuple):
    """One update. It took the places [first, first + sum of counts) of the epoch's order, shard after shard."""

    epoch: int
    step: int  # of the whole training
    first: int
    view: int
    counts: Tuple[int, ...]  # samples of each shard
    owners: Tuple[int, ...]  # the rank, in `view`, that computed each shard


def encode_record(plan: Plan, kind: int, record: Record) -> bytes:
    rest = _FIXED.pack(kind, record.epoch, record.step, record.first, record.view)
    rest += plan.tail().pack(*record.counts, *record.owners)
    return struct.pack("<I", crc32c(rest)) + rest


class LedgerWriter:
    """Appends to the ledger at `path`, or begins one; a torn end is cut off.

    ValueError when the file is of another plan, or no ledger; OSError from the disk.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"], plan: Plan) -> None:
        self.path, self.plan = pathlib.Path(path), plan
        self.last_step: Optional[int] = None  # the last update that counts, before the one to which rewind() went
        self.last_view = 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            self._begin_or_check()
        except BaseException:
            self.close()
            raise

    def _begin_or_check(self) -> None:
        header, size = self.plan.encode(), os.fstat(self._file).st_size
        there = os.pread(self._file, HEADER_BYTES, 0)
        if not there or len(there) < HEADER_BYTES and header.startswith(there):
            os.ftruncate(self._file, 0)
            os.write(self._file, header)
            return
        if there != header:
            kind = "the ledger of another training" if there.startswith(MAGIC) else "no ledger"
            raise ValueError(
                f"'{self.path}' is {kind}: samples, batch_size, shards, shuffle, seed and drop_last must be as they "
                "were. "
                "Give ledger= another path, or remove the file"
            )
        length = self.plan.record_bytes()
        whole = (size - HEADER_BYTES) // length
        while whole and not self._is_valid(whole - 1):
            whole -= 1
        os.ftruncate(self._file, HEADER_BYTES + whole * length)
        self._find_last(whole)

    def _read(self, number: int) -> bytes:
        length = self.plan.record_bytes()
        return os.pread(self._file, length, HEADER_BYTES + number * length)

    def _is_valid(self, number: int) -> bool:
        record = self._read(number)
        return bool(struct.unpack_from("<I", record)[0] == crc32c(record[4:]))

    def _find_last(self, count: int) -> None:
        """So far from the end a record may stand that a rank wrote after it had been shut out."""
        for number in range(count - 1, max(0, count - 64) - 1, -1):
            kind, _, step, _, view = _FIXED.unpack_from(self._read(number), 4)
            if kind == _REWIND:
                self._note(step - 1, 0)
                return
            self._note(step, view)

    def _note(self, step: int, view: int) -> None:
        if step >= 0 and (self.last_step is None or (step, view) > (self.last_step, self.last_view)):
            self.last_step, self.last_view = step, view

    def append(self, record: Record) -> None:
        if len(record.counts) != self.plan.shards or len(record.owners) != self.plan.shards:
            raise ValueError(
                f"step {record.step} has {len(record.counts)} counts and {len(record.owners)} owners for "
                f"{self.plan.shards} shards"
            )
        self._write(encode_record(self.plan, _UPDATE, record))
        self._note(record.step, record.view)

    def rewind(self, step: int) -> None:
        """Training goes on from an earlier step: the next record is of `step`."""
        none: Sequence[int] = (0,) * self.plan.shards
        self._write(encode_record(self.plan, _REWIND, Record(0, step, 0, 0, tuple(none), tuple(none))))
        self.last_step, self.last_view = (step - 1 if step else None), 0

    def lacks(self, record: Record) -> bool:
        """Whether neither this update nor a later one, nor the same step of a later view, is there."""
        return self.last_step is None or (record.step, record.view) > (self.last_step, self.last_view)

    def sync(self) -> None:
        os.fsync(self._file)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, data: bytes) -> None:
        written = os.write(self._file, data)
        if written != len(data):
            raise OSError(
                f"'{self.path}': {written} of {len(data)} bytes of a record were written: is the disk full?"
            )
