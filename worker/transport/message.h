// What travels over an edge: a fixed header and a payload.
//
// An edge e joins stage e and stage e+1. Downstream (e to e+1) go forwards,
// evaluation forwards and norm totals; upstream go backwards and partial norms.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/compute/wire.h"
#include "worker/transport/buffer_pool.h"

namespace gimbal::worker {

enum class MessageKind : uint8_t {
  kForward = 1,    // activations of microbatch `index`, [B*T, C]
  kBackward = 2,   // their gradient, [B*T, C]
  kEvaluate = 3,   // activations of batch `part` of evaluation `index`
  kNormPart = 4,   // sum of squares of update `index` over stages > e, fp64 [1]
  kNormTotal = 5,  // over all stages, fp64 [1]
  // Between the links: the sender of this will take `index` more messages. Only
  // where boundary tensors go beside the connection.
  kRoom = 6,
};

// Whether the payload is a boundary tensor.
constexpr bool IsTensor(MessageKind kind) {
  return kind == MessageKind::kForward || kind == MessageKind::kBackward ||
         kind == MessageKind::kEvaluate;
}

// Which messages a link may carry; equal at both ends.
struct EdgeIdentity {
  uint64_t run = 0;  // hash of the run's id
  int64_t generation = 0;
  int32_t edge = 0;

  friend bool operator==(const EdgeIdentity&, const EdgeIdentity&) = default;
};

// How far the messages of each kind have come: within a kind they are made in
// the order of (index, part).
class Positions {
 public:
  struct Position {
    int64_t index = -1;
    int64_t part = 0;
    friend auto operator<=>(const Position&, const Position&) = default;
  };

  // Those of a stage that starts from the cut after `update`: what it does not
  // need counts as there.
  static Positions AtCut(int64_t update, int accumulate);

  Position& operator[](MessageKind kind) { return of_[Index(kind)]; }
  const Position& operator[](MessageKind kind) const {
    return of_[Index(kind)];
  }

 private:
  static size_t Index(MessageKind kind) {
    return static_cast<size_t>(kind) - 1;
  }
  Position of_[5];
};

// Little-endian on the wire, 64 bytes, no padding.
struct MessageHeader {
  static constexpr uint32_t kMagic = 0x4c424d47;  // "GMBL"
  static constexpr uint16_t kVersion = 2;
  enum class Type : uint8_t { kFp32 = 1, kFp64 = 2, kBf16 = 3, kInt8 = 4 };

  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  MessageKind kind = MessageKind::kForward;
  Type type = Type::kFp32;
  uint64_t run = 0;
  int64_t generation = 0;
  int32_t edge = 0;
  int32_t part = 0;      // batch within an evaluation, else 0
  int64_t index = 0;     // microbatch or update
  uint64_t samples = 0;  // digest of the sample ids behind the tensor
  int64_t rows = 0;
  int64_t cols = 0;
};
static_assert(sizeof(MessageHeader) == 64);

struct Message {
  MessageHeader header;
  PooledBuffer payload;
};

std::string ToString(const MessageHeader& header);

// What a link's two ends agree on before the first message: both know it from
// the assignment, so nothing is negotiated.
struct EdgeSpec {
  EdgeIdentity identity;
  int64_t rows = 0;  // of a boundary tensor: B*T
  int64_t cols = 0;  // C
  compute::WireFormat wire = compute::WireFormat::kFp32;  // of such a tensor
  // Boundary tensors go through channels (worker/transport/payload_channel.h).
  bool channels = false;

  int64_t payload_capacity() const {
    return compute::WireBytes(wire, rows, cols);
  }
};

MessageHeader::Type TypeOf(compute::WireFormat wire);

// Bytes of payload the header announces, or why the header does not belong on
// this edge.
absl::Status CheckHeader(const MessageHeader& header, const EdgeSpec& edge);
int64_t PayloadBytes(const MessageHeader& header);

}  // namespace gimbal::worker
