// Asio's and Beast's own code, compiled once for all programs (their separate-compilation mode).
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
