#include "daemon/redis/redis_stream.h"

#include <openssl/ssl.h>

#include <stdexcept>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/system/error_code.hpp>

namespace pulsewheel {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

void require_usable(error_code ec, const char* what, const std::string& path) {
  if (ec) throw std::runtime_error(std::string(what) + " '" + path + "': " + ec.message());
}

void load_files(asio::ssl::context& context, const RedisTls& tls) {
  error_code ec;
  if (tls.ca_file.empty()) {
    context.set_default_verify_paths(ec);
    require_usable(ec, "certificates of authorities", "of the system");
  } else {
    context.load_verify_file(tls.ca_file, ec);
    require_usable(ec, "certificates of authorities", tls.ca_file);
  }
  if (tls.cert_file.empty()) return;
  context.use_certificate_chain_file(tls.cert_file, ec);
  require_usable(ec, "certificate", tls.cert_file);
  context.use_private_key_file(tls.key_file, asio::ssl::context::pem, ec);
  require_usable(ec, "private key", tls.key_file);
}

bool is_address(const std::string& name) {
  error_code ec;
  static_cast<void>(asio::ip::make_address(name, ec));
  return !ec;
}

}  // namespace

void RedisStream::use_tls(const RedisTls& tls) {
  context_.emplace(asio::ssl::context::tls_client);
  load_files(*context_, tls);
  tls_.emplace(socket_, *context_);
  tls_->set_verify_mode(asio::ssl::verify_peer);
  tls_->set_verify_callback(asio::ssl::host_name_verification(tls.server_name));
  SSL* const ssl = tls_->native_handle();
  SSL_set_min_proto_version(ssl, TLS1_2_VERSION);
  // Names only: the extension has no form for addresses.
  if (is_address(tls.server_name)) return;
  // SSL_set_tlsext_host_name(), whose macro has a C cast.
  SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
           const_cast<char*>(tls.server_name.c_str()));
}

void RedisStream::close() noexcept {
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace pulsewheel
