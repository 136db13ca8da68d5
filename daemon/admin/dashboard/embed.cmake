# Puts the dashboard's files into a C++ source, as they are:
#
#   cmake -D OUT=dashboard_files.cc -D "FILES=/path/index.html;/path/main.js" -P embed.cmake

set(type_html "text/html; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_svg "image/svg+xml")

set(arrays)
set(entries)
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  get_filename_component(stem ${file} NAME_WE)
  string(REGEX MATCH "[a-z]+$" extension ${name})
  if(NOT type_${extension})
    message(FATAL_ERROR "${name}: no content type is known for .${extension} files")
  endif()
  # The hash is the ETag: sixteen digits tell a handful of files apart.
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 16 hash)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(REPLACE "'\\x0a'," "'\\x0a',\n" bytes "${bytes}")
  set(array k_${stem}_${extension})
  string(APPEND arrays "constexpr char ${array}[] = {\n${bytes}};\n")
  string(APPEND entries
    "    {\"${name}\", \"${type_${extension}}\", \"\\\"${hash}\\\"\", {${array}, sizeof ${array}}},\n")
endforeach()

file(WRITE ${OUT} "// Made by embed.cmake.
#include \"daemon/admin/dashboard.h\"

namespace pulsewheel {
namespace {

${arrays}
constexpr DashboardFile kFiles[] = {
${entries}};

}  // namespace

std::span<const DashboardFile> dashboard_files() noexcept {
  return kFiles;
}

}  // namespace pulsewheel
")
