#include "cohort/train/data/tar_samples.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/test_folder_test.h"

namespace cohort::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string padded_tar(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512, '\0');
  return bytes;
}

std::string tar_header(const std::string& name, std::uint64_t bytes, char type = '0',
                       const std::string& prefix = "", bool gnu = false) {
  std::string block(512, '\0');
  const auto put_text = [&](std::size_t at, const std::string& text) {
    block.replace(at, text.size(), text);
  };
  put_text(0, name.substr(0, 100));
  put_text(100, "0000644");
  put_text(124, fmt::format("{:011o}", bytes));
  put_text(136, "00000000000");
  put_text(148, "        ");
  block[156] = type;
  put_text(257, gnu ? std::string("ustar  \0", 8) : std::string("ustar\00000", 8));
  put_text(345, prefix);
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  put_text(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return block;
}

std::string tar_file(const std::string& name, const std::string& content,
                     const std::string& prefix = "") {
  return tar_header(name, content.size(), '0', prefix) + padded_tar(content);
}

std::string pax_header(const std::string& records) {
  return tar_header("pax", records.size(), 'x') + padded_tar(records);
}

const std::string kTarEnd(1024, '\0');

class TarSamplesTest : public DataTest {
 protected:
  std::filesystem::path put_tar(const std::string& name, const std::string& bytes) const {
    write_file_atomically(folder_ / name, bytes);
    return folder_ / name;
  }
  std::string complaint(const std::string& bytes) const {
    const auto path = put_tar("bad.tar", bytes);
    return message_of<InvalidInput>([&] { TarSamples samples({path}); });
  }
};

TEST_F(TarSamplesTest, FilesOfOneNameAreASample) {
  const auto path = put_tar(
      "a.tar",
      tar_header("dir/", 0, '5') + tar_file("dir/0001.txt", "one") + tar_file("dir/0001.cls", "7") +
          tar_file("dir/0002.seg.PNG", std::string(600, 'x')) + tar_file("README", "no dot") +
          tar_file("dir/.hidden", "") + tar_header("dir/0002.link", 0, '2') +
          tar_file("v1.2/0003.txt", "") + kTarEnd + "trailing");
  const TarSamples samples({path, put_tar("b.tar", tar_file("0003.txt", "three"))});
  ASSERT_EQ(samples.size(), 4);
  const TarSample first = samples.read(0);
  EXPECT_EQ(first.key, "dir/0001");
  EXPECT_THAT(first.files, ElementsAre(Pair("cls", "7"), Pair("txt", "one")));
  EXPECT_THAT(samples.read(1).files, ElementsAre(Pair("seg.png", std::string(600, 'x'))));
  EXPECT_EQ(samples.read(2).key, "v1.2/0003");
  EXPECT_THAT(samples.read(3).files, ElementsAre(Pair("txt", "three")));
  EXPECT_THAT(message_of<InvalidInput>([&] { first.file("npy"); }),
              HasSubstr("sample 'dir/0001' at byte 512 has no .npy; it has .cls, .txt"));
  EXPECT_THROW(samples.read(4), InvalidInput);
}

TEST_F(TarSamplesTest, LongNamesComeInThreeWays) {
  const std::string folder(140, 'd'), name(90, 'n');
  const std::string full = folder + "/" + name;
  const std::string record = fmt::format(" path={}.c\n", full);
  const auto path = put_tar(
      "a.tar", tar_file(name + ".a", "ustar", folder) +
                   tar_header("././@LongLink", full.size() + 3, 'L') +
                   padded_tar(full + ".b" + std::string(1, '\0')) + tar_file("short.b", "gnu") +
                   pax_header(fmt::format("{}{}", record.size() + 3, record)) +
                   tar_file("short.c", "pax") + kTarEnd);
  const TarSamples samples({path});
  ASSERT_EQ(samples.size(), 1);
  EXPECT_EQ(samples.read(0).key, full);
  EXPECT_THAT(samples.read(0).files,
              ElementsAre(Pair("a", "ustar"), Pair("b", "gnu"), Pair("c", "pax")));
}

TEST_F(TarSamplesTest, APaxHeaderAndABinaryNumberSayLargeSizes) {
  std::string binary = tar_header("x.b", 0);
  binary.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x04", 12));
  binary.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char byte : binary) sum += static_cast<unsigned char>(byte);
  binary.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  const auto path = put_tar("a.tar", pax_header("9 size=3\n") + tar_header("x.a", 0) +
                                         padded_tar("abc") + binary + padded_tar("defg"));
  EXPECT_THAT(TarSamples({path}).read(0).files, ElementsAre(Pair("a", "abc"), Pair("b", "defg")));
}

