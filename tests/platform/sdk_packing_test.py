"""Packed source folders: the same files give the same bytes; what is left out, and what is refused."""

import os
import tarfile
import unittest

from sdk_fake import SdkTest

from cohort import SourceError, packing


class Packing(SdkTest):
    def tree(self, *names, at=0):
        folder = self.folder / f"tree{at}"
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
        return folder

    def names(self, folder):
        with packing.pack(folder) as packed, tarfile.open(packed.file) as archive:
            return [member.name for member in archive if member.isfile()]

    def test_the_same_files_give_the_same_bytes(self):
        hashes = []
        for at, names in enumerate([["b", "a/x", "a/y"], ["a/y", "b", "a/x"]]):
            folder = self.tree(*names, at=at)
            os.utime(folder / "b", (at * 1000, at * 1000))
            (folder / "b").chmod(0o640 if at else 0o604)
            with packing.pack(folder) as packed:
                hashes.append(packed.sha256)
                with tarfile.open(packed.file) as archive:
                    members = archive.getmembers()
        self.assertEqual(hashes[0], hashes[1])
        self.assertEqual([member.name for member in members], ["a", "a/x", "a/y", "b"])
        self.assertEqual({(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members}, {(0, 0, 0, "", "")})
        self.assertEqual({member.mode for member in members if member.isfile()}, {0o644})
        (folder / "b").chmod(0o755)
        with packing.pack(folder) as packed:
            self.assertNotEqual(packed.sha256, hashes[0])
        self.assertFalse(packed.file.exists())

    def test_histories_caches_and_environments_stay_out(self):
        folder = self.tree("train.py", ".git/config", "a/__pycache__/x.pyc", ".venv/bin/python", ".hidden")
        self.assertEqual(self.names(folder), [".hidden", "train.py"])

    def test_the_ignore_file_is_honoured(self):
        folder = self.tree("train.py", "big.bin", "keep.bin", "data/x", "a/data/x", "a/b/notes.txt", "notes.txt", "log",
                           "a/log/x", "docs/a/b.md", "docs/c.md", "[x]", "x1", "x2", "x3")  # fmt: skip
        (folder / ".cohortignore").write_text(
            "# comment\n\n*.bin\n!keep.bin\n/data\nlog/\na/**/notes.txt\ndocs/**/*.md\nx[12]\n\\[x\\]\n"
        )
        left = [".cohortignore", "a/data/x", "keep.bin", "log", "notes.txt", "train.py", "x3"]
        self.assertEqual(self.names(folder), left)

    def test_long_and_unusual_names_survive(self):
        names = ["ä ö/ü.py", "/".join(["folder" * 10] * 4) + "/" + "n" * 120, "new\nline"]
        self.assertEqual(set(self.names(self.tree(*names))), set(names))

    def test_links_are_followed_and_loops_refused(self):
        folder, outside = self.tree("train.py"), self.tree("helper.py", at=1)
        (folder / "helper.py").symlink_to(outside / "helper.py")
        (folder / "package").symlink_to(outside)
        self.assertEqual(self.names(folder), ["helper.py", "package/helper.py", "train.py"])
        (folder / "loop").symlink_to(folder)
        with self.assertRaisesRegex(SourceError, "loop is a link to a folder that holds it"):
            self.names(folder)
        (folder / "loop").unlink()
        (folder / "dangling").symlink_to("nothing")
        with self.assertRaisesRegex(SourceError, "dangling is a link to nothing"):
            self.names(folder)

    def test_what_cannot_be_packed_is_refused_by_name(self):
        folder = self.tree("train.py")
        os.mkfifo(folder / "pipe")
        with self.assertRaisesRegex(SourceError, "pipe is neither a file nor a folder"):
            self.names(folder)
        with self.assertRaisesRegex(SourceError, "nothing to pack"):
            self.names(self.tree(".git/x", at=1))

    def test_a_source_that_is_too_large_names_the_largest_files(self):
        folder, limit = self.tree("train.py"), packing.MAX_BYTES
        self.addCleanup(setattr, packing, "MAX_BYTES", limit)
        packing.MAX_BYTES = 1 << 20
        (folder / "weights").write_bytes(os.urandom(3 << 20))
        with self.assertRaisesRegex(SourceError, r"takes 3 MiB when packed, more than 1 MiB.*weights \(3 MiB\)"):
            self.names(folder)


if __name__ == "__main__":
    unittest.main()
