#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sides of `leat bench file` in Python: leat-peer-file.py WAY[:THREADS] DEVICE

  numpy    numpy.fromfile, and on a GPU a copy by torch or CuPy
  torch    torch.cuda.gds, into a GPU's memory
  kvikio   kvikio.CuFile.pread with so many threads

Asked by lines, as bench/file_slice.h has it. What is not there is said in the answer.
"""
import os
import sys
import time

BLOCK = 4096
MASK = (1 << 64) - 1


def range_offset(seed, i, size, count):
    x = ((seed + i) * 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return (x ^ (x >> 31)) % ((size - count) // BLOCK + 1) * BLOCK


class Numpy:
    """The whole of a call at once; ranges one by one."""

    def __init__(self, threads, device):
        import numpy

        self.numpy, self.gpu, self.torch = numpy, None, None
        if device != "cpu":
            import torch

            self.torch, self.gpu = torch, torch.device(device)

    def open(self, path, direct):
        if direct:
            raise RuntimeError("numpy reads through the page cache only")
        self.path = path

    def memory(self, count):
        if self.gpu:
            self.room = self.torch.empty(count, dtype=self.torch.uint8, device=self.gpu)
        else:
            self.room = self.numpy.empty(count, dtype=self.numpy.uint8)

    def read(self, at, offset, count):
        got = self.numpy.fromfile(self.path, dtype=self.numpy.uint8, count=count, offset=offset)
        if self.gpu:
            self.room[at : at + count].copy_(self.torch.from_numpy(got))
        else:
            self.room[at : at + count] = got

    def finish(self):
        if self.gpu:
            self.torch.cuda.synchronize(self.gpu)

    def look(self, at):
        return bytes(self.room[at : at + 8].tolist())


class Torch(Numpy):
    """torch.cuda.gds reads whole storages of a GPU."""

    def __init__(self, threads, device):
        super().__init__(threads, device)
        if not self.gpu:
            raise RuntimeError("torch.cuda.gds reads into memory of a GPU")
        self.file = None

    def open(self, path, direct):
        self.file = self.torch.cuda.gds.GdsFile(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))

    def memory(self, count):
        self.pieces = {}

    def read(self, at, offset, count):
        piece = self.pieces.get(at)
        if piece is None or piece.numel() != count:
            piece = self.torch.empty(count, dtype=self.torch.uint8, device=self.gpu)
            self.pieces[at] = piece
        self.file.load_storage(piece.untyped_storage(), offset)

    def look(self, at):
        return bytes(self.pieces[at][:8].tolist())


class Kvikio(Numpy):
    """Memory is CuPy's, or torch's where only that is there."""

    def __init__(self, threads, device):
        if device == "cpu":
            raise RuntimeError("KvikIO is measured on a GPU")
        import kvikio
        import kvikio.defaults

        self.kvikio, self.file, self.waiting = kvikio, None, []
        number = int(device.partition(":")[2] or 0)
        try:
            import cupy

            cupy.cuda.Device(number).use()
            self.empty = lambda count: cupy.empty(count, dtype=cupy.uint8)
        except ImportError:
            import torch

            torch.cuda.set_device(number)
            self.empty = lambda count: torch.empty(count, dtype=torch.uint8, device=device)
        if hasattr(kvikio.defaults, "set"):
            kvikio.defaults.set({"num_threads": threads})
        else:
            kvikio.defaults.num_threads_reset(threads)

    def open(self, path, direct):
        if direct and hasattr(self.kvikio.defaults, "set"):
            self.kvikio.defaults.set({"auto_direct_io_read": True})
        self.file = self.kvikio.CuFile(path, "r")

    def memory(self, count):
        self.room = self.empty(count)

    def read(self, at, offset, count):
        self.waiting.append((self.file.pread(self.room[at : at + count], count, offset), count))

    def finish(self):
        for future, count in self.waiting:
            if future.get() != count:
                raise RuntimeError("a short read")
        self.waiting = []

    def look(self, at):
        return bytes(self.room[at : at + 8].tolist())


class Side:
    def __init__(self, make):
        self.make, self.way, self.opened, self.room = make, None, None, 0

    def serve(self, what, state, count, depth, repeat, seed, path):
        if self.way is None:
            self.way = self.make()
        way, size = self.way, os.path.getsize(path)
        if self.opened != (path, state):
            way.open(path, state == "direct")
            self.opened = (path, state)
        if self.room < count * depth:
            way.memory(count * depth)
            self.room = count * depth
        if what == "ranges":
            offsets = [range_offset(seed, i, size, count) for i in range(depth)]
        begin = time.perf_counter_ns()
        if what == "ranges":
            for _ in range(repeat):
                for i, offset in enumerate(offsets):
                    way.read(i * count, offset, count)
                way.finish()
            last = depth - 1
            offset = offsets[last]
        else:
            calls = size // count
            for i in range(repeat):
                offset = (seed + i) % calls * count
                way.read(i % depth * count, offset, count)
                if i % depth == depth - 1:
                    way.finish()
            way.finish()
            last = (repeat - 1) % depth
        took = time.perf_counter_ns() - begin
        if count >= 8 and way.look(last * count) != offset.to_bytes(8, "little"):
            raise RuntimeError("the bytes are not those of this place of the file")
        return took


def main():
    name, _, threads = sys.argv[1].partition(":")
    kinds = {"numpy": Numpy, "torch": Torch, "kvikio": Kvikio}
    side = Side(lambda: kinds[name](int(threads or 1), sys.argv[2]))
    for line in sys.stdin:
        what, state, *numbers, path = line.rstrip("\n").split(" ", 6)
        try:
            answer = str(side.serve(what, state, *map(int, numbers), path))
        except Exception as error:  # whatever a library throws is the answer
            answer = "error " + (str(error) or type(error).__name__).split("\n")[0][:200]
        print(answer, flush=True)


if __name__ == "__main__":
    main()
