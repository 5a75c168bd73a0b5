"""Packs that are small and become large: objects that inflate, deltas of deltas, trees that hold themselves many times over, chains
of tags. Written by hand, since git makes no such thing."""
import hashlib
import os
import random
import struct
import subprocess
import zlib

COMMIT, TREE, BLOB, TAG, REF_DELTA = 1, 2, 3, 4, 7
NAMES = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob", TAG: b"tag"}
ME = b"A <a@b> 1700000000 +0000"


class Repeat:
    """Bytes over and over, as one object that is never in memory as a whole."""

    def __init__(self, begin, unit, count):
        self.begin, self.unit, self.count = begin, unit, count

    def __len__(self):
        return len(self.begin) + len(self.unit) * self.count

    def __iter__(self):
        yield self.begin
        per = max(1, (1 << 20) // len(self.unit))
        big, left = self.unit * per, self.count
        while left:
            n = min(per, left)
            yield big if n == per else self.unit * n
            left -= n


class Pack:
    def __init__(self):
        self.parts, self.count = [], 0

    def put(self, kind, size, chunks, base=b""):
        head, size_left = [], size >> 4
        byte = kind << 4 | size & 15
        while size_left:
            head.append(byte | 128)
            byte, size_left = size_left & 127, size_left >> 7
        head.append(byte)
        packer = zlib.compressobj(9)
        body = b"".join(packer.compress(chunk) for chunk in chunks) + packer.flush()
        self.parts.append(bytes(head) + base + body)
        self.count += 1

    def add(self, kind, data):
        """data: bytes or Repeat. Its id, 20 bytes."""
        digest = hashlib.sha1(b"%s %d\0" % (NAMES[kind], len(data)))
        chunks = [data] if isinstance(data, bytes) else data
        for chunk in chunks:
            digest.update(chunk)
        self.put(kind, len(data), chunks)
        return digest.digest()

    def grow(self, kind, seed, times, levels):
        """An object of seed * times ** levels bytes, each level a delta of a few dozen bytes. The ids of all levels."""
        size, ids = len(seed), [self.add(kind, seed)]
        for level in range(1, levels + 1):
            delta = varint(size) + varint(size * times) + b"".join(copies(size) for _ in range(times))
            self.put(REF_DELTA, len(delta), [delta], base=ids[-1])
            size *= times
            digest = hashlib.sha1(b"%s %d\0" % (NAMES[kind], size))
            whole = seed * times ** min(level, 2)
            for _ in range(times ** max(0, level - 2)):
                digest.update(whole)
            ids.append(digest.digest())
        return ids

    def commit(self, tree, message=b"Do it\n", parents=()):
        lines = b"tree %s\n" % tree.hex().encode() + b"".join(b"parent %s\n" % p.hex().encode() for p in parents)
        head = lines + b"author %s\ncommitter %s\n\n" % (ME, ME)
        if isinstance(message, Repeat):
            return self.add(COMMIT, Repeat(head + message.begin, message.unit, message.count))
        return self.add(COMMIT, head + message)

    def tree(self, **entries):
        """name=(mode, id), names sorted."""
        return self.add(TREE, b"".join(b"%s %s\0%s" % (mode, name.encode(), oid) for name, (mode, oid) in entries.items()))

    def data(self):
        whole = b"PACK" + struct.pack(">II", 2, self.count) + b"".join(self.parts)
        return whole + hashlib.sha1(whole).digest()


def varint(value):
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def copies(size):
    """Delta instructions: all of the base once."""
    out, offset = b"", 0
    while offset < size:
        n = min(0xffffff, size - offset)
        where, much = struct.pack("<I", offset), struct.pack("<I", n)[:3]
        out += bytes([0x80 | 0x7f]) + where + much
        offset += n
    return out


def task(pack, blob, **more):
    return pack.tree(**{".agent": (b"40000", pack.tree(**{"task.md": (b"100644", blob)})), **more})


def grown_task(pack):
    """With the bases of its deltas, so that a server sends the deltas."""
    ids = pack.grow(BLOB, noise(), 16, 3)
    return task(pack, ids[-1], **{f"f{i}": (b"100644", oid) for i, oid in enumerate(ids)})


def small(pack):
    return pack.tree(a=(b"100644", pack.add(BLOB, b"a\n")))


def many_trees(pack):
    """Ten times ten times … : 10 ** 12 files in 13 objects."""
    oid, mode = pack.add(BLOB, b"a\n"), b"100644"
    for _ in range(12):
        oid, mode = pack.add(TREE, b"".join(b"%s d%d\0%s" % (mode, i, oid) for i in range(10))), b"40000"
    return oid


def deep_trees(pack):
    oid = small(pack)
    for _ in range(30000):
        oid = pack.tree(d=(b"40000", oid))
    return oid


def tags(pack, oid, count):
    kind = b"commit"
    for i in range(count):
        oid, kind = pack.add(TAG, b"object %s\ntype %s\ntag t%d\ntagger %s\n\nt\n" % (oid.hex().encode(), kind, i, ME)), b"tag"
    return oid


def chain(pack, count):
    tree, last = small(pack), ()
    for _ in range(count):
        last = (pack.commit(tree, parents=last),)
    return last[0]


def noise():
    return random.Random(1).randbytes(65536)  # further apart than zlib looks back


# name: what makes the tip of a ref
BOMBS = {
    "a file that inflates": lambda p: p.commit(task(p, p.add(BLOB, Repeat(b"", b"\0" * 65536, 16384)))),
    "a file of deltas of deltas": lambda p: p.commit(grown_task(p)),
    "a message that inflates": lambda p: p.commit(small(p), Repeat(b"Do it\n\n", b"a" * 65535 + b"\n", 8192)),
    "a commit with a million parents": lambda p: p.add(COMMIT, Repeat(
        b"tree %s\n" % small(p).hex().encode(), b"parent %s\n" % p.commit(small(p)).hex().encode(), 1000000)),
    "a tree of deltas of deltas": lambda p: p.commit(p.grow(TREE, b"".join(
        b"100644 f%04d\0" % i + p.add(BLOB, b"a\n") for i in range(2000)), 16, 3)[-1]),
    "trees that hold trees": lambda p: p.commit(many_trees(p)),
    "trees that are deep": lambda p: p.commit(deep_trees(p)),
    "a chain of tags": lambda p: tags(p, p.commit(small(p)), 50000),
    "a long history": lambda p: chain(p, 50000),
}


def plant(bare, ref, make, env=None):
    """Puts a bomb into a repository as it is, without git having looked into it: its pack's bytes; None: git does not take it."""
    pack = Pack()
    tip = make(pack)
    data = pack.data()
    done = subprocess.run(["git", "index-pack", "--stdin", "--threads=1"], cwd=bare, env=env, input=data, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        return None
    path = os.path.join(bare, ref)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(tip.hex() + "\n")
    return len(data)
