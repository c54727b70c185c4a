#include "worker/transport/message.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace gimbal::worker {
namespace {

const char* Name(MessageKind kind) {
  switch (kind) {
    case MessageKind::kForward:
      return "forward";
    case MessageKind::kBackward:
      return "backward";
    case MessageKind::kEvaluate:
      return "evaluation";
    case MessageKind::kNormPart:
      return "norm part";
    case MessageKind::kNormTotal:
      return "norm total";
    case MessageKind::kRoom:
      return "room";
  }
  return nullptr;
}

const char* Name(MessageHeader::Type type) {
  switch (type) {
    case MessageHeader::Type::kFp32:
      return "fp32";
    case MessageHeader::Type::kFp64:
      return "fp64";
    case MessageHeader::Type::kBf16:
      return "bf16";
    case MessageHeader::Type::kInt8:
      return "int8";
  }
  return "unknown type";
}

}  // namespace

MessageHeader::Type TypeOf(compute::WireFormat wire) {
  switch (wire) {
    case compute::WireFormat::kBf16:
      return MessageHeader::Type::kBf16;
    case compute::WireFormat::kInt8:
      return MessageHeader::Type::kInt8;
    case compute::WireFormat::kFp32:
      break;
  }
  return MessageHeader::Type::kFp32;
}

Positions Positions::AtCut(int64_t update, int accumulate) {
  constexpr int64_t kEveryPart = std::numeric_limits<int32_t>::max();
  Positions positions;
  for (const MessageKind kind :
       {MessageKind::kForward, MessageKind::kBackward}) {
    positions[kind] = {update * accumulate - 1, 0};
  }
  for (const MessageKind kind : {MessageKind::kEvaluate, MessageKind::kNormPart,
                                 MessageKind::kNormTotal}) {
    positions[kind] = {update, kEveryPart};
  }
  return positions;
}

std::string ToString(const MessageHeader& header) {
  const char* name = Name(header.kind);
  return absl::StrCat(name != nullptr ? name : "message of unknown kind", " ",
                      header.index, " on edge ", header.edge, " (generation ",
                      header.generation, ", ", header.rows, " x ", header.cols,
                      ")");
}

absl::Status CheckHeader(const MessageHeader& header, const EdgeSpec& edge) {
  const auto refuse = [&](const std::string& what) {
    return absl::DataLossError(absl::StrCat("edge ", edge.identity.edge, ": ",
                                            what, "; got ", ToString(header)));
  };
  if (header.magic != MessageHeader::kMagic) {
    return absl::DataLossError(absl::StrCat("edge ", edge.identity.edge,
                                            ": the peer is not a gimbal link"));
  }
  if (header.version != MessageHeader::kVersion) {
    return refuse(absl::StrCat("peer speaks link version ", header.version,
                               ", expected ", MessageHeader::kVersion));
  }
  if (EdgeIdentity{header.run, header.generation, header.edge} !=
      edge.identity) {
    return refuse(absl::StrCat("message of another run, generation or edge; ",
                               "expected generation ",
                               edge.identity.generation));
  }
  if (Name(header.kind) == nullptr) return refuse("unknown kind of message");
  if (header.kind == MessageKind::kRoom && !edge.channels) {
    return refuse("room on an edge without channels");
  }
  const bool tensor = IsTensor(header.kind);
  const bool norm = !tensor && header.kind != MessageKind::kRoom;
  const auto type = tensor ? TypeOf(edge.wire)
                    : norm ? MessageHeader::Type::kFp64
                           : MessageHeader::Type::kFp32;
  const int64_t rows = tensor ? edge.rows : norm ? 1 : 0;
  const int64_t cols = tensor ? edge.cols : norm ? 1 : 0;
  if (header.type != type || header.rows != rows || header.cols != cols) {
    return refuse(absl::StrCat("wrong shape or type; expected ", rows, " x ",
                               cols, " ", Name(type), ", got ",
                               Name(header.type)));
  }
  if (header.index < 0 || header.part < 0) return refuse("negative index");
  return absl::OkStatus();
}

int64_t PayloadBytes(const MessageHeader& header) {
  const auto bytes = [&](compute::WireFormat wire) {
    return compute::WireBytes(wire, header.rows, header.cols);
  };
  switch (header.type) {
    case MessageHeader::Type::kFp64:
      return header.rows * header.cols * 8;
    case MessageHeader::Type::kBf16:
      return bytes(compute::WireFormat::kBf16);
    case MessageHeader::Type::kInt8:
      return bytes(compute::WireFormat::kInt8);
    case MessageHeader::Type::kFp32:
      break;
  }
  return bytes(compute::WireFormat::kFp32);
}

}  // namespace gimbal::worker
