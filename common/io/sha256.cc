#include "common/io/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "common/base/log.h"

namespace gimbal::io {

// Only a lack of memory makes these OpenSSL calls fail.
Sha256Stream::Sha256Stream() : context_(EVP_MD_CTX_new()) {
  GIMBAL_CHECK(context_ != nullptr);
  GIMBAL_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256Stream::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

void Sha256Stream::Update(const void* data, size_t bytes) {
  GIMBAL_CHECK(EVP_DigestUpdate(context_.get(), data, bytes) == 1);
}

std::string Sha256Stream::Finish() {
  std::string raw(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  GIMBAL_CHECK(EVP_DigestFinal_ex(context_.get(),
                                  reinterpret_cast<unsigned char*>(raw.data()),
                                  &size) == 1);
  raw.resize(size);
  return absl::BytesToHexString(raw);
}

}  // namespace gimbal::io
