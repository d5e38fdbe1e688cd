#include "cohort/base/crypto/secret.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort {
namespace {

constexpr std::size_t kTextSize = 2 * Secret::kSize;
constexpr const char* kHowToMakeOne =
    "Make one with: (umask 077; openssl rand -hex 32 > FILE), and set COHORT_SECRET_FILE=FILE.";

// The digits of a secret on their way in or out; overwritten when destroyed.
struct DigitBuffer {
  std::array<char, kTextSize + 32> data{};  // room for a line end, and to notice a text too long
  ~DigitBuffer() { wipe(data.data(), data.size()); }
};

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::size_t read_at_start(int fd, DigitBuffer& buffer, const std::string& source) {
  std::size_t size = 0;
  while (size < buffer.data.size()) {
    ssize_t count =
        ::pread(fd, buffer.data.data() + size, buffer.data.size() - size, static_cast<off_t>(size));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw InvalidInput(fmt::format("cannot read the job's secret from {}: {}", source,
                                     SystemError("read", errno).message()),
                         {.advice = kHowToMakeOne});
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  return size;
}

void put_digits(const std::array<std::uint8_t, Secret::kSize>& bytes, char* text) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text[2 * i] = kDigits[bytes[i] >> 4];
    text[2 * i + 1] = kDigits[bytes[i] & 15];
  }
}

void write_digits(int fd, const std::array<std::uint8_t, Secret::kSize>& bytes,
                  const std::string& target) {
  DigitBuffer text;
  put_digits(bytes, text.data.data());
  text.data[kTextSize] = '\n';
  std::size_t done = 0;
  while (done < kTextSize + 1) {
    ssize_t count = ::write(fd, text.data.data() + done, kTextSize + 1 - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw SystemError(fmt::format("cannot write the job's secret to {}", target), errno);
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace

Secret::~Secret() { wipe(bytes_.data(), bytes_.size()); }

Secret Secret::generate() {
  Secret secret;
  fill_random(secret.bytes_.data(), secret.bytes_.size());
  return secret;
}

Secret Secret::from_text(std::string_view text, const std::string& source) {
  text = trim(text);
  Secret secret;
  bool valid = text.size() == kTextSize;
  std::uint8_t any = 0;
  for (std::size_t i = 0; valid && i < kSize; ++i) {
    int high = digit_value(text[2 * i]);
    int low = digit_value(text[2 * i + 1]);
    valid = high >= 0 && low >= 0;
    secret.bytes_[i] = static_cast<std::uint8_t>(high << 4 | low);
    any |= secret.bytes_[i];
  }
  if (!valid)
    throw InvalidInput(
        fmt::format("the job's secret in {} is not {} hexadecimal digits", source, kTextSize),
        {.advice = kHowToMakeOne});
  if (any == 0)
    throw InvalidInput(fmt::format("the job's secret in {} is all zeros", source),
                       {.advice = kHowToMakeOne});
  return secret;
}

std::string Secret::to_text() const {
  std::string text(kTextSize, '\0');
  put_digits(bytes_, text.data());
  return text;
}

Secret Secret::from_fd(int fd) {
  std::string source = fmt::format("file descriptor {}", fd);
  DigitBuffer buffer;
  std::size_t size = read_at_start(fd, buffer, source);
  return from_text({buffer.data.data(), size}, source);
}

Secret Secret::from_file(const std::filesystem::path& path) {
  std::string source = fmt::format("'{}'", path.string());
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0)
    throw InvalidInput(
        SystemError(fmt::format("cannot open the job's secret {}", source), errno).message(),
        {.advice = kHowToMakeOne});
  if (!S_ISREG(status.st_mode))
    throw InvalidInput(fmt::format("the job's secret {} is not a regular file", source),
                       {.advice = kHowToMakeOne});
  if ((status.st_mode & 077) != 0)
    throw InvalidInput(fmt::format("the job's secret {} is open to other users (mode {:04o})",
                                   source, status.st_mode & 07777),
                       {.advice = fmt::format("Run: chmod 600 {}", shell_quote(path.string()))});
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    throw InvalidInput(
        fmt::format("the job's secret {} belongs to another user (uid {})", source, status.st_uid),
        {.advice = kHowToMakeOne});
  DigitBuffer buffer;
  std::size_t size = read_at_start(fd.get(), buffer, source);
  return from_text({buffer.data.data(), size}, source);
}

std::optional<Secret> Secret::from_variables(const std::optional<std::string>& fd,
                                             const std::optional<std::string>& file) {
  if (fd && !fd->empty()) {
    auto number = parse_unsigned(*fd);
    if (!number || *number > 1'000'000'000)
      throw InvalidInput(fmt::format("COHORT_SECRET_FD is '{}', not a file descriptor", *fd),
                         {.advice = "Unset it, or let `cohort run` start the program."});
    return from_fd(static_cast<int>(*number));
  }
  if (file && !file->empty()) return from_file(*file);
  return std::nullopt;
}

UniqueFd Secret::to_memfd() const {
  UniqueFd fd(::memfd_create("cohort-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw SystemError("cannot create a memory file for the job's secret", errno);
  write_digits(fd.get(), bytes_, "a memory file");
  constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    throw SystemError("cannot seal the job's secret", errno);
  return fd;
}

void Secret::write_file(const std::filesystem::path& path) const {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd)
    throw SystemError(
        fmt::format("cannot create the file '{}' for the job's secret", path.string()), errno);
  write_digits(fd.get(), bytes_, fmt::format("'{}'", path.string()));
}

}  // namespace cohort
