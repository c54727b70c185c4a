// Whether the files of mutual TLS are what they should be, before they are
// used: gRPC would only say that a handshake failed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gimbal::rpc {

// FAILED_PRECONDITION, naming the file, when one cannot be read or is no PEM,
// when the key is not the certificate's, and when the certificate is not (or
// not now) vouched for by the authority.
absl::Status CheckCertificateFiles(const std::string& ca,
                                   const std::string& cert,
                                   const std::string& key);

// What a certificate says of its host.
struct HostCertificate {
  std::vector<std::string> names;  // and addresses, as they stand in it
  double until = 0;                // Unix seconds
  bool is_for_host = false;        // peers that dial `host` take it for that
};

// Of the first certificate in the file. FAILED_PRECONDITION as above.
absl::StatusOr<HostCertificate> ReadHostCertificate(const std::string& path,
                                                    const std::string& host);

}  // namespace gimbal::rpc
