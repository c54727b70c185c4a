#include "tests/e2e/security/attacks.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <random>
#include <sstream>

#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "gimbal/v1/admin_service.grpc.pb.h"
#include "tests/support/command.h"
#include "worker/transport/link_handshake.h"

namespace gimbal::test_support {
namespace {

base::SteadyTime Soon() {
  return base::Clock::Real().Now() + std::chrono::seconds(20);
}

// What ports of other protocols are asked, and the beginnings of ours.
const std::string kGreetings[] = {
    "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),  // TLS
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    // A frame of HTTP/2 that says it is as long as it can be.
    std::string(
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x01\x25\x00\x00\x00"
        "\x01",
        33),
    "SSH-2.0-OpenSSH_9.2\r\n", "GMBL", "\n"};

// Connects and says half of it.
bool Begin(HeldConnection& held) {
  auto socket = net::ConnectTo(held.address, Soon());
  if (!socket.ok()) return false;
  held.socket = *std::move(socket);
  held.said = held.greeting.size() / 2;
  (void)held.socket.WriteAll(held.greeting.data(), held.said, nullptr, 0).ok();
  return true;
}

}  // namespace

std::vector<std::string> PortsOf(const std::vector<int>& pids) {
  std::vector<std::string> ports;
  std::istringstream sockets(Run({"/usr/bin/ss", "-tlnpH"}).output);
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream fields(line);
    std::string state, queue, local;
    fields >> state >> queue >> queue >> local;
    for (const int pid : pids) {
      if (line.find("pid=" + std::to_string(pid) + ",") != std::string::npos) {
        ports.push_back(local);
      }
    }
  }
  return ports;
}

absl::Status TryToStop(const std::string& coordinator,
                       const rpc::Credentials& credentials) {
  const auto stub =
      v1::AdminService::NewStub(rpc::MakeChannel(coordinator, credentials));
  grpc::ClientContext context;
  rpc::SetTimeout(context, std::chrono::seconds(20));
  v1::CommandRequest request;
  request.set_verb(v1::CommandRequest::VERB_STOP);
  v1::CommandResponse response;
  return rpc::FromGrpc(stub->Command(&context, request, &response));
}

absl::Status CallWithBytes(const std::string& coordinator,
                           const rpc::Credentials& credentials,
                           const std::string& method,
                           const std::string& bytes) {
  grpc::GenericStub stub(rpc::MakeChannel(coordinator, credentials));
  grpc::ClientContext context;
  rpc::SetTimeout(context, std::chrono::seconds(20));
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return rpc::FromGrpc(status);
}

void SendGarbage(const std::string& address, unsigned seed) {
  std::mt19937 random(seed);
  std::string noise(1 + random() % 20000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  for (const std::string& greeting : kGreetings) {
    for (const bool with_noise : {false, true}) {
      const auto socket = net::ConnectTo(address, Soon());
      if (!socket.ok()) continue;  // full, or over
      const std::string text = with_noise ? greeting + noise : greeting;
      (void)socket->WriteAll(text.data(), text.size(), nullptr, 0).ok();
    }
  }
}

void SendForgedLink(const std::string& address,
                    const worker::EdgeIdentity& edge) {
  const auto socket = net::ConnectTo(address, Soon());
  if (!socket.ok()) return;
  const worker::LinkHello hello = worker::MakeHello(edge);
  if (!socket->WriteAll(&hello, sizeof hello, nullptr, 0).ok()) return;
  worker::LinkChallenge challenge;
  (void)socket->ReadAll(&challenge, sizeof challenge, Soon()).ok();
  const auto proof = worker::DiallerProof("guessed", hello, challenge);
  (void)socket->WriteAll(proof.data(), proof.size(), nullptr, 0).ok();
}

std::vector<HeldConnection> HoldConnections(const std::string& address,
                                            int count) {
  std::vector<HeldConnection> held;
  for (int i = 0; i < count; ++i) {
    HeldConnection one{.address = address,
                       .greeting = kGreetings[static_cast<size_t>(i) % 7],
                       .socket = {}};
    if (!Begin(one)) break;
    held.push_back(std::move(one));
  }
  return held;
}

void Dribble(std::vector<HeldConnection>& held) {
  for (HeldConnection& one : held) {
    const bool more =
        one.said < one.greeting.size() &&
        one.socket.WriteAll(&one.greeting[one.said], 1, nullptr, 0).ok();
    if (more) {
      ++one.said;
    } else {
      Begin(one);  // in vain where the port is full
    }
  }
}

}  // namespace gimbal::test_support
