#include "cohort/jobspec/source/source_package.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <vector>

#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/jobspec/source/gzip.h"
#include "cohort/jobspec/source/ignore_rules.h"
#include "cohort/jobspec/source/tar_format.h"

namespace cohort::jobspec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIgnoreFile = ".cohortignore";
constexpr std::string_view kAlwaysIgnored = ".git\n__pycache__\n.venv\n";
constexpr std::size_t kCopyBuffer = 64 * 1024;
constexpr int kMostLinks = 40;  // as the system follows

[[noreturn]] void refuse_size(const std::string& what) {
  throw InvalidInput(
      what, {.advice = fmt::format("Name what a program does not need in {}.", kIgnoreFile)});
}

// Whether a relative path stays below the folder that it begins at, lexically.
bool stays_below(const fs::path& path) {
  if (path.empty() || path.is_absolute()) return false;
  return *path.lexically_normal().begin() != "..";
}

class Packer {
 public:
  Packer(const fs::path& top, const SourceLimits& limits)
      : top_(top), limits_(limits), rules_(rules_of(top)) {}

  PackedSource pack() {
    add_folder("");
    tar_.write(tar_end());
    PackedSource packed{.archive = tar_.finish(), .files = files_};
    check_packed(packed.archive.size());
    packed.id = sha256_hex(packed.archive);
    return packed;
  }

 private:
  static IgnoreRules rules_of(const fs::path& top) {
    std::string text(kAlwaysIgnored);
    if (fs::is_regular_file(top / kIgnoreFile)) text += read_file(top / kIgnoreFile);
    return IgnoreRules(text);
  }

  static std::string sha256_hex(std::string_view bytes) {
    Sha256 hash;
    hash.update(bytes);
    return to_hex(hash.finish());
  }

  void add_folder(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(top_ / folder))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) add(folder.empty() ? name : folder + "/" + name);
  }

  void add(const std::string& path) {
    const fs::file_status status = fs::symlink_status(top_ / path);
    const bool is_folder = fs::is_directory(status);
    if (rules_.ignores(path, is_folder)) return;
    if (++files_ > limits_.most_files)
      refuse_size(fmt::format("the source folder '{}' has more than {} files", top_.string(),
                              limits_.most_files));
    if (is_folder) {
      tar_.write(tar_header({.kind = TarEntry::Kind::folder, .path = path}));
      add_folder(path);
    } else if (fs::is_symlink(status)) {
      add_link(path);
    } else if (fs::is_regular_file(status)) {
      add_file(path, (status.permissions() & fs::perms::owner_exec) != fs::perms::none);
    } else {
      throw InvalidInput(fmt::format("'{}' of the source folder is no file, folder or link",
                                     escape_controls(path)),
                         {.advice = fmt::format("Remove it, or name it in {}.", kIgnoreFile)});
    }
  }

  void add_link(const std::string& path) {
    const fs::path target = fs::read_symlink(top_ / path);
    if (target.is_absolute() || !stays_below(fs::path(path).parent_path() / target))
      throw InvalidInput(fmt::format("the link '{}' of the source folder leads out of it, to '{}'",
                                     escape_controls(path), escape_controls(target.string())),
                         {.advice = fmt::format("Give data as an input channel, and name the link "
                                                "in {}.",
                                                kIgnoreFile)});
    tar_.write(tar_header({.kind = TarEntry::Kind::link, .path = path, .target = target.string()}));
  }

  void add_file(const std::string& path, bool executable) {
    const std::string bytes = read_file(top_ / path);
    bytes_ += bytes.size();
    if (bytes_ > limits_.most_bytes)
      refuse_size(fmt::format("the source folder '{}' has more than {} bytes", top_.string(),
                              limits_.most_bytes));
    tar_.write(tar_header({.path = path, .size = bytes.size(), .executable = executable}));
    for (std::string_view rest = bytes; !rest.empty();) {
      const auto part = rest.substr(0, std::size_t{1} << 20);
      tar_.write(part);
      check_packed(tar_.size());
      rest.remove_prefix(part.size());
    }
    tar_.write(tar_padding(bytes.size()));
  }

  void check_packed(std::size_t size) const {
    if (size > limits_.most_packed_bytes)
      refuse_size(fmt::format("the source folder '{}' has more than {} bytes when packed",
                              top_.string(), limits_.most_packed_bytes));
  }

  const fs::path& top_;
  const SourceLimits& limits_;
  IgnoreRules rules_;
  GzipWriter tar_;
  std::size_t files_ = 0;
  std::uint64_t bytes_ = 0;
};

