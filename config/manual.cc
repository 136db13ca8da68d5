// The table of keys as a manual page, in the macros of man(7).

#include <string>
#include <string_view>

#include "config/config.h"
#include "config/key_text.h"
#include "config/keys.h"

namespace pulsewheel {
namespace {

/// Of input lines; what a reader sees is laid out anew.
constexpr std::size_t kSourceWidth = 79;

constexpr std::string_view kHead = R"(.\" Generated from config/keys.cc: change it there.
.TH PULSEWHEEL.TOML 5 2026-11-30 pulsewheel "Presence daemon"
.SH NAME
pulsewheel.toml \- configuration of the presence daemon
.SH SYNOPSIS
.I /etc/pulsewheel/pulsewheel.toml
.SH DESCRIPTION
The file is TOML, of at most 1\ MiB.
A key that it does not name has its default; an unknown one is an error.
.B "pulsewheeld \-\-check\-config"
says what is wrong with a file, by line, key and allowed range.
.PP
Stronger than the file are environment variables
.RB ( PULSEWHEEL_PRESENCE_TICK
for
.B tick
in
.BR [presence] ),
and stronger than both is
.B "\-\-set presence.tick=100ms"
on the command line.
.PP
A
.I duration
is a text as "1m30s", with the units h, m, s, ms and us; a
.I size
is a text as "16KiB", with B, KiB, MiB and GiB.
.PP
.B "systemctl reload pulsewheeld"
(or SIGHUP) reads the file again.
A file with a mistake changes nothing.
What a reload applies, and what takes a restart, is said at each key.
)";

constexpr std::string_view kTail = R"(.SH EXAMPLES
.EX
[server]
max_connections = 200000

[[listener]]
address = "*"
port = 7600

[presence]
timeout = "45s"
.EE
.SH SEE ALSO
.BR pulsewheeld (8),
.BR pulsewheelctl (1)
)";

/// With what troff takes for its own made harmless.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else {
      safe += c;
    }
  }
  return safe;
}

/// Each sentence begins a line, and none begins with a troff control character.
void append_text(std::string& page, std::string_view text) {
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string word = escaped(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
    if (column > 0 && column + 1 + word.size() > kSourceWidth) {
      page += '\n';
      column = 0;
    } else if (column > 0) {
      page += ' ';
      ++column;
    }
    if (column == 0 && (word[0] == '.' || word[0] == '\'')) page += "\\&";
    page += word;
    column += word.size();
    if (word.back() == '.' && !text.empty()) {
      page += '\n';
      column = 0;
    }
  }
  page += '\n';
}

template <class Owner>
void append_key(std::string& page, const Key<Owner>& key) {
  page += ".TP\n.B \"" + escaped(leaf_of(key.name)) + "\"\n";
  append_text(page, key.doc);
  page += ".br\n";
  append_text(page, key_facts(key));
}

void append_section(std::string& page, const Section& section) {
  const bool is_listener = section.name == kListenerSection;
  const std::string name{section.name};
  page += ".SS " + (is_listener ? "[[" + name + "]]" : "[" + name + "]") + "\n";
  append_text(page, section.doc);
  if (is_listener) {
    for (const auto& key : listener_keys())
      append_key(page, key);
    return;
  }
  for (const Key<Config>& key : section_keys()) {
    if (section_of(key.name) == section.name) append_key(page, key);
  }
}

}  // namespace

std::string print_manual_page() {
  std::string page{kHead};
  page += ".SH KEYS\n";
  for (const Section& section : sections())
    append_section(page, section);
  page += kTail;
  return page;
}

}  // namespace pulsewheel
