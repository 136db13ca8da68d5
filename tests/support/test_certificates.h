// TestCertificates: an authority of a test's own, and certificates by it.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {

/// Files in PEM, made by the openssl program. Each certificate NAME.pem has its key in NAME.key.
class TestCertificates {
 public:
  TestCertificates() { make("ca", "-addext basicConstraints=critical,CA:TRUE"); }

  /// One by the authority, for `subjects` as in "DNS:localhost,IP:127.0.0.1".
  void add(const std::string& name, const std::string& subjects) {
    make(name, "-CA '" + path("ca.pem") + "' -CAkey '" + path("ca.key") +
                   "' -addext subjectAltName=" + subjects);
  }

  [[nodiscard]] std::string path(const std::string& file) const { return folder_ / file; }

 private:
  void make(const std::string& name, const std::string& options) {
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj "
        "/CN=" +
        name + " -keyout '" + path(name + ".key") + "' -out '" + path(name + ".pem") + "' " +
        options + " 2>'" + path("log") + "'";
    if (std::system(command.c_str()) != 0) {
      throw std::runtime_error("openssl made no certificate: " + read_file(path("log")));
    }
  }

  TemporaryFolder folder_;
};

}  // namespace pulsewheel::test
