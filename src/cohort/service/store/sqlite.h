#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

struct sqlite3;
struct sqlite3_stmt;

// A small layer over SQLite. Nothing here knows what is stored.
//
// Failure of all: InvalidInput for a damaged file and for what a constraint forbids, TimeoutError
// for a file that others keep locked (5 s), SystemError where the disk or its rights fail (ENOSPC
// when it is full). Each names the file and what to do.
namespace cohort::service {

class Database;

// A prepared statement in use: back with its database, ready for the next user, when it goes.
// Columns count from 0, parameters in the order of bind()'s arguments (?1, ?2, ...).
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // Whole numbers, bool, floating-point numbers, text, or std::optional of one: NULL without value.
  template <typename... Values>
  Statement& bind(const Values&... values) {
    (bind_value(++bound_, values), ...);
    return *this;
  }

  bool step();  // whether there is a row
  void run();   // to the end; for what gives no rows

  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  double number(int column) const;
  std::string text(int column) const;

 private:
  friend class Database;
  Statement(Database& database, sqlite3_stmt* statement, bool kept);

  template <typename Value>
  void bind_value(int index, const Value& value) {
    if constexpr (std::is_floating_point_v<Value>) {
      bind_number(index, value);
    } else if constexpr (std::is_integral_v<Value>) {
      bind_integer(index, static_cast<std::int64_t>(value));
    } else if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
      bind_text(index, value);
    } else if (value) {
      bind_value(index, *value);
    }  // else: NULL, as parameters are without a value
  }
  void bind_integer(int index, std::int64_t value);
  void bind_number(int index, double value);
  void bind_text(int index, std::string_view value);

  Database* database_;
  sqlite3_stmt* statement_;
  bool kept_;  // by the database
  int bound_ = 0;
};

// One connection. Confined to one thread.
class Database {
 public:
  // Made with mode 0600 unless it is there. `advice`: what a person does when the file is damaged.
  Database(std::filesystem::path path, std::string advice);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  const std::filesystem::path& path() const { return path_; }

  // Prepared once for each text, which must outlive the database: a constant. Not twice at a time.
  Statement prepare(const char* sql);
  // One or more statements that need no parameters; not kept.
  void execute(const std::string& sql);
  // For a query whose text is made at run time; prepared each time.
  Statement prepare_once(const std::string& sql);

  int changes() const;                           // rows of the last INSERT, UPDATE or DELETE
  std::int64_t integer(const std::string& sql);  // the first column of the first row; none: 0

  // A copy of the whole, consistent while others write; in one step, by rename.
  void backup(const std::filesystem::path& to);
  // What PRAGMA quick_check says: "ok".
  std::string check();

 private:
  friend class Statement;
  friend class Transaction;
  struct Close {
    void operator()(sqlite3* handle) const;
  };

  sqlite3_stmt* compile(const std::string& sql);
  void require(int code);  // throws unless it is SQLITE_OK
  [[noreturn]] void fail(int code);

  const std::filesystem::path path_;
  const std::string advice_;
  std::unique_ptr<sqlite3, Close> handle_;
  std::map<const char*, sqlite3_stmt*> prepared_;
  int depth_ = 0;  // of transactions
};

// What happens until commit() happens as a whole, or not at all when the object goes without it.
// Within another one it is a part of it. Takes the right to write at once.
class Transaction {
 public:
  explicit Transaction(Database& database);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace cohort::service