// A new folder, gone with the object unless it was given its name.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& beside) {
    std::string name = beside.string() + ".XXXXXX";
    if (!::mkdtemp(name.data()))
      throw SystemError(fmt::format("cannot make a folder in '{}'", beside.parent_path().string()),
                        errno);
    path_ = name;
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    if (path_.empty()) return;
    std::error_code ignored;
    for (fs::recursive_directory_iterator at(path_, ignored), end; at != end; at.increment(ignored))
      if (at->is_directory(ignored) && !at->is_symlink(ignored))
        fs::permissions(at->path(), fs::perms::owner_all, ignored);
    fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }

  // Another process may have been faster: then that one's folder stays.
  void name_it(const fs::path& name) {
    if (::rename(path_.c_str(), name.c_str()) == 0)
      path_.clear();
    else if (errno != EEXIST && errno != ENOTEMPTY)
      throw SystemError(fmt::format("cannot make the folder '{}'", name.string()), errno);
  }

 private:
  fs::path path_;
};

class Unpacker {
 public:
  Unpacker(const fs::path& archive, const fs::path& top, const SourceLimits& limits)
      : top_(top),
        limits_(limits),
        file_(::open(archive.c_str(), O_RDONLY | O_CLOEXEC)),
        gzip_([this](char* buffer, std::size_t size) { return read_packed(buffer, size); }),
        tar_([this](char* buffer, std::size_t size) { return gzip_.read(buffer, size); }) {
    if (!file_) throw SystemError(fmt::format("cannot read '{}'", archive.string()), errno);
  }

  // Returns the SHA-256 of the archive.
  std::string unpack() {
    while (auto entry = tar_.next()) add(*entry);
    for (const TarEntry& link : links_) make_link(link);
    for (const TarEntry& link : links_) check_link(link);
    char rest[kCopyBuffer];
    while (read_packed(rest, sizeof rest) > 0) continue;  // for the hash
    return to_hex(hash_.finish());
  }

  // Files 0444 or 0555, folders 0555.
  void make_read_only() const {
    for (const auto& entry : fs::recursive_directory_iterator(top_))
      if (!entry.is_symlink()) close_to_writers(entry.path());
    close_to_writers(top_);
  }

 private:
  std::size_t read_packed(char* buffer, std::size_t size) {
    ssize_t count;
    do {
      count = ::read(file_.get(), buffer, size);
    } while (count < 0 && errno == EINTR);
    if (count < 0) throw SystemError("cannot read the archive", errno);
    const auto read = static_cast<std::size_t>(count);
    hash_.update({buffer, read});
    return read;
  }

  void add(const TarEntry& entry) {
    if (entry.path == "." || entry.path == "./") return;
    const auto refuse = [&](const char* what) {
      throw InvalidInput(
          fmt::format("the archive's path '{}' {}", escape_controls(entry.path), what),
          {.advice = "Pack it with relative paths below its folder."});
    };
    const fs::path path = fs::path(entry.path).lexically_normal();
    if (!stays_below(entry.path) || entry.path.find('\0') != std::string::npos)
      refuse("leads out of its folder");
    for (const fs::path& part : fs::path(entry.path))
      if (part == "..") refuse("leads out of its folder");
    if (++files_ > limits_.most_files) refuse("is one too many: there are too many files");
    for (fs::path above = path; !above.empty(); above = above.parent_path())
      if (link_paths_.contains(above.string())) refuse("lies behind a link");
    if (!is_new_folder(entry, path) && fs::exists(fs::symlink_status(top_ / path)))
      refuse("is there twice");
    fs::create_directories((top_ / path).parent_path());
    switch (entry.kind) {
      case TarEntry::Kind::folder:
        fs::create_directories(top_ / path);
        return;
      case TarEntry::Kind::file:
        return copy_file(path, entry);
      case TarEntry::Kind::hard_link:
        if (!stays_below(entry.target) ||
            !fs::is_regular_file(fs::symlink_status(top_ / entry.target)))
          refuse("is a link to something else than a file before it");
        return fs::create_hard_link(top_ / entry.target, top_ / path);
      case TarEntry::Kind::link:
        links_.push_back(entry);
        link_paths_.insert(path.string());
    }
  }

  bool is_new_folder(const TarEntry& entry, const fs::path& path) const {
    return entry.kind == TarEntry::Kind::folder &&
           fs::is_directory(fs::symlink_status(top_ / path));
  }

