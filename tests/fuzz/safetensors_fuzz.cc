// The reader of safetensors files: whatever the file says, a tensor is read
// from within it or refused.
#include <cstring>
#include <vector>

#include "common/io/safetensors.h"
#include "common/io/safetensors_header.h"
#include "tests/fuzz/fuzz.h"

namespace {

// The shapes that the file's own header gives.
gimbal::io::SafetensorsHeader HeaderOf(const uint8_t* data, size_t size) {
  uint64_t length = 0;
  FUZZ_CHECK(size >= sizeof length);
  std::memcpy(&length, data, sizeof length);
  FUZZ_CHECK(length <= size - sizeof length);
  auto header = gimbal::io::ParseSafetensorsHeader(
      {reinterpret_cast<const char*>(data) + sizeof length, length},
      size - sizeof length - length);
  FUZZ_CHECK(header.ok());
  return *std::move(header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const gimbal::fuzz::InputFile input(data, size);
  const auto file = gimbal::io::SafetensorsFile::Open(input.path());
  if (!file.ok()) return 0;
  for (const auto& tensor : HeaderOf(data, size).tensors) {
    const uint64_t bytes = tensor.end - tensor.begin;
    FUZZ_CHECK(bytes <= size);
    std::vector<float> values(bytes / sizeof(float));
    FUZZ_CHECK(file->Read(tensor.name, tensor.shape, values.data()).ok());
    std::vector<int64_t> other = tensor.shape;
    other.push_back(2);
    FUZZ_CHECK(!file->Read(tensor.name, other, values.data()).ok());
  }
  return 0;
}
