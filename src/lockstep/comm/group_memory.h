// The memory that the ranks of a group on one host share, whether threads or processes. It is a file without
// a name (memfd), so the kernel frees it with the last process that has it, however that process ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::comm {

struct GroupHeader;
struct RankSlot;

/// Any thread may call any member.
class GroupMemory {
 public:
  /// Memory for a group of `size` ranks; pages are allocated when they are first written. Throws io or
  /// out_of_memory.
  static std::shared_ptr<GroupMemory> make(int64_t size);
  /// The memory that another process made. Takes ownership of the descriptor, also when it throws
  /// corrupt_data because it is not such memory.
  static std::shared_ptr<GroupMemory> open(int descriptor);

  GroupMemory(const GroupMemory&) = delete;
  GroupMemory& operator=(const GroupMemory&) = delete;
  ~GroupMemory();

  int64_t size() const;
  /// To pass to another process; this object keeps ownership.
  int descriptor() const { return descriptor_; }

  /// Breaks the group: every rank's wait ends with cancelled and this reason. The first reason stays.
  void fail(const std::string& reason);
  /// Why the group is broken; empty while it is not.
  std::string failure() const;

  GroupHeader& header() const;
  RankSlot& slot(int64_t rank) const;
  /// One of the two buffers of a rank, kChunkBytes long.
  std::byte* buffer(int64_t rank, int64_t half) const;

 private:
  GroupMemory(int descriptor, std::byte* base, size_t bytes)
      : descriptor_(descriptor), base_(base), bytes_(bytes) {}

  int descriptor_;
  std::byte* base_;
  size_t bytes_;
};

}  // namespace lockstep::comm
