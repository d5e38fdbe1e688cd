#include "cohort/base/crypto/secret.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <new>

#include "cohort/base/error.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SecretFile : public ::testing::Test {
 protected:
  SecretFile() {
    char name[] = "/tmp/cohort_secret_test.XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ / "secret";
  }
  ~SecretFile() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  std::string error() {
    try {
      Secret::from_file(path_);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "no error";
  }
  std::filesystem::path folder_, path_;
};

TEST(Secret, TwoAreNeverTheSame) {
  EXPECT_TRUE(Secret::generate().bytes() != Secret::generate().bytes());
}

TEST(Secret, AMemfdCanBeReadAnyNumberOfTimesAndNotChanged) {
  Secret secret = Secret::generate();
  UniqueFd fd = secret.to_memfd();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Secret::from_fd(fd.get()).bytes() == secret.bytes());
  EXPECT_EQ(::pwrite(fd.get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(fd.get(), 0), -1);
  EXPECT_TRUE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC);
}

TEST(Secret, IsOverwrittenWhenDestroyed) {
  alignas(Secret) unsigned char storage[sizeof(Secret)];
  auto* secret = new (storage) Secret(Secret::generate());
  secret->~Secret();
  volatile unsigned char* bytes = storage;
  for (std::size_t i = 0; i < Secret::kSize; ++i) EXPECT_EQ(bytes[i], 0);
}

TEST(Secret, VariablesPreferTheDescriptorAndNothingIsNothing) {
  Secret secret = Secret::generate();
  UniqueFd fd = secret.to_memfd();
  auto found = Secret::from_variables(std::to_string(fd.get()), "/nonexistent");
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->bytes() == secret.bytes());
  EXPECT_FALSE(Secret::from_variables(std::nullopt, std::nullopt).has_value());
  EXPECT_FALSE(Secret::from_variables("", "").has_value());
  EXPECT_THROW(Secret::from_variables("7x", std::nullopt), InvalidInput);
  EXPECT_THROW(Secret::from_variables("999999", std::nullopt), InvalidInput);
}

TEST_F(SecretFile, WhatWasWrittenIsReadAndOnlyTheOwnerMay) {
  Secret secret = Secret::generate();
  secret.write_file(path_);
  EXPECT_TRUE(Secret::from_file(path_).bytes() == secret.bytes());
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_THROW(secret.write_file(path_), SystemError);
}

TEST_F(SecretFile, OneThatOthersCanReadIsRefusedWithTheFix) {
  std::string digits(64, '7');
  for (mode_t mode : {0640, 0604, 0620, 0666}) {
    write(digits, mode);
    EXPECT_THAT(error(), HasSubstr("chmod 600 " + path_.string())) << mode;
  }
  write(digits, 0400);
  EXPECT_EQ(error(), "no error");
}

TEST_F(SecretFile, WhatIsNoSecretIsRefusedWithoutPrintingIt) {
  for (std::string text :
       {std::string(), std::string("hunter2"), std::string(63, 'a'), std::string(65, 'a'),
        std::string(5000, 'a'), std::string(64, 'g'), std::string(64, '0')}) {
    write(text);
    EXPECT_THAT(error(), HasSubstr("openssl rand -hex 32"));
    EXPECT_THAT(error(), Not(HasSubstr("hunter2")));
  }
  std::filesystem::remove(path_);
  EXPECT_THAT(error(), HasSubstr("No such file"));
  std::filesystem::create_directory(path_);
  EXPECT_THAT(error(), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace cohort
