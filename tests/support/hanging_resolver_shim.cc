// A library for LD_PRELOAD in which no look-up of a name ever ends, as with a name server that does
// not answer.
#include <netdb.h>
#include <unistd.h>

extern "C" int getaddrinfo(const char* /*node*/, const char* /*service*/, const addrinfo* /*hints*/,
                           addrinfo** /*result*/) {
  for (;;)
    ::pause();
}
