// What a client of an HTTP port on loopback sees.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace gimbal::test_support {

// A connection to the port of `address`; ends with the object.
class HttpConnection {
 public:
  explicit HttpConnection(const std::string& address)
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(std::stoi(address.substr(address.rfind(':') + 1)));
    inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
    connected_ =
        connect(fd_, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) == 0;
  }
  ~HttpConnection() { close(fd_); }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool Send(const std::string& bytes) {
    return connected_ &&
           send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
  }
  // All until the server ends the connection.
  std::string ReadAll() {
    std::string answer;
    char buffer[4096];
    for (ssize_t count = 0; (count = read(fd_, buffer, sizeof(buffer))) > 0;) {
      answer.append(buffer, count);
    }
    return answer;
  }

 private:
  const int fd_;
  bool connected_ = false;
};

// The whole answer, headers included; empty when there is none.
inline std::string HttpGet(const std::string& address,
                           const std::string& path) {
  HttpConnection connection(address);
  if (!connection.Send("GET " + path + " HTTP/1.0\r\n\r\n")) return "";
  return connection.ReadAll();
}

}  // namespace gimbal::test_support