TEST_F(TarSamplesTest, DamageIsNamedWithItsOffset) {
  const std::string good = tar_file("0.txt", "hello") + tar_file("1.txt", "again");
  EXPECT_THAT(complaint(good.substr(0, 1024 + 100)), HasSubstr("at byte 1024: the archive is cut"));
  EXPECT_THAT(complaint(good.substr(0, 1024 + 514)),
              HasSubstr("at byte 1024: a member of 5 bytes goes past the archive's end at 1538"));
  std::string flipped = good;
  flipped[1025] = 'X';
  EXPECT_THAT(complaint(flipped), HasSubstr("at byte 1024: a header's checksum is"));
  EXPECT_THAT(complaint(std::string(1024, 'x')), HasSubstr("at byte 0: no tar header"));
  EXPECT_THAT(complaint("\x1f\x8b" + good), HasSubstr("at byte 0: the archive is compressed"));
  EXPECT_THAT(complaint(tar_file("0.txt", "a") + tar_file("0.txt", "b")),
              HasSubstr("at byte 1024: sample '0' has .txt twice"));
  EXPECT_THAT(complaint(pax_header("99 path=x\n") + good), HasSubstr("a damaged pax header"));
  EXPECT_THAT(complaint(tar_header("x", 2 << 20, 'L') + std::string(3 << 20, 'x')),
              HasSubstr("a name of 2097152 bytes"));
  EXPECT_THAT(complaint(tar_header("x", 0, 'S')), HasSubstr("a sparse file"));
  EXPECT_THAT(complaint(kTarEnd), HasSubstr("have no samples"));
  EXPECT_THAT(complaint(""), HasSubstr("have no samples"));
  EXPECT_THAT(message_of<InvalidInput>([&] { TarSamples samples({folder_ / "none.tar"}); }),
              HasSubstr("cannot be opened"));
}

TEST_F(TarSamplesTest, EveryFlippedByteOfAHeaderIsHandled) {
  const std::string good = pax_header("12 path=a.b\n") + tar_file("0.txt", "hello");
  for (std::size_t i = 0; i < good.size(); i += 5) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x51);
    const auto path = put_tar("bad.tar", bad);
    try {
      TarSamples({path}).read(0);
    } catch (const InvalidInput&) {
    }
  }
}

TEST_F(TarSamplesTest, NamesOpenNothing) {
  const auto path = put_tar("a.tar", tar_file("../../etc/passwd.txt", "data") +
                                         tar_file("/etc/shadow.txt", "more") + kTarEnd);
  const TarSamples samples({path});
  EXPECT_EQ(samples.read(0).key, "../../etc/passwd");
  EXPECT_EQ(samples.read(1).file("txt"), "more");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(TarSamplesTest, AnArchiveThatBecameShorterIsNamed) {
  const auto path = put_tar("a.tar", tar_file("0.txt", std::string(5000, 'x')));
  const TarSamples samples({path});
  std::filesystem::resize_file(path, 1000);
  EXPECT_THAT(message_of<InvalidInput>([&] { samples.read(0); }),
              HasSubstr("at byte 1000: the archive ends here: it has become shorter"));
}

TEST_F(TarSamplesTest, ThreadsReadAtOnce) {
  std::string bytes;
  for (int i = 0; i < 50; ++i)
    bytes += tar_file(fmt::format("{}.txt", i), fmt::format("text {}", i));
  const TarSamples samples({put_tar("a.tar", bytes)});
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        if (samples.read(i).file("txt") != fmt::format("text {}", i)) ++wrong;
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST_F(TarSamplesTest, ArchivesOfPythonAreRead) {
  if (std::system("python3 -c 'import tarfile' 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  std::ofstream(folder_ / "make.py") << R"(
import io, sys, tarfile
for name, form in (("u", tarfile.USTAR_FORMAT), ("g", tarfile.GNU_FORMAT), ("p", tarfile.PAX_FORMAT)):
    with tarfile.open(f"{sys.argv[1]}/{name}.tar", "w", format=form) as archive:
        for key in ("short", "d" * 80 + "/" + "n" * 80, "h\u00e9"):
            for extension, data in (("txt", key.encode()), ("cls", b"3")):
                info = tarfile.TarInfo(f"{key}.{extension}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
)";
  ASSERT_EQ(
      std::system(
          fmt::format("python3 {} {}", (folder_ / "make.py").string(), folder_.string()).c_str()),
      0);
  const TarSamples samples({folder_ / "u.tar", folder_ / "g.tar", folder_ / "p.tar"});
  ASSERT_EQ(samples.size(), 9);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(samples.read(i).file("txt"), samples.read(i).key);
}

}  // namespace
}  // namespace cohort::train
