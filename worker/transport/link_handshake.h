// How the two ends of a link prove to each other that they belong to the same
// generation of the same run, before either takes or gives anything:
//
//   dialler              listener
//   Hello(nonce) ------>                which edge, of which run and generation
//        <------ Challenge(nonce, proof)
//   proof ------------>
//        <------------ kWelcome         once the stage is there
//
// A proof is HMAC-SHA256 under the link key of the generation, which the
// coordinator gives to the workers it has admitted, over the role, the edge's
// identity and both nonces: it is good for this connection alone. What follows
// on the connection is neither encrypted nor signed
// (common/adr/2026-11-30-link-handshake.md).
#pragma once

#include <cstdint>
#include <string>

#include "worker/transport/message.h"

namespace gimbal::worker {

struct LinkHello {
  uint32_t magic = MessageHeader::kMagic;
  uint16_t version = MessageHeader::kVersion;
  uint16_t reserved = 0;
  uint64_t run = 0;
  int64_t generation = 0;
  int32_t edge = 0;
  uint32_t reserved2 = 0;
  char nonce[32] = {};

  EdgeIdentity identity() const { return {run, generation, edge}; }
};
static_assert(sizeof(LinkHello) == 64);

using LinkProof = std::string;  // 32 bytes

struct LinkChallenge {
  char nonce[32] = {};
  char proof[32] = {};
};
static_assert(sizeof(LinkChallenge) == 64);

// The listener's last word.
constexpr uint32_t kWelcome = 0x4f4b4d47;  // "GMKO"

LinkHello MakeHello(const EdgeIdentity& edge);
LinkChallenge MakeChallenge(const std::string& key, const LinkHello& hello);
LinkProof DiallerProof(const std::string& key, const LinkHello& hello,
                       const LinkChallenge& challenge);

// Whether the other end knows the key.
bool ChallengeHolds(const std::string& key, const LinkHello& hello,
                    const LinkChallenge& challenge);
bool ProofHolds(const std::string& key, const LinkHello& hello,
                const LinkChallenge& challenge, const LinkProof& proof);

}  // namespace gimbal::worker
