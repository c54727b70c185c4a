// Compiled with the toolkit's headers: the library itself, which needs no
// driver to be loaded.
#include "worker/transport/cuda/nccl_api.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace gimbal::worker {
namespace {

TEST(NcclApi, IsWholeWhereTheLibraryIs) {
  NcclApi api;
  const std::string missing = LoadNcclApi(&api);
  if (dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    EXPECT_EQ(missing.find("no NCCL: libnccl.so.2"), 0u) << missing;
    GTEST_SKIP() << missing;
  }
  ASSERT_EQ(missing, "");
  int version = 0;
  EXPECT_EQ(api.GetVersion(&version), ncclSuccess);
  EXPECT_GE(version, 21400);
  EXPECT_STREQ(api.GetErrorString(ncclSuccess), "no error");
}

}  // namespace
}  // namespace gimbal::worker