  void copy_file(const fs::path& path, const TarEntry& entry) {
    bytes_ += entry.size;
    if (bytes_ > limits_.most_bytes)
      throw InvalidInput(
          fmt::format("the archive holds more than {} bytes when unpacked", limits_.most_bytes));
    const fs::path place = top_ / path;
    const UniqueFd file(::open(place.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                               entry.executable ? 0700 : 0600));
    if (!file) throw SystemError(fmt::format("cannot write '{}'", place.string()), errno);
    char buffer[kCopyBuffer];
    while (const std::size_t count = tar_.read(buffer, sizeof buffer))
      for (std::size_t done = 0; done < count;) {
        const ssize_t written = ::write(file.get(), buffer + done, count - done);
        if (written >= 0)
          done += static_cast<std::size_t>(written);
        else if (errno != EINTR)
          throw SystemError(fmt::format("cannot write '{}'", place.string()), errno);
      }
  }

  // When all files are there: none is ever written through one.
  void make_link(const TarEntry& link) const {
    fs::create_directories((top_ / link.path).parent_path());
    fs::create_symlink(link.target, top_ / link.path);
  }

  void check_link(const TarEntry& link) const {
    if (!leads_inside(fs::path(link.path).lexically_normal()))
      throw InvalidInput(fmt::format("the archive's link '{}' leads out of it, to '{}'",
                                     escape_controls(link.path), escape_controls(link.target)),
                         {.advice = "Pack links that stay inside the folder only."});
  }

  // Goes the way that the system would go, also where it ends at nothing, and never leaves top_.
  bool leads_inside(const fs::path& path) const {
    std::vector<fs::path> way(path.begin(), path.end());
    std::reverse(way.begin(), way.end());  // the next part is the last one
    fs::path place;                        // below top_, without links
    int followed = 0;
    while (!way.empty()) {
      const fs::path part = std::move(way.back());
      way.pop_back();
      if (part == "." || part.empty()) continue;
      if (part == "..") {
        if (place.empty()) return false;
        place = place.parent_path();
      } else if (fs::is_symlink(fs::symlink_status(top_ / place / part))) {
        const fs::path target = fs::read_symlink(top_ / place / part);
        if (target.is_absolute() || ++followed > kMostLinks) return false;
        const std::vector<fs::path> parts(target.begin(), target.end());
        way.insert(way.end(), parts.rbegin(), parts.rend());
      } else {
        place /= part;
      }
    }
    return true;
  }

  static void close_to_writers(const fs::path& path) {
    using fs::perms;
    const bool open = fs::is_directory(path) ||
                      (fs::status(path).permissions() & perms::owner_exec) != perms::none;
    const perms read = perms::owner_read | perms::group_read | perms::others_read;
    const perms exec = perms::owner_exec | perms::group_exec | perms::others_exec;
    fs::permissions(path, open ? read | exec : read);
  }

  const fs::path& top_;
  const SourceLimits& limits_;
  UniqueFd file_;
  Sha256 hash_;
  GzipReader gzip_;
  TarReader tar_;
  std::size_t files_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<TarEntry> links_;
  std::set<std::string> link_paths_;
};

}  // namespace

PackedSource pack_source(const fs::path& folder, const SourceLimits& limits) {
  if (!fs::is_directory(folder))
    throw InvalidInput(fmt::format("the source folder '{}' does not exist", folder.string()),
                       {.advice = "Name the folder that holds the program."});
  try {
    return Packer(folder, limits).pack();
  } catch (const fs::filesystem_error& error) {
    throw SystemError(fmt::format("cannot read '{}'", error.path1().string()),
                      error.code().value());
  }
}

fs::path unpack_source(const fs::path& archive, const std::string& id, const fs::path& sources,
                       const SourceLimits& limits) {
  if (!is_source_id(id))
    throw InvalidInput(
        fmt::format("'{}' is not the SHA-256 of a packed source, 64 hexadecimal "
                    "digits",
                    escape_controls(id)));
  const fs::path place = sources / id;
  if (fs::is_directory(place)) return place;
  try {
    NewFolder folder(place);
    Unpacker unpacker(archive, folder.path(), limits);
    if (const std::string hash = unpacker.unpack(); hash != id)
      throw InvalidInput(fmt::format("the archive's SHA-256 is {}, not {}", hash, id),
                         {.advice = "Send it again: it was changed on its way."});
    unpacker.make_read_only();
    folder.name_it(place);
  } catch (const fs::filesystem_error& error) {
    throw SystemError(fmt::format("cannot unpack into '{}'", error.path1().string()),
                      error.code().value());
  }
  return place;
}

bool is_source_id(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace cohort::jobspec
