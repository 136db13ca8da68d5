// Asio's own code for TLS, compiled once, apart from the rest: it brings OpenSSL.
#include <boost/asio/ssl/impl/src.hpp>
