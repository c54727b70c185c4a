// Whether the files of mutual TLS are what they should be, before they are
// used: gRPC would only say that a handshake failed.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace gimbal::rpc {

// FAILED_PRECONDITION, naming the file, when one cannot be read or is no PEM,
// when the key is not the certificate's, and when the certificate is not (or
// not now) vouched for by the authority.
absl::Status CheckCertificateFiles(const std::string& ca,
                                   const std::string& cert,
                                   const std::string& key);

}  // namespace gimbal::rpc
