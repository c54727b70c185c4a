#include "common/net/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "common/base/log.h"

namespace gimbal::net {
namespace {

unsigned char* Bytes(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

}  // namespace

// Only a machine without entropy or memory makes these OpenSSL calls fail.
std::string RandomBytes(size_t bytes) {
  std::string random(bytes, '\0');
  GIMBAL_CHECK(RAND_bytes(Bytes(random), static_cast<int>(bytes)) == 1);
  return random;
}

std::string HmacSha256(std::string_view key, std::string_view data) {
  std::string mac(kSecretBytes, '\0');
  GIMBAL_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                    reinterpret_cast<const unsigned char*>(data.data()),
                    data.size(), Bytes(mac), nullptr) != nullptr);
  return mac;
}

bool SameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace gimbal::net
