// SHA-256 of a stream of bytes (OpenSSL). Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

struct evp_md_ctx_st;

namespace gimbal::io {

class Sha256Stream {
 public:
  Sha256Stream();
  void Update(const void* data, size_t bytes);
  // Lower-case hex of everything so far; the stream is used up.
  std::string Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace gimbal::io
