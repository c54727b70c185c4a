#include "common/rpc/certificate_files.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"

namespace gimbal::rpc {
namespace {

void FreeStack(STACK_OF(X509) * stack) { sk_X509_free(stack); }

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Store = std::unique_ptr<X509_STORE, Free<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>>;
using Stack = std::unique_ptr<STACK_OF(X509), Free<FreeStack>>;

absl::Status Bad(const std::string& path, const std::string& what) {
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<Bio> Open(const std::string& path, std::string& text) {
  absl::StatusOr<std::string> read = io::ReadFile(path);
  if (!read.ok()) {
    return absl::FailedPreconditionError(read.status().message());
  }
  text = *std::move(read);
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(
    const std::string& path) {
  std::string text;
  GIMBAL_ASSIGN_OR_RETURN(const Bio bio, Open(path, text));
  std::vector<Certificate> certificates;
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(one);
  }
  if (certificates.empty()) {
    return Bad(path,
               "no certificate in it; expected PEM (-----BEGIN "
               "CERTIFICATE-----), as deploy/certs.sh makes");
  }
  ERR_clear_error();
  return certificates;
}

absl::StatusOr<Key> ReadKey(const std::string& path) {
  std::string text;
  GIMBAL_ASSIGN_OR_RETURN(const Bio bio, Open(path, text));
  // Nobody is there to be asked for a pass phrase.
  char no_phrase[] = "";
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, no_phrase));
  if (key == nullptr) {
    return Bad(path,
               "no private key in it; expected PEM (-----BEGIN PRIVATE "
               "KEY-----) without a pass phrase");
  }
  return key;
}

absl::Status CheckChain(const std::vector<Certificate>& authority,
                        const std::vector<Certificate>& chain,
                        const std::string& ca, const std::string& cert) {
  const Store store(X509_STORE_new());
  for (const Certificate& one : authority) {
    X509_STORE_add_cert(store.get(), one.get());
  }
  const Stack between(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) {
    sk_X509_push(between.get(), chain[i].get());
  }
  const StoreContext context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(),
                      between.get());
  if (X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  const int error = X509_STORE_CTX_get_error(context.get());
  return Bad(cert, absl::StrCat("peers that trust ", ca, " would refuse it: ",
                                X509_verify_cert_error_string(error),
                                "; renew it (deploy/certs.sh) or give the "
                                "authority that signed it"));
}

std::string TextOf(const GENERAL_NAME& name) {
  const auto bytes = [](const ASN1_STRING* text) {
    return std::string(
        reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
        static_cast<size_t>(ASN1_STRING_length(text)));
  };
  if (name.type == GEN_DNS) return bytes(name.d.dNSName);
  if (name.type != GEN_IPADD) return "";
  const std::string number = bytes(name.d.iPAddress);
  char text[INET6_ADDRSTRLEN] = {};
  const int family = number.size() == 4 ? AF_INET : AF_INET6;
  return inet_ntop(family, number.data(), text, sizeof text) ? text : "";
}

std::vector<std::string> NamesIn(X509* certificate) {
  std::vector<std::string> names;
  const Names all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    std::string name = TextOf(*sk_GENERAL_NAME_value(all.get(), i));
    if (!name.empty()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

absl::Status CheckCertificateFiles(const std::string& ca,
                                   const std::string& cert,
                                   const std::string& key) {
  GIMBAL_ASSIGN_OR_RETURN(const auto authority, ReadCertificates(ca));
  GIMBAL_ASSIGN_OR_RETURN(const auto chain, ReadCertificates(cert));
  GIMBAL_ASSIGN_OR_RETURN(const Key own, ReadKey(key));
  if (X509_check_private_key(chain[0].get(), own.get()) != 1) {
    return Bad(key, absl::StrCat("not the key of the certificate in ", cert));
  }
  return CheckChain(authority, chain, ca, cert);
}

absl::StatusOr<HostCertificate> ReadHostCertificate(const std::string& path,
                                                    const std::string& host) {
  GIMBAL_ASSIGN_OR_RETURN(const auto chain, ReadCertificates(path));
  X509* const own = chain[0].get();
  std::tm until = {};
  ASN1_TIME_to_tm(X509_get0_notAfter(own), &until);
  // Brackets are of the address, not of the host.
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  const std::string bare = bracketed ? host.substr(1, host.size() - 2) : host;
  return HostCertificate{
      .names = NamesIn(own),
      .until = static_cast<double>(timegm(&until)),
      .is_for_host =
          X509_check_host(own, bare.data(), bare.size(), 0, nullptr) == 1 ||
          X509_check_ip_asc(own, bare.c_str(), 0) == 1};
}

}  // namespace gimbal::rpc
