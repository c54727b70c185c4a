#include "common/io/sha256.h"

#include <gtest/gtest.h>

namespace gimbal::io {
namespace {

TEST(Sha256StreamTest, HashesPiecesLikeTheWhole) {
  Sha256Stream hash;
  hash.Update("a", 1);
  hash.Update(nullptr, 0);
  hash.Update("bc", 2);
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(hash.Finish(),
            "ba7816bf8f01cfea414140de5dae2223"
            "b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace gimbal::io
