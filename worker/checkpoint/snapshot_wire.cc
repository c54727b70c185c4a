#include "worker/checkpoint/snapshot_wire.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"

namespace gimbal::worker {
namespace {

// What of the header the checksum covers.
std::string TextOf(const v1::SnapshotHeader& header) {
  std::string text =
      absl::StrCat(header.run_id(), "\n", header.generation(), "\n",
                   header.stage(), "\n", header.update(), "\n");
  for (const v1::SnapshotTensor& tensor : header.tensors()) {
    absl::StrAppend(&text, tensor.file(), "\n", tensor.name(), "\n",
                    absl::StrJoin(tensor.shape(), ","), "\n");
  }
  return text;
}

v1::SnapshotHeader HeaderOf(const std::string& run, int64_t generation,
                            int stage, const StageSnapshot& snapshot) {
  v1::SnapshotHeader header;
  header.set_run_id(run);
  header.set_generation(generation);
  header.set_stage(stage);
  header.set_update(snapshot.update());
  for (const SnapshotTensor& from : snapshot.tensors()) {
    v1::SnapshotTensor& tensor = *header.add_tensors();
    tensor.set_file(from.file);
    tensor.set_name(from.name);
    tensor.mutable_shape()->Assign(from.shape.begin(), from.shape.end());
  }
  return header;
}

}  // namespace

void WriteChunks(const std::string& run, int64_t generation, int stage,
                 const StageSnapshot& snapshot,
                 const std::function<bool(const v1::SnapshotChunk&)>& write) {
  v1::SnapshotChunk chunk;
  *chunk.mutable_header() = HeaderOf(run, generation, stage, snapshot);
  io::Sha256Stream sha256;
  const std::string text = TextOf(chunk.header());
  sha256.Update(text.data(), text.size());
  if (!write(chunk)) return;
  const char* values = reinterpret_cast<const char*>(snapshot.values().data());
  for (int64_t at = 0; at < snapshot.bytes(); at += kSnapshotChunkBytes) {
    const auto size = static_cast<size_t>(
        std::min(kSnapshotChunkBytes, snapshot.bytes() - at));
    sha256.Update(values + at, size);
    chunk.set_values(values + at, size);
    if (!write(chunk)) return;
  }
  chunk.set_sha256(sha256.Finish());
  write(chunk);
}

const v1::SnapshotHeader* SnapshotAssembler::header() const {
  return header_ ? &*header_ : nullptr;
}

absl::Status SnapshotAssembler::Add(const v1::SnapshotChunk& chunk) {
  if (chunk.has_header() == header_.has_value() || whole_) {
    return absl::DataLossError(
        "a snapshot's chunks are its header, values and checksum, in this "
        "order");
  }
  switch (chunk.body_case()) {
    case v1::SnapshotChunk::kHeader:
      return Begin(chunk.header());
    case v1::SnapshotChunk::kValues:
      return AddValues(chunk.values());
    case v1::SnapshotChunk::kSha256:
      return Check(chunk.sha256());
    case v1::SnapshotChunk::BODY_NOT_SET:
      break;
  }
  return absl::DataLossError("an empty chunk of a snapshot");
}

absl::Status SnapshotAssembler::Begin(const v1::SnapshotHeader& header) {
  std::vector<SnapshotTensor> tensors;
  for (const v1::SnapshotTensor& from : header.tensors()) {
    tensors.push_back({.file = from.file(),
                       .name = from.name(),
                       .shape = {from.shape().begin(), from.shape().end()}});
  }
  try {
    GIMBAL_ASSIGN_OR_RETURN(
        StageSnapshot snapshot,
        StageSnapshot::WithTensors(header.update(), std::move(tensors)));
    snapshot_ = std::make_shared<StageSnapshot>(std::move(snapshot));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a snapshot of stage ", header.stage()));
  }
  const std::string text = TextOf(header);
  sha256_.Update(text.data(), text.size());
  header_ = header;
  header_->clear_tensors();
  return absl::OkStatus();
}

absl::Status SnapshotAssembler::AddValues(const std::string& values) {
  const auto size = static_cast<int64_t>(values.size());
  if (size > snapshot_->bytes() - received_) {
    return absl::DataLossError(absl::StrCat(
        "more values than the ", snapshot_->bytes(), " bytes of the header"));
  }
  std::memcpy(reinterpret_cast<char*>(snapshot_->values().data()) + received_,
              values.data(), values.size());
  sha256_.Update(values.data(), values.size());
  received_ += size;
  return absl::OkStatus();
}

absl::Status SnapshotAssembler::Check(const std::string& sha256) {
  const std::string found = sha256_.Finish();
  if (received_ != snapshot_->bytes() || found != sha256) {
    return absl::DataLossError(absl::StrCat(
        "the snapshot of stage ", header_->stage(), " at update ",
        header_->update(), " did not arrive as it was sent: ", received_,
        " of ", snapshot_->bytes(), " bytes, sha256 ", found, ", expected ",
        sha256));
  }
  whole_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const StageSnapshot>>
SnapshotAssembler::Finish() {
  if (!whole_) return absl::DataLossError("a snapshot ended before its end");
  return std::shared_ptr<const StageSnapshot>(std::move(snapshot_));
}

}  // namespace gimbal::worker
