// What a scraper of a port on loopback sees.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace gimbal::test_support {

// The whole answer, headers included; empty when there is none.
inline std::string HttpGet(const std::string& address,
                           const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(std::stoi(address.substr(address.rfind(':') + 1)));
  inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    if (write(fd, request.data(), request.size()) > 0) {
      char buffer[4096];
      ssize_t count = 0;
      while ((count = read(fd, buffer, sizeof(buffer))) > 0) {
        answer.append(buffer, count);
      }
    }
  }
  close(fd);
  return answer;
}

}  // namespace gimbal::test_support
