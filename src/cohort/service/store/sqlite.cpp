#include "cohort/service/store/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

namespace cohort::service {
namespace {

constexpr int kBusyMs = 5000;

// Never opens a file that is there: closing any descriptor of a database would drop the locks that
// other connections of this process hold on it.
void make_private_file(const std::filesystem::path& path) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file && errno != EEXIST)
    throw SystemError(fmt::format("cannot make '{}'", path.string()), errno);
}

void sync_to_disk(const std::filesystem::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0)
    throw SystemError(fmt::format("cannot bring '{}' to the disk", path.string()), errno);
}

}  // namespace

Statement::Statement(Database& database, sqlite3_stmt* statement, bool kept)
    : database_(&database), statement_(statement), kept_(kept) {}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      kept_(other.kept_),
      bound_(other.bound_) {}

Statement::~Statement() {
  if (!statement_) return;
  if (kept_) {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  } else {
    sqlite3_finalize(statement_);
  }
}

void Statement::bind_integer(int index, std::int64_t value) {
  database_->require(sqlite3_bind_int64(statement_, index, value));
}

void Statement::bind_number(int index, double value) {
  database_->require(sqlite3_bind_double(statement_, index, value));
}

void Statement::bind_text(int index, std::string_view value) {
  // A view without data would be NULL.
  const char* data = value.data() ? value.data() : "";
  database_->require(
      sqlite3_bind_text64(statement_, index, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  sqlite3_reset(statement_);
  database_->fail(code);
}

void Statement::run() {
  while (step()) {
  }
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

double Statement::number(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
  return bytes ? std::string(bytes, size) : std::string();
}

void Database::Close::operator()(sqlite3* handle) const { sqlite3_close(handle); }

Database::Database(std::filesystem::path path, std::string advice)
    : path_(std::move(path)), advice_(std::move(advice)) {
  make_private_file(path_);
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path_.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, nullptr);
  handle_.reset(handle);
  require(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyMs);
  execute("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
  execute("PRAGMA journal_size_limit = 67108864");  // what a burst of changes leaves on disk
  auto mode = prepare_once("PRAGMA journal_mode = WAL");
  if (!mode.step() || mode.text(0) != "wal")
    throw InvalidInput(fmt::format("'{}' lies on a file system on which processes cannot share it",
                                   path_.string()),
                       {.advice = "Set COHORT_HOME to a folder on a local disk."});
}

Database::~Database() {
  for (const auto& [sql, statement] : prepared_) sqlite3_finalize(statement);
}

void Database::fail(int code) {
  const std::string name = path_.string();
  const std::string reason = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  const int os_error = handle_ ? sqlite3_system_errno(handle_.get()) : 0;
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw InvalidInput(fmt::format("'{}' is damaged: {}", name, reason), {.advice = advice_});
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
      throw InvalidInput(fmt::format("'{}' refuses a row: {}", name, reason));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw TimeoutError(
          fmt::format("'{}' is locked by another process for more than {} s", name, kBusyMs / 1000),
          {.advice = "See who has it open: fuser -v " + name});
    case SQLITE_FULL:
      throw SystemError(fmt::format("cannot write '{}'", name), ENOSPC,
                        {.advice = "Free some space on its disk. Nothing of the change was made."});
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      throw SystemError(fmt::format("cannot write '{}' ({})", name, reason), EACCES,
                        {.advice = "Look at the rights of the file and of its folder."});
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
      throw SystemError(fmt::format("cannot use '{}' ({})", name, reason),
                        os_error != 0 ? os_error : EIO,
                        {.advice = "Look at its disk. Nothing of the change was made."});
    default:
      throw Error(fmt::format("SQLite refuses an operation on '{}': {}", name, reason));
  }
}

void Database::require(int code) {
  if (code != SQLITE_OK) fail(code);
}

sqlite3_stmt* Database::compile(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  require(sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                             SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
  return statement;
}

Statement Database::prepare(const char* sql) {
  sqlite3_stmt*& statement = prepared_[sql];
  if (!statement) statement = compile(sql);
  COHORT_CHECK(sqlite3_stmt_busy(statement) == 0, "a statement is used twice at a time: {}", sql);
  return Statement(*this, statement, true);
}

Statement Database::prepare_once(const std::string& sql) {
  return Statement(*this, compile(sql), false);
}

void Database::execute(const std::string& sql) {
  require(sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr));
}

int Database::changes() const { return sqlite3_changes(handle_.get()); }

std::int64_t Database::integer(const std::string& sql) {
  auto statement = prepare_once(sql);
  return statement.step() ? statement.integer(0) : 0;
}

void Database::backup(const std::filesystem::path& to) {
  auto fresh = to;
  fresh += ".new";
  std::error_code failed;
  std::filesystem::remove(fresh, failed);  // of a copy that was killed
  make_private_file(fresh);
  try {
    sqlite3* handle = nullptr;
    const int code = sqlite3_open_v2(fresh.c_str(), &handle,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, nullptr);
    const std::unique_ptr<sqlite3, Close> target(handle);
    require(code);
    sqlite3_backup* copy = sqlite3_backup_init(handle, "main", handle_.get(), "main");
    if (!copy) fail(sqlite3_errcode(handle));
    sqlite3_backup_step(copy, -1);
    const int end = sqlite3_backup_finish(copy);
    if (end != SQLITE_OK || sqlite3_errcode(handle) != SQLITE_OK)
      throw SystemError(fmt::format("cannot copy '{}' to '{}' ({})", path_.string(), to.string(),
                                    sqlite3_errmsg(handle)),
                        end == SQLITE_FULL ? ENOSPC : EIO,
                        {.advice = "Make room on the disk; the file itself is as it was."});
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(fresh, ignored);
    throw;
  }
  sync_to_disk(fresh);
  std::filesystem::rename(fresh, to, failed);
  if (failed) throw SystemError(fmt::format("cannot make '{}'", to.string()), failed.value());
  sync_to_disk(to.parent_path());
}

std::string Database::check() {
  auto statement = prepare_once("PRAGMA quick_check(1)");
  return statement.step() ? statement.text(0) : "no answer";
}

Transaction::Transaction(Database& database) : database_(database) {
  database_.execute(database_.depth_ == 0 ? "BEGIN IMMEDIATE" : "SAVEPOINT part");
  ++database_.depth_;
}

Transaction::~Transaction() {
  if (!open_) return;
  sqlite3* handle = database_.handle_.get();
  --database_.depth_;
  // SQLite itself takes everything back after some errors: nothing is open then.
  if (sqlite3_get_autocommit(handle) != 0) return;
  const char* sql = database_.depth_ == 0 ? "ROLLBACK" : "ROLLBACK TO part; RELEASE part";
  sqlite3_exec(handle, sql, nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_.execute(database_.depth_ == 1 ? "COMMIT" : "RELEASE part");
  --database_.depth_;
  open_ = false;
}

}  // namespace cohort::service
