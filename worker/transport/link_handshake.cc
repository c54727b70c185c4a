#include "worker/transport/link_handshake.h"

#include <algorithm>
#include <string_view>

#include "common/net/secret.h"

namespace gimbal::worker {
namespace {

// What is not under the key would be whatever a third party makes of it.
LinkProof Proof(const std::string& key, std::string_view role,
                const LinkHello& hello, std::string_view listener_nonce) {
  std::string text(role);
  text.append(reinterpret_cast<const char*>(&hello), sizeof hello);
  text.append(listener_nonce);
  return net::HmacSha256(key, text);
}

LinkProof ListenerProof(const std::string& key, const LinkHello& hello,
                        std::string_view nonce) {
  return Proof(key, "gimbal link listener", hello, nonce);
}

template <size_t size>
std::string_view View(const char (&bytes)[size]) {
  return {bytes, size};
}

template <size_t size>
void Fill(char (&bytes)[size], const std::string& from) {
  std::copy_n(from.data(), size, bytes);
}

}  // namespace

LinkHello MakeHello(const EdgeIdentity& edge) {
  LinkHello hello{
      .run = edge.run, .generation = edge.generation, .edge = edge.edge};
  Fill(hello.nonce, net::RandomBytes(sizeof hello.nonce));
  return hello;
}

LinkChallenge MakeChallenge(const std::string& key, const LinkHello& hello) {
  LinkChallenge challenge;
  Fill(challenge.nonce, net::RandomBytes(sizeof challenge.nonce));
  Fill(challenge.proof, ListenerProof(key, hello, View(challenge.nonce)));
  return challenge;
}

LinkProof DiallerProof(const std::string& key, const LinkHello& hello,
                       const LinkChallenge& challenge) {
  return Proof(key, "gimbal link dialler", hello, View(challenge.nonce));
}

bool ChallengeHolds(const std::string& key, const LinkHello& hello,
                    const LinkChallenge& challenge) {
  return net::SameSecret(ListenerProof(key, hello, View(challenge.nonce)),
                         View(challenge.proof));
}

bool ProofHolds(const std::string& key, const LinkHello& hello,
                const LinkChallenge& challenge, const LinkProof& proof) {
  return net::SameSecret(DiallerProof(key, hello, challenge), proof);
}

}  // namespace gimbal::worker
