// Memory that a group must not use: another program's, another user's, or memory that can be cut short.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/group_memory.h"
#include "lockstep/comm/test_ranks.h"

namespace lockstep::comm {
namespace {

using namespace test;

TEST(GroupMemory, RefusesForeignMemory) {
  EXPECT_THROW(GroupMemory::open(::memfd_create("other", MFD_CLOEXEC)), Error);
  EXPECT_THROW(GroupMemory::make(0), Error);
}

// A copy of a group's memory that its maker can cut short, or that is another user's.
int copy_of_memory(int64_t size, unsigned flags) {
  const auto memory = GroupMemory::make(size);
  struct stat status {};
  ::fstat(memory->descriptor(), &status);
  const int copy = ::memfd_create("copy", flags);
  [[maybe_unused]] const int sized = ::ftruncate(copy, status.st_size);
  off_t from = 0;
  while (::sendfile(copy, memory->descriptor(), &from, static_cast<size_t>(status.st_size)) > 0) {
  }
  return copy;
}

TEST(GroupMemory, RefusesWhatCouldBeCutShort) {
  EXPECT_EQ(text_of_failure([] { GroupMemory::open(copy_of_memory(2, MFD_CLOEXEC)); }),
            "corrupt_data: the shared memory of a group cannot be used: it is not sealed, so it could be cut "
            "short");
  const int sealed = copy_of_memory(2, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_EQ(GroupMemory::open(sealed)->size(), 2);
}

TEST(GroupMemory, RefusesAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file another user's; hint: run it as root";
  const int descriptor = copy_of_memory(2, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  ASSERT_EQ(::fchown(descriptor, 65534, 65534), 0);
  EXPECT_EQ(text_of_failure([&] { GroupMemory::open(descriptor); }),
            "corrupt_data: the shared memory of a group cannot be used: it is another user's");
}

}  // namespace
}  // namespace lockstep::comm
