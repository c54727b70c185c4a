// The reader of a checkpoint's manifest: refuses or reads, names no file
// outside the checkpoint's folder, and what it has read it can write and read
// again.
#include <filesystem>
#include <fstream>

#include "common/io/checkpoint_layout.h"
#include "coordinator/checkpoint/manifest.h"
#include "tests/fuzz/fuzz.h"

namespace {

using gimbal::coordinator::Manifest;

const std::string& Folder() {
  // Outlives what is done at the end.
  static const std::string& folder = *[] {
    char name[] = "/dev/shm/gimbal-fuzz-XXXXXX";
    FUZZ_CHECK(mkdtemp(name) != nullptr);
    std::atexit([] { std::filesystem::remove_all(Folder()); });
    return new std::string(name);
  }();
  return folder;
}

void Write(const std::string& text) {
  std::ofstream(Folder() + "/" + gimbal::io::kManifestFile) << text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Write(std::string(reinterpret_cast<const char*>(data), size));
  const auto manifest = gimbal::coordinator::ReadManifest(Folder());
  if (!manifest.ok()) return 0;
  for (const auto& file : manifest->files) {
    const auto inside =
        (std::filesystem::path("/checkpoint") / file.path()).lexically_normal();
    FUZZ_CHECK(inside.string().starts_with("/checkpoint"));
  }
  (void)gimbal::coordinator::VerifySizes(Folder(), *manifest).ok();
  Write(ToJson(*manifest));
  const auto again = gimbal::coordinator::ReadManifest(Folder());
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(ToJson(*again) == ToJson(*manifest));
  return 0;
}
