#include "coordinator/cli/doctor_security.h"

#include <sys/stat.h>

#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/net/address.h"
#include "common/rpc/certificate_files.h"

namespace gimbal::cli {
namespace {

// Time for somebody who looks once a week.
constexpr double kRenewBefore = 14 * 86400.0;

Finding Say(Health health, const std::string& text) {
  return {"security", health, text};
}

std::string DateOf(double unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

// Empty, or which of the secrets any user of this machine can read.
std::string OpenSecret(const rpc::SecurityFiles& files) {
  for (const std::string& path : {files.key, files.token}) {
    struct stat file = {};
    if (!path.empty() && stat(path.c_str(), &file) == 0 &&
        (file.st_mode & S_IROTH) != 0) {
      return path;
    }
  }
  return "";
}

Finding CheckNone(const Exposure& exposure) {
  const rpc::Credentials none;
  if (!exposure.listen.empty()) {
    const absl::Status listens =
        none.CheckListen("cluster.listen", exposure.listen);
    if (!listens.ok()) {
      return Say(Health::kFail, std::string(listens.message()));
    }
  }
  if (exposure.advertise.empty() || net::IsLoopback(exposure.advertise)) {
    return Say(Health::kOk, "none: only this machine can connect");
  }
  return Say(
      Health::kFail,
      absl::StrCat("other hosts are to reach this one at ", exposure.advertise,
                   ", and nothing would tell who they are; set "
                   "cluster.tls or cluster.token_file (or "
                   "GIMBAL_TLS_CA, GIMBAL_TLS_CERT and GIMBAL_TLS_KEY, "
                   "or GIMBAL_TOKEN_FILE), see deploy/SECURITY.md"));
}

Finding CheckCertificate(const rpc::SecurityFiles& files,
                         const std::string& host, double now) {
  const auto own = rpc::ReadHostCertificate(files.cert, host);
  if (!own.ok()) {
    return Say(Health::kFail, std::string(own.status().message()));
  }
  const std::string text =
      absl::StrCat("certificate for ", absl::StrJoin(own->names, ", "),
                   " until ", DateOf(own->until));
  if (!host.empty() && !own->is_for_host) {
    return Say(Health::kFail,
               absl::StrCat(text, ", but not for ", host,
                            ", by which others reach this host: they would "
                            "refuse it; make one that names it (deploy/"
                            "certs.sh DIR host NAME ALSO..)"));
  }
  if (own->until - now < kRenewBefore) {
    return Say(Health::kWarning,
               text + ": renew it (deploy/certs.sh DIR renew NAME)");
  }
  return Say(Health::kOk, files.token.empty() ? text : text + ", and a token");
}

}  // namespace

Finding CheckSecurity(const rpc::SecurityFiles& files, const Exposure& exposure,
                      double now) {
  const auto credentials = rpc::Credentials::Load(files);
  if (!credentials.ok()) {
    return Say(Health::kFail, std::string(credentials.status().message()));
  }
  if (!credentials->any()) return CheckNone(exposure);
  if (const std::string path = OpenSecret(files); !path.empty()) {
    return Say(Health::kWarning,
               absl::StrCat(path,
                            ": every user of this machine can read it; give "
                            "it to gimbal's user alone (chmod 600)"));
  }
  if (!files.cert.empty()) {
    return CheckCertificate(files, exposure.advertise, now);
  }
  return Say(Health::kOk, "a token, which travels in the clear");
}

}  // namespace gimbal::cli
