#include "lockstep/record/network_disk.h"

#include <algorithm>
#include <array>
#include <linux/magic.h>
#include <sys/vfs.h>

namespace lockstep::record {

bool is_on_network(const std::filesystem::path& folder) {
  // Magic numbers of statfs(2) that linux/magic.h may lack.
  constexpr std::array<unsigned long, 12> kNetworks{
      NFS_SUPER_MAGIC,         SMB_SUPER_MAGIC,           V9FS_MAGIC,
      CEPH_SUPER_MAGIC,        AFS_SUPER_MAGIC,           FUSE_SUPER_MAGIC,
      0xFF534D42UL /* cifs */, 0xFE534D42UL /* smb2 */,   0x0BD00BD0UL /* lustre */,
      0x47504653UL /* gpfs */, 0x19830326UL /* beegfs */, 0xAAD7AAEAUL /* panfs */};
  struct statfs system {};
  if (::statfs(folder.c_str(), &system) != 0) return false;
  const auto kind = static_cast<unsigned long>(system.f_type) & 0xFFFFFFFFUL;
  return std::find(kNetworks.begin(), kNetworks.end(), kind) != kNetworks.end();
}

}  // namespace lockstep::record
